"""The Markov chain against its definition: scores, single steps, the law it comes to (T24).

Every chi-square test has a fixed seed and a false-alarm rate of 1e-6. The transition matrix is
built here from the definition and from brute-force scores; the broken twins must be caught by the
same checks.
"""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from oracle import (
    LABELLED,
    Case,
    chi_square,
    counts_of,
    exponential_law,
    kinds,
    l1_least,
    random_case,
)
from scipy import sparse
from sklearn.linear_model import lars_path

from dpsubset import Exponential, Problem
from dpsubset.designs import ColumnCache
from dpsubset.designs import gram as gram_module
from dpsubset.designs.dense import DenseDesign
from dpsubset.errors import InputError, UnprovenError
from dpsubset.limits import REFUSED, Allowance, Limits
from dpsubset.mechanisms.markov_chain import MarkovChain
from dpsubset.privacy import Randomness, as_randomness
from dpsubset.problem import IMPRECISE
from dpsubset.sampling import chain, l1_ball

FALSE_ALARM = 1e-6
MANY, FEW = 120, 1


def make_case(kind: str, loss: str = "squared") -> Case:
    """Make a table of 7 columns; "marked" has included and excluded ones."""
    rng = np.random.default_rng(0)
    n = 90 if loss == "squared" else 30
    X = rng.uniform(-1, 1, (n, 7))
    if kind == "correlated":
        X = math.sqrt(0.05) * X + math.sqrt(0.95) * rng.uniform(-1, 1, (n, 1))
    y = X[:, :3] @ np.array([0.6, -0.48, 0.36]) + rng.normal(scale=0.3, size=n)
    y = np.where(y > 0, 1.0, -1.0) if loss in LABELLED else y
    marks = {"include": (1,), "exclude": (5,)} if kind == "marked" else {}
    return Case(kind, X, y, 3, 1.0, 1.0, 0.7, 0.5, loss=loss, **marks)


def make_problem(case: Case) -> Problem:
    return Problem(case.X, case.y, **case.arguments())


# ---- the l1 ball by brute force ------------------------------------------------------------------


def l1_score(case: Case, support: Any) -> float:
    """Minimise over every face of the l1 ball, and without it: one of them has the answer."""
    X, y = case.clipped()
    A = np.vstack([X[:, support], math.sqrt(case.ridge) * np.eye(len(support))])
    z = np.concatenate([y, np.zeros(len(support))])
    free = np.linalg.lstsq(A, z, rcond=1e-12)[0]
    best = np.sum((z - A @ free) ** 2) if np.abs(free).sum() <= case.radius else math.inf
    for signs in itertools.product((-1.0, 0.0, 1.0), repeat=len(support)):
        sign = np.array(signs)
        face = np.flatnonzero(sign)
        if face.size == 0:
            continue
        # A point of the face, and the directions in which the sum of sizes stays.
        start = np.zeros(len(support))
        start[face] = case.radius * sign[face] / face.size
        way = np.zeros((len(support), face.size))
        way[face] = np.linalg.svd(sign[face][None])[2].T
        way = way[:, 1:]
        beta = start + way @ np.linalg.lstsq(A @ way, z - A @ start, rcond=1e-12)[0]
        if np.all(beta * sign >= -1e-12):
            best = min(best, float(np.sum((z - A @ beta) ** 2)))
    return float(best)


def l1_conic(case: Case, support: Any) -> float:
    X, y = case.clipped()
    return l1_least(X[:, support], y, case.ridge, case.radius)


def l1_delta(case: Case, rule: str = "tight") -> float:
    reach = case.x_bound * case.radius
    nearest = max(0.0, case.y_bound - reach) if rule == "tight" else 0.0
    return (case.y_bound + reach) ** 2 - nearest**2


def gain_of(case: Case, support: Any, gap: float) -> tuple[float, float, np.ndarray]:
    X, y = case.clipped()
    A, beta = X[:, support], np.empty(len(support))
    gain, short = l1_ball.l1_gain(A.T @ A, A.T @ y, case.ridge, case.radius, gap, beta)
    return float(y @ y) - gain, short, beta


@pytest.mark.parametrize("kind", kinds("squared"))
def test_scores_over_the_l1_ball(kind: str) -> None:
    for seed in range(16):
        case = random_case(seed, 6, 1 + seed % 4, kind)
        gap = 1e-12 * max(len(case.y), 1) * l1_delta(case, "largest") / 2
        for support in case.supports()[:4]:
            value, short, beta = gain_of(case, support, gap)
            assert short <= gap
            assert np.abs(beta).sum() <= case.radius * (1 + 1e-12)
            exact = l1_score(case, support)
            assert value == pytest.approx(exact, abs=1e-9 * case.scale() + 4 * gap, rel=0)


def test_brute_force_and_clarabel_agree_over_the_l1_ball() -> None:
    for kind in ("plain", "correlated", "marked"):
        case = make_case(kind)
        for support in case.supports():
            assert l1_score(case, support) == pytest.approx(l1_conic(case, support), rel=1e-6)


def test_a_gap_is_certified_wherever_the_point_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no work done the gap is wide, and said to be; a mechanism then refuses."""
    function = getattr(l1_ball.l1_gain, "py_func", l1_ball.l1_gain)
    monkeypatch.setattr(l1_ball, "l1_gain", function)
    monkeypatch.setattr(chain, "l1_gain", function)
    monkeypatch.setattr(l1_ball, "_TRIALS", 0)
    case, wide = make_case("plain"), 0
    for support in case.supports():
        value, short, _ = gain_of(case, support, 0.0)
        assert value - short - 1e-9 <= l1_score(case, support) <= value + 1e-9
        wide += short > 1e-3
    assert wide > 5
    scores = getattr(l1_ball.l1_scores, "py_func", l1_ball.l1_scores)
    monkeypatch.setattr("dpsubset.mechanisms.markov_chain.l1_scores", scores)
    with pytest.raises(UnprovenError, match=IMPRECISE[:40]):
        MarkovChain(1.0, ball="l1").probabilities(make_problem(case))
    interpret(monkeypatch)
    with pytest.raises(UnprovenError, match=IMPRECISE[:40]):
        MarkovChain(1.0, ball="l1").draw(make_problem(case), 1, random_state=0)


# ---- the chain's law -----------------------------------------------------------------------------


@cache
def scores_of(kind: str, ball: str, loss: str = "squared") -> np.ndarray:
    case = make_case(kind, loss)
    if ball == "l1":
        return np.array([l1_score(case, support) for support in case.supports()])
    return case.scores()


def kappa_of(case: Case, ball: str, epsilon: float, neighbours: str) -> float:
    delta = l1_delta(case) if ball == "l1" else case.delta()
    return epsilon / ({"replace-one": 2.0, "add-remove": 1.0}[neighbours] * delta)


def step_matrix(case: Case, scores: np.ndarray, kappa: float) -> np.ndarray:
    """From the definition: every swap has the same chance, and is taken by Metropolis's rule."""
    supports = [set(row) for row in case.supports().tolist()]
    t = case.size - len(case.include)
    swaps = t * (case.X.shape[1] - len(case.include) - len(case.exclude) - t)
    P = np.zeros((len(supports), len(supports)))
    for i, a in enumerate(supports):
        for j, b in enumerate(supports):
            if len(a - b) == 1:
                P[i, j] = min(1.0, math.exp(-kappa * (scores[j] - scores[i]))) / swaps
        P[i, i] = 1.0 - P[i].sum()
    return P


SETTINGS = [
    ("plain", "l2", 6.0, "replace-one"),
    ("plain", "l1", 6.0, "add-remove"),
    ("correlated", "l2", 20.0, "add-remove"),
    ("correlated", "l1", 20.0, "replace-one"),
    ("marked", "l2", 6.0, "replace-one"),
    ("marked", "l1", 6.0, "replace-one"),
]


@pytest.mark.parametrize(("kind", "ball", "epsilon", "neighbours"), SETTINGS)
def test_the_law_is_stationary(kind: str, ball: str, epsilon: float, neighbours: str) -> None:
    case = make_case(kind)
    P = step_matrix(case, scores_of(kind, ball), kappa_of(case, ball, epsilon, neighbours))
    mechanism = MarkovChain(epsilon, ball=ball, neighbours=neighbours)
    supports, logs = mechanism.probabilities(make_problem(case))
    np.testing.assert_array_equal(supports, case.supports())
    law = np.exp(logs)
    flow = law[:, None] * P
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-10)
    np.testing.assert_allclose(law @ P, law, rtol=0, atol=1e-10)
    assert np.ptp(logs) > 0.5  # not flat, so a wrong exponent would show
    wrong = law**2 / np.sum(law**2)
    assert np.abs(wrong @ P - wrong).max() > 1e-4
    if ball == "l2":
        exact = Exponential(epsilon, neighbours=neighbours).probabilities(make_problem(case))[1]
        np.testing.assert_array_equal(logs, exact)


def p_value(mechanism: Any, case: Case, law: np.ndarray, draws: int, seed: int = 1) -> float:
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(law, 0.0))
    found = counts_of(mechanism.draw(make_problem(case), draws, seed), case.supports())
    assert not found[law == 0.0].any()
    p, cells = chi_square(found[law > 0], logs[law > 0])
    assert cells >= 5
    return p


def after(mechanism: MarkovChain, case: Case, loss: str = "squared") -> np.ndarray:
    """Return the law after the mechanism's steps from its start, by powers of the matrix."""
    scores = scores_of(case.kind, mechanism.ball, loss)
    kappa = kappa_of(case, mechanism.ball, mechanism.epsilon, mechanism.neighbours)
    P = step_matrix(case, scores, kappa)
    now = np.full(len(P), 1.0 / len(P))
    if mechanism.start != "random":
        begun = MarkovChain(1.0, steps=0, start=mechanism.start).draw(make_problem(case), 1)
        now = counts_of(begun, case.supports()).astype(float)
    return now @ np.linalg.matrix_power(P, mechanism.steps)


def stepped(kind: str, ball: str, epsilon: float, neighbours: str, steps: int) -> MarkovChain:
    options = {"ball": ball, "neighbours": neighbours, "start": "greedy" if steps < 9 else "random"}
    return MarkovChain(epsilon, steps=steps, **options)


@pytest.mark.grid(every=2)
@pytest.mark.parametrize(("kind", "ball", "epsilon", "neighbours"), SETTINGS)
@pytest.mark.parametrize("steps", [1, 3])
def test_single_steps(kind: str, ball: str, epsilon: float, neighbours: str, steps: int) -> None:
    mechanism, case = stepped(kind, ball, epsilon, neighbours, steps), make_case(kind)
    assert p_value(mechanism, case, after(mechanism, case), 5000) > FALSE_ALARM


@pytest.mark.grid(every=2)
@pytest.mark.parametrize(("kind", "ball", "epsilon", "neighbours"), SETTINGS)
def test_many_steps(kind: str, ball: str, epsilon: float, neighbours: str) -> None:
    """After MANY steps the law is the stationary one, as far as draws can tell."""
    mechanism, case = stepped(kind, ball, epsilon, neighbours, MANY), make_case(kind)
    kappa = kappa_of(case, ball, epsilon, neighbours)
    law = np.exp(exponential_law(scores_of(kind, ball), kappa))
    assert 0.5 * np.abs(after(mechanism, case) - law).sum() < 1e-3
    assert p_value(mechanism, case, law, 2000) > FALSE_ALARM


@pytest.mark.parametrize("loss", ["absolute", "hinge", "logistic"])
@pytest.mark.parametrize("steps", [1, 25])
def test_other_losses(loss: str, steps: int) -> None:
    case = make_case("marked", loss)
    mechanism = stepped("marked", "l2", 6.0, "replace-one", steps)
    draws = 700 if steps > 1 else 3500
    assert p_value(mechanism, case, after(mechanism, case, loss), draws) > FALSE_ALARM


def test_a_random_start_is_uniform() -> None:
    case = make_case("marked")
    uniform = np.full(len(case.supports()), 1.0 / len(case.supports()))
    assert p_value(MarkovChain(1.0, steps=0), case, uniform, 5000) > FALSE_ALARM


# ---- twins: what is broken on purpose must be caught ---------------------------------------------


def interpret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the loop as plain Python, so that what it calls can be replaced."""
    for name in ("_walk", "_begin", "value_of"):
        function = getattr(chain, name)
        monkeypatch.setattr(chain, name, getattr(function, "py_func", function))


def test_twin_kappa_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    case, kappa = make_case("plain"), MarkovChain.kappa
    monkeypatch.setattr(MarkovChain, "kappa", lambda self, problem: 2 * kappa(self, problem))
    for steps in (FEW, MANY):
        mechanism = stepped("plain", "l2", 6.0, "replace-one", steps)
        assert p_value(mechanism, case, after(mechanism, case), 5000) < FALSE_ALARM


def test_twin_acceptance_inverted(monkeypatch: pytest.MonkeyPatch) -> None:
    case, kappa = make_case("plain"), MarkovChain.kappa
    monkeypatch.setattr(MarkovChain, "kappa", lambda self, problem: -kappa(self, problem))
    for steps in (FEW, MANY):
        mechanism = stepped("plain", "l2", 6.0, "replace-one", steps)
        assert p_value(mechanism, case, after(mechanism, case), 5000) < FALSE_ALARM


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_twin_acceptance_by_a_uniform_number(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    case = make_case("marked", loss)
    monkeypatch.setattr(Randomness, "exponentials", Randomness.uniforms)
    mechanism = stepped("marked", "l2", 6.0, "replace-one", 5)
    assert p_value(mechanism, case, after(mechanism, case, loss), 4000) < FALSE_ALARM


def test_twin_proposals_biased(monkeypatch: pytest.MonkeyPatch) -> None:
    case, belows = make_case("plain"), Randomness.belows

    def biased(self: Randomness, bound: int, count: int) -> np.ndarray:
        return np.maximum(belows(self, bound, count), belows(self, bound, count))

    mechanism = stepped("plain", "l2", 6.0, "replace-one", FEW)
    law = after(mechanism, case)
    monkeypatch.setattr(Randomness, "belows", biased)
    assert p_value(mechanism, case, law, 5000) < FALSE_ALARM
    uniform = np.full(len(case.supports()), 1.0 / len(case.supports()))
    assert p_value(MarkovChain(1.0, steps=0), case, uniform, 5000) < FALSE_ALARM


# ---- scores along a chain ------------------------------------------------------------------------


def worst_score(case: Case, ball: str, steps: int = 25) -> float:
    """Return the largest error, over y'y, of the scores that chains remember along the way."""
    problem = make_problem(case)
    mechanism = MarkovChain(3.0, ball=ball)
    source, worst = as_randomness(5), 0.0
    f, t = problem.free.size, problem.to_choose
    order = np.array([problem.free[source.permutation(f)] for _ in range(4)], dtype=np.int64)
    included = np.tile(np.array(problem.include, dtype=np.int64), (4, 1))
    state = np.hstack([included, order[:, :t]]), np.ascontiguousarray(order[:, t:])
    rule = chain.Rule(mechanism.kappa(problem), steps, ball == "l1", mechanism._gap(problem))
    walker = chain.ByMoments(problem, rule, state, np.zeros(4, dtype=np.int64))
    for _ in range(steps):
        draws = chain.Draws(
            len(problem.include) + source.belows(t, 4)[:, None],
            source.belows(f - t, 4)[:, None],
            source.exponentials(4)[:, None],
        )
        walker.walk(draws, Allowance(None))
        for support, score in zip(state[0], walker._state.scores, strict=True):
            exact = l1_score(case, support) if ball == "l1" else case.scores(support[None])[0]
            worst = max(worst, abs(score - exact) / case.scale())
    return worst


@pytest.fixture
def by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid the whole Gram matrix and keep 64 columns only, as with a table too large for both."""
    monkeypatch.setattr(gram_module, "FULL_UP_TO", 0)
    monkeypatch.setattr(chain, "store_of", lambda problem, _: ColumnCache(problem.design, memory=0))


@pytest.mark.parametrize("ball", ["l2", "l1"])
@pytest.mark.parametrize("kind", ["plain", "correlated", "marked"])
def test_scores_along_a_chain(kind: str, ball: str) -> None:
    assert worst_score(make_case(kind), ball) < 1e-9


@pytest.mark.usefixtures("by_columns")
@pytest.mark.parametrize("ball", ["l2", "l1"])
def test_scores_along_a_chain_from_columns(ball: str) -> None:
    assert worst_score(make_case("marked"), ball) < 1e-9


@pytest.mark.usefixtures("by_columns")
def test_twin_rows_of_other_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that stay have their rows of X'X made: wrong ones are noticed."""
    rows = DenseDesign.gram_rows
    monkeypatch.setattr(DenseDesign, "gram_rows", lambda self, some: rows(self, some)[::-1])
    assert worst_score(make_case("plain"), "l2") > 1e-6


@pytest.mark.parametrize("by", ["gram", "columns"])
def test_twin_a_stale_gram_block(
    monkeypatch: pytest.MonkeyPatch, by: str, request: pytest.FixtureRequest
) -> None:
    if by == "columns":
        request.getfixturevalue("by_columns")
    interpret(monkeypatch)
    assert worst_score(make_case("plain"), "l2", 10) < 1e-9
    fill = chain._fill

    def stale(data: Any, columns: np.ndarray, at: int, block: np.ndarray) -> None:
        before = block.copy()
        fill(data, columns, at, block)
        if np.isfinite(before).all() and before[at, at] > 1:  # not at the very start
            block[at, 0] = block[0, at] = before[at, 0]

    monkeypatch.setattr(chain, "_fill", stale)
    assert worst_score(make_case("plain"), "l2", 10) > 1e-6


@pytest.mark.parametrize("ball", ["l2", "l1"])
def test_columns_and_the_gram_matrix_lead_the_same_way(
    monkeypatch: pytest.MonkeyPatch, ball: str
) -> None:
    """Also where 64 columns are kept of 300, and chains must take turns."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (25, 300))
    options = {"size": 7, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "ridge": 0.5}
    problem = Problem(X, X[:, 7] - X[:, 100], include=(2,), exclude=(250,), **options)
    mechanism = MarkovChain(30.0, steps=1500, ball=ball)
    whole = mechanism.draw(problem, 9, random_state=4)
    monkeypatch.setattr(gram_module, "FULL_UP_TO", 0)
    fresh = Problem(X, X[:, 7] - X[:, 100], include=(2,), exclude=(250,), **options)
    np.testing.assert_array_equal(mechanism.draw(fresh, 9, random_state=4), whole)
    monkeypatch.setattr(chain, "store_of", lambda problem, _: ColumnCache(problem.design, memory=0))
    np.testing.assert_array_equal(mechanism.draw(fresh, 9, random_state=4), whole)
    assert not fresh.gram.held
    assert problem.gram.held
    assert len(np.unique(whole, axis=0)) > 3


@pytest.mark.parametrize("form", [sparse.csc_array, sparse.csr_array, np.asfortranarray])
@pytest.mark.parametrize("whole", [True, False])
def test_the_form_of_the_table_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, form: Any, whole: bool
) -> None:
    if not whole:
        monkeypatch.setattr(gram_module, "FULL_UP_TO", 0)
    case = make_case("marked")
    mechanism = MarkovChain(6.0, steps=50)
    plain = mechanism.draw(make_problem(case), 60, random_state=2)
    other = Problem(form(case.X), case.y, **case.arguments())
    np.testing.assert_array_equal(mechanism.draw(other, 60, random_state=2), plain)
    assert other.gram.held is whole


def test_supports_larger_than_the_store() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (12, 400))
    problem = Problem(X, X[:, 0], size=80, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=1.0)
    problem.columns = ColumnCache(problem.design, memory=0)
    assert chain.store_of(problem, 3).room == 320
    draws = MarkovChain(1.0, steps=3).draw(problem, 2, random_state=0)
    assert [len(set(row)) for row in draws.tolist()] == [80, 80]


# ---- starts --------------------------------------------------------------------------------------


def begun(start: str, problem: Problem) -> list[int]:
    return MarkovChain(1.0, steps=0, start=start).draw(problem, 2, random_state=0)[1].tolist()


def test_marginal_start() -> None:
    case = make_case("marked")
    X, y = case.clipped()
    size = np.abs(X.T @ y)
    size[[1, 5]] = -1
    assert begun("marginal", make_problem(case)) == sorted([1, *np.argsort(-size)[:2].tolist()])
    hinged = make_case("plain", "hinge")
    slopes = np.abs(hinged.X.T @ hinged.y)  # at 0 every margin is violated
    expected = sorted(np.argsort(-slopes)[:3].tolist())
    assert begun("marginal", make_problem(hinged)) == expected


@pytest.mark.parametrize("kind", ["plain", "correlated", "marked"])
def test_lasso_start(kind: str) -> None:
    """The first on the path as scikit-learn follows it from the rows."""
    case = make_case(kind)
    X, y = case.clipped()
    free = [j for j in range(7) if j not in (*case.include, *case.exclude)]
    inside = X[:, list(case.include)]
    rest = np.eye(len(y)) - inside @ np.linalg.pinv(inside)
    _, active, _ = lars_path(rest @ X[:, free], rest @ y, method="lasso", max_iter=3)
    first = [free[j] for j in active[: case.size - len(case.include)]]
    assert begun("lasso", make_problem(case)) == sorted([*case.include, *first])


def test_greedy_start_is_good() -> None:
    for kind in ("plain", "marked"):
        case = make_case(kind)
        best = case.supports()[scores_of(kind, "l2").argmin()]
        assert begun("greedy", make_problem(case)) == best.tolist()


@pytest.mark.parametrize("start", ["marginal", "lasso", "greedy"])
@pytest.mark.parametrize("n", [0, 1, 20])
@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_starts_on_tables_without_content(start: str, n: int, loss: str) -> None:
    options = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "include": (1,)}
    problem = Problem(np.zeros((n, 6)), np.zeros(n), size=3, loss=loss, **options)
    assert len(set(begun(start, problem))) == 3


def test_what_the_path_says_stays_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem(make_case("plain"))

    def noisy(*arguments: Any, **options: Any) -> Any:
        warnings.warn("a value of the table", stacklevel=1)
        raise ValueError("a value of the table")

    monkeypatch.setattr("sklearn.linear_model.lars_path_gram", noisy)
    assert begun("lasso", problem) == begun("marginal", problem)


# ---- promises ------------------------------------------------------------------------------------


def pairs_of_tables(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw tables of corner rows that differ in one row; the first column explains the target."""
    rng = np.random.default_rng(8)
    pairs = []
    for _ in range(count):
        rows = rng.choice([-1.0, 1.0], (int(rng.integers(2, 7)), 4))
        rows[:, -1] = rows[:, 0]
        other = rows.copy()
        other[-1] = rng.choice([-1.0, 1.0], 4)
        pairs.append((rows, other))
    return pairs


def excess(epsilon: float, neighbours: str) -> float:
    """Return by how much a pair's laws over the l1 ball differ beyond epsilon, at most."""
    mechanism, worst = MarkovChain(epsilon, ball="l1", neighbours=neighbours), -math.inf
    for rows, other in pairs_of_tables(200):
        pair = rows, other if neighbours == "replace-one" else rows[:-1]
        options = {"size": 2, "x_bound": 1.0, "y_bound": 1.0, "radius": 0.9}
        problems = [Problem(table[:, :-1], table[:, -1], **options) for table in pair]
        a, b = (mechanism.probabilities(problem)[1] for problem in problems)
        worst = max(worst, float(np.abs(a - b).max()) - epsilon)
    return worst


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_the_stationary_law_over_the_l1_ball_is_private(
    monkeypatch: pytest.MonkeyPatch, neighbours: str
) -> None:
    """And a sensitivity of a third of it would not do."""
    assert -0.7 < excess(1.0, neighbours) < 1e-9
    delta = MarkovChain._delta
    monkeypatch.setattr(MarkovChain, "_delta", lambda self, *given: delta(self, *given) / 3)
    assert excess(1.0, neighbours) > 0.05


def test_guarantee() -> None:
    case = make_case("plain")
    problem = make_problem(case)
    promise = MarkovChain(1.0, steps=77).guarantee(problem)
    assert promise.epsilon == 1.0
    assert promise.sensitivity == pytest.approx(case.delta())
    assert "stationary distribution after 77 steps" in str(promise)
    assert "nobody has checked" in str(promise)
    other = MarkovChain(1.0, ball="l1").guarantee(problem)
    assert other.sensitivity == pytest.approx(l1_delta(case))
    paper = MarkovChain(1.0, ball="l1", sensitivity="paper")
    assert paper.guarantee(problem).sensitivity == pytest.approx(2 + 2 * 0.7**2)
    assert paper.kappa(problem) == pytest.approx(1 / (2 * (2 + 2 * 0.7**2)))


def test_release_holds_the_support_and_the_promise_only() -> None:
    problem = make_problem(make_case("marked"))
    release = MarkovChain(1.0, steps=50).release(problem)
    parts = {"support", "guarantee", "columns", "asked", "offset", "levels", "target_bounds"}
    assert set(vars(release)) == parts
    assert release.offset is None
    assert 1 in release.support
    assert 5 not in release.support
    assert list(release.support) == sorted(set(release.support))
    assert release.guarantee == MarkovChain(1.0, steps=50).guarantee(problem)


def test_seeds_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem(make_case("plain"))
    mechanism = MarkovChain(0.5, steps=1100)
    draws = []
    for count in (1, 2, 5):
        monkeypatch.setattr(chain, "threads", lambda count=count: count)
        draws.append(mechanism.draw(problem, 70, random_state=3))
    np.testing.assert_array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], draws[2])
    assert (mechanism.draw(problem, 70, random_state=4) != draws[0]).any()
    assert mechanism.experiment(problem, 3) == mechanism.experiment(problem, 3)
    assert mechanism.draw(problem, 0, random_state=3).shape == (0, 3)
    monkeypatch.undo()
    assert chain.threads() >= 1


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_limits(loss: str) -> None:
    problem = make_problem(make_case("plain", loss))
    enough = MarkovChain(1.0, steps=30, limits=Limits(nodes=60))
    assert enough.draw(problem, 2, random_state=0).shape == (2, 3)
    for limits in (Limits(nodes=59), Limits(seconds=1e-9)):
        mechanism = MarkovChain(1.0, steps=30, limits=limits)
        with pytest.raises(UnprovenError) as caught:
            mechanism.draw(problem, 2, random_state=0)
        assert str(caught.value) == REFUSED


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_time_ends_within_a_round(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    problem = make_problem(make_case("plain", loss))
    monkeypatch.setattr(Allowance, "over", False)
    with pytest.raises(UnprovenError, match="limit"):
        MarkovChain(1.0, limits=Limits(seconds=1e-9)).draw(problem, 1, random_state=0)


@pytest.mark.parametrize("options", [{"include": (0, 3, 4)}, {"exclude": (0, 3, 4, 6)}])
@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_one_support_only(options: dict[str, Any], loss: str) -> None:
    case = replace(make_case("plain", loss), **options)
    for start in ("random", "marginal", "lasso", "greedy"):
        mechanism = MarkovChain(1.0, steps=20, start=start)
        assert mechanism.draw(make_problem(case), 1).tolist() == case.supports().tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"steps": -1},
        {"steps": 2.0},
        {"steps": True},
        {"start": "best"},
        {"start": None},
        {"ball": "l3"},
        {"ball": 1},
        {"epsilon": 0},
        {"neighbours": "swap"},
        {"sensitivity": "loose"},
    ],
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options)).rstrip("s")):
        MarkovChain(**{"epsilon": 1.0, **options})


def test_bad_use() -> None:
    problem = make_problem(make_case("plain", "absolute"))
    mechanism = MarkovChain(1.0, ball="l1")
    for use in (mechanism.guarantee, mechanism.release, mechanism.probabilities):
        with pytest.raises(InputError, match=r"l1.*absolute"):
            use(problem)
    with pytest.raises(InputError, match="count"):
        mechanism.draw(problem, -1)
