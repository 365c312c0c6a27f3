"""Lasso stability: the test's lemma, h under neighbours, both methods end to end (T26).

Audits are exact. The two statistical tests have fixed seeds and a false-alarm rate of 1e-6 each.
Broken twins must be caught by the same checks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpsubset import Problem
from dpsubset.errors import InputError, RefusedError, UnprovenError
from dpsubset.limits import Limits
from dpsubset.mechanisms import lasso_stability, tested
from dpsubset.mechanisms.lasso import lasso_point
from dpsubset.mechanisms.lasso_stability import LassoStability
from dpsubset.mechanisms.tested import passing, threshold
from dpsubset.planning.generate import paper_table
from dpsubset.privacy import as_randomness

FALSE_ALARM = 1e-6
NEIGHBOURS = ("replace-one", "add-remove")

Outcome = tuple[float, tuple[int, ...] | None]  # h, and what is released if the test passes


def heaviest(X: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    """Choose the columns with the largest sums; fail or choose too few where a row says so."""
    if len(X) and X[:, 0].min() < -0.9:
        raise RuntimeError("secret")
    return np.argsort(-X.sum(axis=0), kind="stable")[: count - int(X[:, 0].sum() > 0.9)]


def make_problem(X: np.ndarray, y: np.ndarray | None = None, size: int = 1, **more: Any) -> Problem:
    options = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, **more}
    return Problem(X, np.zeros(len(X)) if y is None else y, size=size, **options)


# ---- the lemma --------------------------------------------------------------------------------


def excess(first: Outcome, second: Outcome, epsilon: float, delta: float) -> float:
    """Return the largest P(K) - e^eps P'(K) over all sets of outcomes, less delta, exactly."""
    laws: list[dict[Any, float]] = []
    for h, chosen in (first, second):
        chance = passing(h, epsilon, delta) if chosen is not None else 0.0
        refuse = 1.0 - chance
        laws.append({"refused": refuse} | ({chosen: chance} if chosen is not None else {}))
    worst = 0.0
    for one, other in (laws, laws[::-1]):
        parts = (value - math.exp(epsilon) * other.get(key, 0.0) for key, value in one.items())
        worst = max(worst, sum(max(part, 0.0) for part in parts))
    return worst - delta


def worst_of_lemma() -> float:
    """Return the largest excess over a grid of h and h' at most 1 apart, in units of delta."""
    worst = -math.inf
    grid = np.linspace(0, 20, 81)
    for epsilon, delta in itertools.product((0.1, 1.0, 5.0), (1e-6, 0.01, 0.3)):
        for h, other in itertools.product(grid, grid):
            if abs(h - other) <= 1:
                kinds = [(1,), (2,)] if max(h, other) <= 1 else [(1,)]
                for kind in kinds:
                    found = excess((h, (1,)), (other, kind), epsilon, delta)
                    worst = max(worst, found / delta)
    return worst


def test_the_lemma_holds_and_is_tight() -> None:
    assert -1e-6 < worst_of_lemma() < 1e-6


@pytest.mark.parametrize("broken", ["lower", "no delta"])
def test_the_lemma_fails_for_a_lower_threshold(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lower = {"lower": lambda eps, d: threshold(eps, d) - 1.0, "no delta": lambda eps, d: 1.0}
    monkeypatch.setattr(tested, "threshold", lower[broken])
    assert worst_of_lemma() > 0.01


# ---- subsampling: h under neighbours ------------------------------------------------------------


@dataclass(frozen=True)
class Tables:
    """Neighbouring tables with their fixed partitions, for one number of repeats."""

    tables: list[np.ndarray]
    labels: list[list[np.ndarray]]
    pairs: list[tuple[int, int]]
    repeats: int


def voting_tables(neighbours: str, seed: int) -> Tables:
    """Make tables of few blocks in which one row, at a corner, turns every block that it is in."""
    rng = np.random.default_rng(seed)
    n, blocks, repeats = 24, 8, int(rng.integers(1, 4))
    lean = rng.choice([0.0, 0.05, 0.1])
    base = rng.uniform(-0.1, 0.1, (n, 4)) + lean * (np.arange(4) < 2)
    corners = rng.choice([-1.0, 0.0, 1.0], (6, 4))
    place = int(rng.integers(n + 1))
    longer = [rng.integers(0, blocks, n + 1) for _ in range(repeats)]
    tables = [np.insert(base, place, corner, axis=0) for corner in corners]
    labels = [longer for _ in corners]
    pairs = list(itertools.combinations(range(len(tables)), 2))
    if neighbours == "add-remove":
        pairs = [(i, len(tables)) for i in range(len(tables))]
        tables.append(base)
        labels.append([np.delete(one, place) for one in longer])
    return Tables(tables, labels, pairs, repeats)


def voted(tables: Tables, neighbours: str) -> list[Outcome]:
    outcomes: list[Outcome] = []
    real = lasso_stability.deal
    for table, labels in zip(tables.tables, tables.labels, strict=True):
        waiting = iter(labels)
        mechanism = LassoStability(
            1.0, blocks=8, repeats=tables.repeats, selector=heaviest, neighbours=neighbours
        )
        try:
            lasso_stability.deal = lambda *given, waiting=waiting: next(waiting)
            h, chosen = mechanism._voted(make_problem(table, size=2))(as_randomness(0))
        finally:
            lasso_stability.deal = real
        outcomes.append((h, None if chosen is None else tuple(chosen.tolist())))
    return outcomes


def audit(outcomes: list[Outcome], pairs: list[tuple[int, int]]) -> tuple[float, int]:
    """Return how far h moves at most, and how often a stable answer changes."""
    moves = [abs(outcomes[i][0] - outcomes[j][0]) for i, j in pairs]
    changes = sum(
        outcomes[i][1] != outcomes[j][1] and max(outcomes[i][0], outcomes[j][0]) > 1
        for i, j in pairs
    )
    return max(moves), changes


def audit_of_votes(neighbours: str) -> tuple[float, int, float, int]:
    """Return the largest move, the changes of stable answers, the largest h, other changes."""
    move, changed, top, other = 0.0, 0, 0.0, 0
    for seed in range(70):
        tables = voting_tables(neighbours, seed)
        outcomes = voted(tables, neighbours)
        found = audit(outcomes, tables.pairs)
        move, changed = max(move, found[0]), changed + found[1]
        top = max(top, *(h for h, _ in outcomes))
        other += sum(outcomes[i][1] != outcomes[j][1] for i, j in tables.pairs)
    return move, changed, top, other


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_one_row_moves_the_lead_by_one(neighbours: str) -> None:
    move, changed, top, other = audit_of_votes(neighbours)
    assert move == pytest.approx(1.0, rel=1e-12)
    assert changed == 0
    assert top > 2
    assert other > 20  # answers do change, where h is small


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_a_lead_counted_too_high_is_caught(
    neighbours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = lasso_stability._lead
    monkeypatch.setattr(
        lasso_stability, "_lead", lambda ballots, repeats: real(ballots, repeats / 2)
    )
    move, changed, _, _ = audit_of_votes(neighbours)
    assert move > 1
    assert changed > 0


# ---- perturbation: h under neighbours -----------------------------------------------------------

N = 600
# Which margin is the smallest: the penalty, the share of curvature, and the coefficients' size
FAMILIES = {
    "size": (130.0, 0.9, 0.03),
    "norm": (130.0, 0.9, 0.074),
    "slack": (24.0, 0.9, 0.04),
    "curvature": (130.0, 0.993, 0.04),
    "two columns": (140.0, 0.85, 0.06),
}
CORNERS = np.array(list(itertools.product([-1.0, 0.0, 1.0], [-1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0])))


@cache
def lasso_tables(family: str, strength: float) -> list[Problem]:
    """Make tables that differ in their last row: near the worst case, small |b| and x = +-1.

    The target is one that gives the coefficients of the family times the strength.
    """
    penalty, _, size = FAMILIES[family]
    s = 2 if family == "two columns" else 1
    rng = np.random.default_rng(5)
    X = rng.choice([-1.0, 1.0], (N - 1, 3))
    if family == "slack":
        X[: N // 2, 2] = X[: N // 2, 0]  # correlated by a half
    beta = np.array([1.0, 1.0, 0.0]) if s == 2 else np.array([1.0, 0.0, 0.0])
    y = X @ beta * (size * strength + penalty / N)
    problems = []
    for row in CORNERS:
        table, target = np.vstack([X, row[:3]]), np.append(y, row[3])
        problems.append(make_problem(table, target, size=s))
    return problems


def mechanism_of(family: str) -> LassoStability:
    penalty, share, _ = FAMILIES[family]
    return LassoStability(
        1.0, 0.05, method="perturbation", penalty=penalty, l1_bound=0.08, curvature=share
    )


def outcomes_of(family: str) -> Iterator[list[Outcome]]:
    mechanism = mechanism_of(family)
    for strength in (0.02, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0):
        found = [mechanism._margins(p)(as_randomness(0)) for p in lasso_tables(family, strength)]
        yield [(h, None if c is None else tuple(c.tolist())) for h, c in found]


PAIRS = list(itertools.combinations(range(len(CORNERS)), 2))


def audit_of_margins(family: str) -> tuple[float, int, float]:
    """Return the largest move, the changes of stable answers and the largest h of 1932 pairs."""
    move, changed, top = 0.0, 0, 0.0
    for outcomes in outcomes_of(family):
        found = audit(outcomes, PAIRS)
        move, changed = max(move, found[0]), changed + found[1]
        top = max(top, *(h for h, _ in outcomes))
    return move, changed, top


@pytest.mark.parametrize("family", FAMILIES)
def test_one_row_moves_the_margins_by_at_most_one(family: str) -> None:
    move, changed, top = audit_of_margins(family)
    assert 0.5 < move <= 1 + 1e-9
    assert changed == 0
    assert top > 2


@pytest.mark.parametrize("family", ["size", "norm", "slack", "curvature"])
def test_units_that_are_too_small_are_caught(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = lasso_stability.units_of

    def halved(*given: Any) -> Any:
        units = real(*given)
        return replace(units, **{family: getattr(units, family) / 2})

    monkeypatch.setattr(lasso_stability, "units_of", halved)
    assert audit_of_margins(family)[0] > 1.05


def test_random_tables_and_random_rows() -> None:
    """Two columns of four, noise, and one row replaced by a corner or by chance, 400 times."""
    rng = np.random.default_rng(0)
    mechanism = LassoStability(
        1.0, method="perturbation", penalty=220.0, l1_bound=1.0, curvature=0.2
    )
    top, changes = 0.0, 0
    for strength in rng.uniform(0.3, 0.5, 100):
        X = rng.uniform(-1, 1, (1500, 4))
        y = np.clip(strength * (X[:, 1] - X[:, 3]) + rng.normal(scale=0.1, size=1500), -1, 1)
        outcomes = []
        for _ in range(5):
            i = int(np.argmax(X[:, 1] * y))
            rows, target = X.copy(), y.copy()
            rows[i], target[i] = rng.choice([-1.0, 1.0], 4), rng.choice([-1.0, 1.0])
            h, chosen = mechanism._margins(make_problem(rows, target, 2))(as_randomness(0))
            outcomes.append((h, None if chosen is None else tuple(chosen.tolist())))
        move, changed = audit(outcomes, list(itertools.combinations(range(5), 2)))
        assert move <= 1
        top, changes = max(top, *(h for h, _ in outcomes)), changes + changed
    assert changes == 0
    assert top > 2


def test_the_lasso_is_solved_exactly() -> None:
    """The conditions of optimality hold to rounding, and the margins are those of the solution."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        X = rng.uniform(-1, 1, (60, 8)) + 0.5 * rng.uniform(-1, 1, (60, 1))
        y = X @ (rng.normal(size=8) * (rng.random(8) < 0.4)) + 0.2 * rng.normal(size=60)
        penalty = 0.2 * np.abs(X.T @ y).max()
        point = lasso_point(X, y, penalty, 1e-6, 1e-9)
        columns = X[:, point.support]
        fitting = []
        for signs in itertools.product([-1.0, 1.0], repeat=len(point.support)):
            gradient = X.T @ (y - columns @ (point.sizes * signs))
            if np.allclose(gradient[point.support], penalty * np.array(signs), atol=1e-9):
                fitting.append(gradient)
        assert len(fitting) == 1
        assert (point.sizes > 0).all()
        others = np.delete(np.abs(fitting[0]), point.support)
        assert point.slack == pytest.approx(penalty - others.max(), abs=1e-9)
        assert point.slack > 0
        assert point.curvature == pytest.approx(np.linalg.eigvalsh(columns.T @ columns)[0])


# ---- end to end ---------------------------------------------------------------------------------


def excess_end_to_end(method: str) -> float:
    epsilon, delta = 1.0, 0.05
    worst = -math.inf
    if method == "perturbation":
        for outcomes in outcomes_of("size"):
            found = (excess(outcomes[i], outcomes[j], epsilon, delta) for i, j in PAIRS)
            worst = max(worst, *found)
        return worst
    for neighbours, seed in itertools.product(NEIGHBOURS, range(40)):
        tables = voting_tables(neighbours, seed)
        all_of_them = voted(tables, neighbours)
        found = (excess(all_of_them[i], all_of_them[j], epsilon, delta) for i, j in tables.pairs)
        worst = max(worst, *found)
    return worst


@pytest.mark.parametrize("method", ["subsampling", "perturbation"])
def test_both_methods_keep_epsilon_and_delta(method: str) -> None:
    assert excess_end_to_end(method) <= 1e-12


def test_a_broken_lead_breaks_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lasso_stability._lead
    monkeypatch.setattr(
        lasso_stability, "_lead", lambda ballots, repeats: real(ballots, repeats / 2)
    )
    assert excess_end_to_end("subsampling") > 0.01


# ---- draws and refusals -------------------------------------------------------------------------


def agreeing(of_ten: int) -> Problem:
    """Make ten rows of which so many vote for the first column, the others for the second."""
    X = np.zeros((10, 3))
    X[:of_ten, 0] = X[of_ten:, 1] = 0.5
    return make_problem(X)


def refusals(of_ten: int, count: int) -> tuple[int, float]:
    """Return how often draws are refused, and the chance of a refusal."""
    mechanism = LassoStability(0.7, 0.2, blocks=10, selector=heaviest)
    drawn = mechanism.draw(agreeing(of_ten), count, random_state=3)
    assert set(drawn.ravel().tolist()) == {-1, 0}
    h = (of_ten - (10 - of_ten)) / 2
    return int((drawn == -1).sum()), 1.0 - passing(h, 0.7, 0.2)


@pytest.mark.slow
def test_draws_are_refused_as_often_as_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    for of_ten in (7, 9):
        refused, chance = refusals(of_ten, 1200)
        assert stats.binomtest(refused, 1200, chance).pvalue > FALSE_ALARM
    monkeypatch.setattr(tested, "threshold", lambda eps, d: 1.0 + threshold(eps, d))
    refused, _ = refusals(9, 1200)
    assert stats.binomtest(refused, 1200, chance).pvalue < FALSE_ALARM


def test_refusals_all_sound_alike() -> None:
    texts = set()
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (40, 5)), np.zeros(40)
    for target in (y, rng.uniform(-1, 1, 40), X[:, 1]):
        for mechanism in (LassoStability(1.0), LassoStability(1.0, method="perturbation")):
            problem = make_problem(X, target, 2)
            with pytest.raises(RefusedError) as caught:
                mechanism.release(problem)
            texts.add(str(caught.value))
            with pytest.raises(RefusedError) as caught:
                mechanism.experiment(problem, 0)
            texts.add(str(caught.value))
            assert mechanism.draw(problem, 3, 0).tolist() == [[-1, -1]] * 3
    assert len(texts) == 1


def clear(loss: str = "squared", **options: Any) -> Problem:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (3000, 6))
    t = 0.5 * X[:, 2] - 0.5 * X[:, 5]
    if loss == "hinge":
        return make_problem(X, np.sign(t), 2, loss=loss, y_bound=None, classes=(-1, 1), **options)
    return make_problem(X, t, 2, loss=loss, **options)


def test_clear_columns_are_released() -> None:
    release = LassoStability(5.0, 1e-3, repeats=2).release(clear())
    assert release.support == (2, 5)
    assert (release.guarantee.epsilon, release.guarantee.delta) == (5.0, 1e-3)
    assert (release.guarantee.sensitivity, release.guarantee.precision) == (1.0, 0.0)
    assert release.guarantee.condition is None
    mechanism = LassoStability(5.0, 1e-3, method="perturbation")
    assert mechanism.release(clear()).support == (2, 5)
    seeded = mechanism.experiment(clear(exclude=[0]), 0)
    assert (seeded.support, seeded.guarantee.randomness) == ((2, 5), "seeded")


def test_defaults_pass_at_the_papers_settings() -> None:
    """Chances of a release: 99% and 98% at n = 7000 and 8000, eps = 1, delta = 1e-6."""
    for method, n in (("subsampling", 7000), ("perturbation", 8000)):
        table = paper_table(n, 100, seed=1)
        problem = make_problem(table.X, table.y, 5, x_bound=0.5, y_bound=0.5, radius=1.1)
        drawn = LassoStability(1.0, method=method).draw(problem, 2, random_state=0)
        assert drawn.tolist() == [list(table.support)] * 2


def test_constants_are_public() -> None:
    mechanism = LassoStability(1.0, method="perturbation")
    rng = np.random.default_rng(0)
    tables = [make_problem(rng.normal(size=(50, 4)), rng.normal(size=50), 2) for _ in range(2)]
    assert mechanism.units(tables[0]) == mechanism.units(tables[1])


def test_a_solver_that_fails_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> None:
        raise np.linalg.LinAlgError("secret")

    monkeypatch.setattr(np.linalg, "eigvalsh", fail)
    mechanism = LassoStability(5.0, 1e-3, method="perturbation")
    assert mechanism.draw(clear(), 1, 0).tolist() == [[-1, -1]]


@pytest.mark.parametrize("loss", ["absolute", "hinge"])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_subsampling_takes_every_loss(loss: str, neighbours: str) -> None:
    mechanism = LassoStability(5.0, 1e-3, neighbours=neighbours)
    assert mechanism.draw(clear(loss), 2, 0).tolist() == [[2, 5]] * 2
    assert mechanism.draw(clear(loss, include=[5]), 1, 0).tolist() == [[2, 5]]
    assert mechanism.draw(clear(loss, include=[0, 1]), 1, 0).tolist() == [[0, 1]]


def test_tables_without_rows_or_signal_are_refused() -> None:
    empty = make_problem(np.zeros((0, 3)), np.zeros(0))
    for problem in (empty, make_problem(np.zeros((9, 3))), make_problem(np.ones((9, 3)))):
        for method in ("subsampling", "perturbation"):
            mechanism = LassoStability(0.5, method=method)
            assert mechanism.draw(problem, 1, 0).tolist() == [[-1]]


def test_bad_input() -> None:
    for delta in (0.0, 0.5, 1.0, -1e-6, "small"):
        with pytest.raises(InputError, match="delta must be"):
            LassoStability(1.0, delta)
    with pytest.raises(InputError, match="allowed: subsampling, perturbation"):
        LassoStability(1.0, method="objective")
    for option in ({"penalty": 1.0}, {"l1_bound": 2}, {"curvature": 1.0}):
        with pytest.raises(InputError, match="is for the method 'perturbation'"):
            LassoStability(1.0, **option)
    for option in ({"blocks": 1}, {"repeats": 2}, {"selector": "lasso"}):
        with pytest.raises(InputError, match="is for the method 'subsampling'"):
            LassoStability(1.0, method="perturbation", **option)
    with pytest.raises(InputError, match="share of n"):
        LassoStability(1.0, method="perturbation", curvature=1.5)
    with pytest.raises(InputError, match="private under add-remove"):
        LassoStability(1.0, method="perturbation", neighbours="add-remove")
    for problem in (clear("absolute"), clear(include=[1])):
        with pytest.raises(InputError, match="squared loss and no included columns"):
            LassoStability(1.0, method="perturbation").release(problem)
    with pytest.raises(InputError, match="the distribution averages over all partitions"):
        LassoStability(1.0).probabilities(clear())
    with pytest.raises(UnprovenError, match="count the budget as spent"):
        LassoStability(1.0, limits=Limits(nodes=3)).release(clear())
