"""Groups of columns in the chain and in the mechanisms by votes: laws, audits and twins (T32).

Chi-square tests have fixed seeds and a false-alarm rate of 1e-5.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from block_cases import Blocks, blocks, problem_of
from oracle import chi_square, counts_of, exponential_law, l1_least

from dpsubset import LassoStability, MarkovChain, Problem, SampleAggregate, audit
from dpsubset.audit.tables import neighbouring
from dpsubset.designs import gram
from dpsubset.mechanisms import lasso_stability
from dpsubset.mechanisms.blocks import Voters, lasso_choice, svm_choice
from dpsubset.mechanisms.sample_aggregate import top_law
from dpsubset.privacy import as_randomness
from dpsubset.sampling import block_chain

FALSE_ALARM = 1e-5
GROUPS = ((6,), (3, 8, 10), (0,), (1, 11), (2, 4, 9), (5,), (7, 12))
RELATIONS = ("replace-one", "add-remove")

# ---- the chain ---------------------------------------------------------------------------------


@cache
def chain_case(loss: str, marked: bool = False) -> tuple[Blocks, np.ndarray]:
    """Return a case of 7 features, and its scores by brute force."""
    marks = {"include": (3,), "exclude": (0,)} if marked else {}
    case = blocks(loss, 7, groups=GROUPS, size=3, n=40, radius=1.5, **marks)
    return case, case.scores()


def l1_score(case: Blocks, support: Any) -> float:
    X, y = case.bounded()
    A = X[:, [j for g in support for j in case.groups[g]]]
    return l1_least(A, y, case.ridge, case.radius)


def kappa_of(case: Blocks, ball: str, epsilon: float) -> float:
    reach = case.x_bound * case.radius
    delta = case.delta()
    if ball == "l1":
        delta = (case.y_bound + reach) ** 2 - max(0.0, case.y_bound - reach) ** 2
    return epsilon / (2.0 * delta)


def steps_of(case: Blocks, scores: np.ndarray, kappa: float) -> np.ndarray:
    """Return the matrix of a step: every swap of features is proposed with the same chance."""
    supports = [set(row) for row in case.supports().tolist()]
    t = case.size - len(case.include)
    swaps = t * (len(case.groups) - len(case.include) - len(case.exclude) - t)
    P = np.zeros((len(supports), len(supports)))
    for (i, a), (j, b) in itertools.permutations(enumerate(supports), 2):
        if len(a - b) == 1:
            P[i, j] = min(1.0, math.exp(-kappa * (scores[j] - scores[i]))) / swaps
    return P + np.diag(1.0 - P.sum(axis=1))


def p_value(case: Blocks, scores: np.ndarray, steps: int, draws: int, ball: str = "l2") -> float:
    """Return how well draws after some steps fit the powers of the matrix."""
    problem = problem_of(case)
    supports = case.supports()
    start = MarkovChain(1.0, steps=0, start="greedy").draw(problem, 1)
    P = np.linalg.matrix_power(steps_of(case, scores, kappa_of(case, ball, 8.0)), steps)
    law = counts_of(start, supports) @ P
    mechanism = MarkovChain(8.0, steps=steps, start="greedy", ball=ball)
    found = counts_of(mechanism.draw(problem, draws, 1), supports)
    assert not found[law == 0.0].any()
    p, cells = chi_square(found[law > 0], np.log(law[law > 0]))
    assert cells >= 4
    return p


@pytest.mark.grid(every=6)
@pytest.mark.parametrize("held", ["all products", "some products", "columns", "trial fits"])
@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("steps", [1, 4, 60])
def test_steps_follow_the_matrix(
    steps: int, marked: bool, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_chain, "_FEW", 0 if held == "trial fits" else 24)
    few = held in ("some products", "columns")
    if few:
        monkeypatch.setattr(gram, "FULL_UP_TO", 0)
    if held == "some products":  # of the columns that some steps may meet, a few at a time
        monkeypatch.setattr(block_chain, "_OWN", 0)
        monkeypatch.setattr(block_chain, "_ROOM", 12)
    draws = 1200 if few and steps < 9 else 250 if few else 4000
    assert p_value(*chain_case("squared", marked), steps, draws) > FALSE_ALARM


@pytest.mark.parametrize("loss", ["absolute", "logistic"])
def test_steps_of_other_losses_follow_the_matrix(loss: str) -> None:
    assert p_value(*chain_case(loss, True), 3, 1500) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 60])
def test_steps_over_the_l1_ball(steps: int) -> None:
    case, _ = chain_case("squared")
    scores = np.array([l1_score(case, s) for s in case.supports()])
    problem = problem_of(case)
    mechanism = MarkovChain(8.0, ball="l1")
    listed, logs = mechanism.probabilities(problem)
    assert np.array_equal(listed, case.supports())
    expected = exponential_law(scores, kappa_of(case, "l1", 8.0))
    assert np.abs(logs - expected).max() < 1e-5
    assert mechanism.guarantee(problem).precision >= problem.loss.precision
    assert p_value(case, scores, steps, 3000, "l1") > FALSE_ALARM


def test_a_chain_that_forgets_columns_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where equations decide; what directions forget is in tests/sampling/test_directions.py."""
    monkeypatch.setattr(block_chain.ByBlocks, "_room_for_directions", lambda self: False)
    case, scores = chain_case("squared")
    for name in ("_walk", "_score", "value_of"):
        function = getattr(block_chain, name)
        monkeypatch.setattr(block_chain, name, getattr(function, "py_func", function))
    assert p_value(case, scores, 4, 600) > FALSE_ALARM
    right = block_chain._Parts
    first = lambda order, starts: right(order[starts[:-1]], np.arange(starts.size))  # noqa: E731
    monkeypatch.setattr(block_chain, "_Parts", first)
    assert p_value(case, scores, 4, 600) < FALSE_ALARM


@pytest.mark.parametrize("start", ["marginal", "lasso", "greedy"])
@pytest.mark.parametrize("marked", [True, False])
def test_starts_are_supports_of_features(start: str, marked: bool) -> None:
    case, scores = chain_case("squared", marked)
    problem = problem_of(case)
    begun = MarkovChain(1.0, steps=0, start=start).draw(problem, 1)[0]
    place = int(np.flatnonzero((case.supports() == begun).all(axis=1))[0])
    assert scores[place] <= np.median(scores)
    X, y = case.bounded()
    if start == "marginal":
        free = [g for g in range(7) if g not in case.include + case.exclude]
        strength = {g: float(np.sum((X[:, list(GROUPS[g])].T @ y) ** 2)) for g in free}
        best = sorted(free, key=lambda g: -strength[g])[: 3 - len(case.include)]
        assert begun.tolist() == sorted([*best, *case.include])


# ---- votes -------------------------------------------------------------------------------------


def voted(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a table of four features, of which 1 and 2 explain the target, and their starts."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (60, 9)) / 2
    y = 0.9 * X[:, 3] - 0.9 * X[:, 2] + 0.9 * X[:, 5] + 0.02 * rng.normal(size=60)
    return X, y, np.array([0, 2, 5, 6])


@pytest.mark.parametrize("seed", range(4))
def test_blocks_choose_features(seed: int) -> None:
    X, y, starts = voted(seed)
    none = np.empty((60, 0))
    assert lasso_choice(X, none, y, 2, starts=starts).tolist() == [1, 2]
    assert svm_choice(X, none, np.sign(y), 2, starts=starts).tolist() == [1, 2]
    # As single columns the two that come first may be of one feature: then another one comes.
    assert lasso_choice(X, none, y - 0.6 * X[:, 5], 2).tolist() == [2, 3]
    assert lasso_choice(X, none, y - 0.6 * X[:, 5], 2, starts=starts).tolist() == [1, 2]
    assert len(lasso_choice(X, none, y, 1, starts=starts)) == 1
    assert lasso_choice(X, none, y, 4, starts=starts).tolist() == [0, 1, 2, 3]


SELECT = {
    "first": lambda X, y, count: np.argsort(-X.sum(axis=0), kind="stable"),
    "lasso": "lasso",
}


def table(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 0.0, 1.0], (rows, 6))
    return X, np.clip(X[:, 0] + 0.3 * rng.normal(size=rows), -1, 1)


def posed(X: np.ndarray, y: np.ndarray, size: int = 2, **more: Any) -> Problem:
    groups = more.pop("groups", ((0, 1, 2), (3,), (4, 5)))
    options = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "groups": groups, **more}
    return Problem(X, y, size=size, **options)


@pytest.mark.grid(every=8)
@pytest.mark.parametrize("include", [(), (1,)])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("selector", SELECT)
def test_no_pair_exceeds_the_guarantee_of_votes(
    selector: str, neighbours: str, include: tuple[int, ...]
) -> None:
    options = {"neighbours": neighbours, "blocks": 2, "selector": SELECT[selector]}
    one = posed(*table(5, 0), include=include)
    others = neighbouring(one, 12, neighbours, random_state=1)
    for mechanism in (SampleAggregate(1.0, **options), LassoStability(1.0, 0.2, **options)):
        report = audit.exact(mechanism, one, others)
        assert report.passed, str(report)


def one_row_each(epsilon: float) -> float:
    """Return the largest log ratio over tables of one-row blocks; one votes for any columns.

    All others vote for the second feature, which puts the first one far behind.
    """
    n = 240
    mechanism = SampleAggregate(epsilon, blocks=n, selector=SELECT["first"])
    laws = []
    for vote in itertools.product([0.0, 0.4], repeat=6):
        X = np.tile([0.0, 0.0, 0.0, 0.5, 0.0, 0.0], (n, 1))
        X[0] = vote
        problem = posed(X, np.zeros(n), 1)
        counts = mechanism._counts(problem, mechanism._voters(problem), np.arange(n))
        laws.append(top_law(counts, mechanism.scale(problem), 1)[1])
    both = np.array(laws)
    return float(np.abs(both[:, None] - both[None]).max())


def test_a_block_with_a_vote_for_every_column_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.9 * 0.7 < one_row_each(0.7) <= 0.7 + 1e-9
    # The twin gives a feature as many votes as columns of it come before another feature's.
    right = SampleAggregate._counts

    def by_columns(self: Any, problem: Problem, voters: Voters, labels: Any) -> np.ndarray:
        counts = right(self, problem, voters, labels)
        mine = np.asarray(voters._vote(np.array([0])))
        counts[mine] += problem.features.widths[problem.free[mine]] - 1
        return counts

    monkeypatch.setattr(SampleAggregate, "_counts", by_columns)
    assert one_row_each(0.7) > 0.7 + 1e-3


def test_a_selector_of_the_user_names_columns_and_votes_for_their_features() -> None:
    problem = posed(*table(20, 0))
    answers: dict[str, Any] = {
        "same": ([2, 0, 1], [0]),  # all columns of the first feature
        "two": ([5, 0, 3], [0, 2]),  # the first two features count
        "wrong": ([7, -1, 4], [2]),
    }
    for answer, expected in answers.values():
        voters = SampleAggregate(1.0, selector=lambda X, y, count, answer=answer: answer)._voters(
            problem
        )
        votes = list(voters.votes(np.zeros(20, np.int64), 1))
        assert votes[0].tolist() == expected


def test_clear_features_are_found_by_both_mechanisms() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 13)) / 2
    y = (X[:, 8] - X[:, 3] + X[:, 11] - X[:, 1]) / 2
    problem = posed(X, y, groups=GROUPS)
    for mechanism in (
        SampleAggregate(4.0),
        LassoStability(4.0),
        LassoStability(4.0, method="perturbation", curvature=0.05),
    ):
        assert mechanism.draw(problem, 1, random_state=0).tolist() == [[1, 3]]


# ---- the margins of one lasso -----------------------------------------------------------------

N = 1024


def margins(l1_bound: float) -> list[tuple[float, tuple[int, ...] | None]]:
    """Return h of tables that differ in their last row, one feature of four orthogonal columns.

    Rows have norm 1 within the feature, the last one in the direction of all coefficients.
    """
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    X = np.zeros((N, 6))
    X[:, :4] = np.tile(signs / 2, (N // 16, 1))
    X[:, 4] = 0.5
    # The coefficients that the lasso is to have; the penalty shrinks each by penalty / (N / 4).
    y = X[:, :4] @ np.full(4, 0.05 + 40.0 / (N / 4))
    mechanism = LassoStability(
        1.0, 0.05, method="perturbation", penalty=40.0, l1_bound=l1_bound, curvature=0.24
    )
    found = []
    for row, target in itertools.product(([1.0] * 4, [-1.0] * 4, [1, -1, 1, -1]), (-1.0, 1.0)):
        rows, targets = X.copy(), y.copy()
        rows[-1, :4], targets[-1] = np.array(row) / 2, target
        problem = posed(rows, targets, 1, groups=((0, 1, 2, 3), (4,), (5,)))
        h, chosen = mechanism._margins(problem)(as_randomness(0))
        found.append((h, None if chosen is None else tuple(chosen.tolist())))
    return found


def largest_move(l1_bound: float) -> tuple[float, float]:
    found = margins(l1_bound)
    moves = [abs(a - b) for (a, _), (b, _) in itertools.combinations(found, 2)]
    stable = {chosen for h, chosen in found if h > 1}
    assert len(stable) <= 1
    return max(moves), max(h for h, _ in found)


def test_one_row_moves_the_margins_of_features_by_at_most_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    move, top = largest_move(0.24)
    assert 0.5 < move <= 1.0
    assert top > 1.0
    # The twin counts features where the sum of the coefficients' sizes has one of each column.
    right = lasso_stability.units_of

    def of_features(problem: Problem, *given: Any) -> Any:
        units = right(problem, *given)
        return replace(units, norm=math.sqrt(problem.size) * units.size)

    monkeypatch.setattr(lasso_stability, "units_of", of_features)
    assert largest_move(0.24)[0] > 1.05
