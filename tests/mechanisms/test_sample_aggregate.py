"""Sample and aggregate: the law of the noisy votes, an exact audit, partitions, choices (T25).

Statistical tests have fixed seeds and reject at a false-alarm rate of 1e-6 each; there are about a
dozen. Broken twins must be caught by the same checks.
"""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import chi_square, counts_of
from scipy.special import logsumexp

from dpsubset import Problem
from dpsubset.errors import InputError, UnprovenError
from dpsubset.limits import Limits
from dpsubset.mechanisms import l1_svm, sample_aggregate
from dpsubset.mechanisms.blocks import deal, lasso_choice, members, svm_choice
from dpsubset.mechanisms.sample_aggregate import SampleAggregate, top_law
from dpsubset.privacy import as_randomness

FALSE_ALARM = 1e-6
NEIGHBOURS = ("replace-one", "add-remove")


def heaviest(X: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    """Choose the columns with the largest sums: a selector that a row can turn at will."""
    return np.argsort(-X.sum(axis=0), kind="stable")[:count] if len(X) else np.empty(0, int)


def make_problem(X: np.ndarray, size: int = 1, **options: Any) -> Problem:
    y = options.pop("y", np.zeros(X.shape[0]))
    bounds = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
    return Problem(X, y, size=size, **{**bounds, **options})


# ---- the law of the noisy votes ---------------------------------------------------------------


@pytest.mark.parametrize("apart", [0.0, 0.3, 2.0, 40.0, 700.0])
def test_law_of_two_votes_in_closed_form(apart: float) -> None:
    """The difference of two Laplace numbers is above d with chance (1 + d/2) exp(-d)/2."""
    log_loser = math.log((1 + apart / 2) / 2) - apart
    for votes, loser in (([5 + 3 * apart, 5.0], 1), ([5.0, 5 + 3 * apart], 0)):
        sets, logs = top_law(votes, scale=3.0, count=1)
        assert sets.tolist() == [[0], [1]]
        assert logs[loser] == pytest.approx(log_loser, rel=1e-12)
        assert logs[1 - loser] == pytest.approx(math.log1p(-math.exp(log_loser)), rel=1e-12)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 6])
def test_laws_sum_to_one_and_do_not_depend_on_names(count: int) -> None:
    rng = np.random.default_rng(count)
    votes = rng.integers(0, 30, 6).astype(float)
    sets, logs = top_law(votes, 2.5, count)
    assert len(sets) == math.comb(6, count)
    assert logsumexp(logs) == pytest.approx(0.0, abs=1e-12)
    order = rng.permutation(6)
    others, renamed = top_law(votes[order], 2.5, count)
    places = {tuple(sorted(order[row])): value for row, value in zip(others, renamed, strict=True)}
    assert [places[tuple(row)] for row in sets.tolist()] == pytest.approx(logs, rel=1e-10)


def test_law_against_numpys_laplace_numbers() -> None:
    rng = np.random.default_rng(5)
    votes, scale = np.array([4.0, 1.0, 3.0, 0.0, 4.0]), 2.0
    noisy = votes + rng.laplace(scale=scale, size=(200_000, 5))
    drawn = np.sort(np.argsort(-noisy, axis=1)[:, :2], axis=1)
    sets, logs = top_law(votes, scale, 2)
    p_value, cells = chi_square(counts_of(drawn, sets), logs)
    assert cells == 10
    assert p_value > FALSE_ALARM
    assert chi_square(counts_of(drawn, sets), top_law(votes, 1.05 * scale, 2)[1])[0] < FALSE_ALARM


def test_law_refuses_what_it_cannot_list() -> None:
    for votes, count in ((np.zeros(40), 20), (np.zeros(3), 4), (np.zeros((2, 2)), 1)):
        with pytest.raises(InputError, match="up to 200000 sets"):
            top_law(votes, 1.0, count)


# ---- the audit --------------------------------------------------------------------------------


def partition_law(mechanism: SampleAggregate, problem: Problem, labels: Any) -> np.ndarray:
    """Return the log law given the partition."""
    counts = mechanism._counts(problem, mechanism._voters(problem), np.asarray(labels, np.int64))
    return top_law(counts, mechanism.scale(problem), problem.to_choose)[1]


def one_row_each(size: int, epsilon: float) -> float:
    """Return the largest log ratio over tables of one-row blocks; one row votes for any columns.

    All others vote for the last columns, which puts the first ones far behind: the worst case.
    """
    n, p = 240, 2 * size
    rows = np.eye(p)
    votes = np.array(list(itertools.product([0.0, 1.0], repeat=p)))
    votes = votes[votes.sum(axis=1) == size]
    X = np.tile(rows[size:].sum(axis=0), (n, 1))
    mechanism = SampleAggregate(epsilon, blocks=n, selector=heaviest)
    laws = []
    for vote in votes:
        X[0] = vote
        laws.append(partition_law(mechanism, make_problem(X.copy(), size), np.arange(n)))
    both = np.array(laws)
    return float(np.abs(both[:, None] - both[None]).max())


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_vote_moves_the_law_by_more_than_epsilon(size: int) -> None:
    worst = one_row_each(size, epsilon=0.7)
    assert 0.9 * 0.7 < worst <= 0.7 + 1e-9


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_audit_finds_too_little_noise(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = SampleAggregate.scale
    monkeypatch.setattr(SampleAggregate, "scale", lambda *given: 0.8 * right(*given))
    assert one_row_each(size, epsilon=0.7) > 0.7


def whole_law(mechanism: SampleAggregate, problem: Problem) -> np.ndarray:
    """Return the log law averaged over all partitions of a tiny table, each listed."""
    n, blocks = problem.n_rows, mechanism.blocks
    assert blocks is not None
    every = np.array(list(itertools.product(range(blocks), repeat=n)))
    if mechanism.neighbours == "replace-one":
        sizes = sorted(np.bincount(np.arange(n) % blocks, minlength=blocks))
        every = np.array([r for r in every if sorted(np.bincount(r, minlength=blocks)) == sizes])
    laws = [partition_law(mechanism, problem, labels) for labels in every]
    return np.asarray(logsumexp(laws, axis=0) - math.log(len(laws)))


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_averages_over_partitions_are_private_too(neighbours: str) -> None:
    rng = np.random.default_rng(3)
    epsilon, worst = 1.5, 0.0
    mechanism = SampleAggregate(epsilon, blocks=2, selector=heaviest, neighbours=neighbours)
    for _ in range(12):
        rows = rng.choice([-1.0, 1.0], (3, 4))
        others = [rows, *(np.vstack([rows, r]) for r in rng.choice([-1.0, 0.5, 1.0], (4, 4)))]
        tables = others if neighbours == "add-remove" else others[1:]
        laws = [whole_law(mechanism, make_problem(table, 2)) for table in tables]
        pairs = itertools.combinations(range(len(laws)), 2)
        if neighbours == "add-remove":
            pairs = ((0, j) for j in range(1, len(laws)))
        worst = max(worst, *(float(np.abs(laws[i] - laws[j]).max()) for i, j in pairs))
    assert 0.1 < worst <= epsilon + 1e-9


# ---- draws ------------------------------------------------------------------------------------

FOUR = np.array([[1.0, 0, 0, 0], [1.0, 0, 0.9, 0], [0, 1, 0.9, 0.2], [0, 0, -1, 1]])


def p_value_of_draws(neighbours: str) -> float:
    problem = make_problem(FOUR, 2)
    mechanism = SampleAggregate(8.0, blocks=2, selector=heaviest, neighbours=neighbours)
    drawn = mechanism.draw(problem, 5000, random_state=11)
    sets = np.array(list(itertools.combinations(range(4), 2)))
    p_value, cells = chi_square(counts_of(drawn, sets), whole_law(mechanism, problem))
    assert cells >= 5
    return p_value


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_draws_follow_the_law_over_all_partitions(neighbours: str) -> None:
    assert p_value_of_draws(neighbours) > FALSE_ALARM


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("broken", ["one partition", "noise"])
def test_broken_draws_are_caught(
    neighbours: str, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken == "noise":
        real = sample_aggregate.Randomness.laplaces
        monkeypatch.setattr(
            sample_aggregate.Randomness, "laplaces", lambda self, n: 2 * real(self, n)
        )
    else:
        monkeypatch.setattr(
            sample_aggregate, "deal", lambda r, n, blocks, neighbours: np.arange(n) % blocks
        )
    assert p_value_of_draws(neighbours) < FALSE_ALARM


def test_one_block_has_a_law() -> None:
    problem = make_problem(FOUR, 3, include=[1], exclude=[0])
    mechanism = SampleAggregate(6.0, blocks=1, selector=heaviest)
    supports, logs = mechanism.probabilities(problem)
    assert supports.tolist() == [[1, 2, 3]]
    assert logs == pytest.approx([0.0], abs=1e-12)
    problem = make_problem(FOUR, 2, include=[1])
    supports, logs = mechanism.probabilities(problem)
    assert supports.tolist() == [[0, 1], [1, 2], [1, 3]]
    drawn = mechanism.draw(problem, 3000, random_state=2)
    p_value, cells = chi_square(counts_of(drawn, supports), logs)
    assert cells == 3
    assert p_value > FALSE_ALARM
    many = make_problem(np.vstack([FOUR] * 4), 2)
    with pytest.raises(InputError, match="averages over all partitions"):
        SampleAggregate(1.0, blocks=2).probabilities(many)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_a_tiny_table_has_a_law(neighbours: str) -> None:
    mechanism = SampleAggregate(6.0, blocks=2, selector=heaviest, neighbours=neighbours)
    problem = make_problem(FOUR, 2)
    assert mechanism.probabilities(problem)[1] == pytest.approx(whole_law(mechanism, problem))


# ---- partitions -------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [0, 1, 5, 17, 100])
@pytest.mark.parametrize("blocks", [1, 3, 20])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_every_row_is_in_one_block(rows: int, blocks: int, neighbours: str) -> None:
    labels = deal(as_randomness(rows), rows, blocks, neighbours)
    parts = list(members(labels, blocks))
    assert len(parts) == blocks
    assert sorted(np.concatenate(parts).tolist()) == list(range(rows))
    assert all((np.diff(part) > 0).all() for part in parts)
    assert all((labels[part] == place).all() for place, part in enumerate(parts))
    if neighbours == "replace-one":
        assert np.ptp([len(part) for part in parts]) <= 1


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_all_partitions_are_equally_likely(neighbours: str) -> None:
    randomness = as_randomness(8)
    drawn = np.array([deal(randomness, 4, 2, neighbours) for _ in range(4000)])
    every = np.array(list(itertools.product([0, 1], repeat=4)))
    if neighbours == "replace-one":
        every = every[every.sum(axis=1) == 2]
    law = np.full(len(every), -math.log(len(every)))
    p_value, cells = chi_square(counts_of(drawn, every), law)
    assert cells == len(every)
    assert p_value > FALSE_ALARM


def test_default_number_of_blocks() -> None:
    seen: list[int] = []

    def count(X: np.ndarray, y: np.ndarray, most: int) -> list[int]:
        seen.append(len(X))
        return [0]

    SampleAggregate(1.0, selector=count).draw(make_problem(np.zeros((20, 3))), 1, random_state=0)
    assert seen == [5, 5, 5, 5]
    with pytest.raises(InputError, match="number of rows is private"):
        SampleAggregate(1.0, neighbours="add-remove")


# ---- what a block chooses -----------------------------------------------------------------------


def descend(X: np.ndarray, y: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """Minimise |y - X b|^2 / 2 + sum penalties_j |b_j| by plain coordinate descent."""
    gram, products = (X.T @ X).tolist(), (X.T @ y).tolist()
    beta = [0.0] * len(products)
    for _ in range(100):
        for j, row in enumerate(gram):
            z = products[j] - sum(map(math.prod, zip(row, beta, strict=True))) + row[j] * beta[j]
            beta[j] = math.copysign(max(abs(z) - penalties[j], 0.0), z) / row[j]
    return np.array(beta)


@pytest.mark.parametrize("included", [0, 2])
@pytest.mark.parametrize("seed", range(4))
def test_lasso_choice_is_the_first_point_with_so_many_columns(seed: int, included: int) -> None:
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(30, 6)), rng.normal(size=(30, included))
    X += 0.4 * Z.sum(axis=1, keepdims=True)
    y = X @ rng.normal(size=6) + Z.sum(axis=1) + rng.normal(size=30)
    chosen = lasso_choice(X, Z, y, 3)
    both = np.hstack([X, Z])
    low, high = 0.0, 2 * np.abs(X.T @ y).max()
    inside = np.empty(0)
    while len(inside) != 3:  # halve: from 3 columns on the penalty is too small
        penalty = (low + high) / 2
        weights = np.r_[np.full(6, penalty), np.zeros(included)]
        beta = descend(both, y, weights)
        assert (np.abs(both.T @ (y - both @ beta)) <= weights + 1e-6).all()
        inside = np.flatnonzero(np.abs(beta[:6]) > 1e-9)
        low, high = (penalty, high) if len(inside) > 3 else (low, penalty)
    assert chosen.tolist() == inside.tolist()


def test_lasso_choice_passes_a_column_that_leaves_the_path() -> None:
    """Where a coefficient leaves again, more steps than columns are needed."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(12, 10)) + 2 * rng.normal(size=(12, 1))
        y = X @ rng.normal(size=10)
        assert len(lasso_choice(X, np.empty((12, 0)), y, 8)) == 8


@pytest.mark.parametrize("included", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_svm_choice_against_proximal_steps(seed: int, included: int) -> None:
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(80, 6)), np.ones((80, included))
    y = np.where(X[:, 1] - 0.7 * X[:, 4] + 0.8 * included + rng.normal(size=80) > 0, 1.0, -1.0)
    chosen = svm_choice(X, Z, y, 2)
    both, weights = np.hstack([X, Z]), np.r_[np.ones(6), np.zeros(included)]
    C, beta = 0.5 / np.abs(X.T @ y).max(), np.zeros(6 + included)
    while np.count_nonzero(np.abs(beta[:6]) > 1e-8) < 2:
        C, step = 1.3 * C, 0.0
        step = 1 / (2 * 1.3 * C * np.linalg.norm(both, 2) ** 2)
        for _ in range(3000):
            slopes = -2 * C * both.T @ (y * np.maximum(1 - y * (both @ beta), 0))
            moved = beta - step * slopes
            beta = np.sign(moved) * np.maximum(np.abs(moved) - step * weights, 0)
    order = np.argsort(-np.abs(beta[:6]))[:2]
    assert chosen.tolist() == sorted(order.tolist())


def _worst_slope(seed: int) -> float:
    """Return by how much SVMs along a path miss their minimum, in the slope of any column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 300))
    y = np.where(X[:, 1] - 0.7 * X[:, 4] + rng.normal(size=60) > 0, 1.0, -1.0)
    least = 0.5 / np.abs(X.T @ y).max()
    penalties = [1.01 * least, 1.5 * least, 3 * least, 10 * least]
    worst, sizes = 0.0, []
    for C, w in zip(penalties, l1_svm.svm_path(X, y, iter(penalties)), strict=True):
        slopes = -2 * C * X.T @ (y * np.maximum(1 - y * (X @ w), 0))
        off = np.where(w != 0, np.abs(slopes + np.sign(w)), np.abs(slopes) - 1.0)
        worst, sizes = max(worst, off.max()), [*sizes, np.count_nonzero(w)]
    assert sizes[0] < 4 < l1_svm._MORE < sizes[-1]  # columns had to be taken in
    return worst


@pytest.mark.parametrize("seed", range(3))
def test_svm_paths_are_at_the_minimum_over_all_columns(seed: int) -> None:
    assert _worst_slope(seed) < 1e-5


def test_twin_svm_paths_without_a_look_at_other_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns join while they are far beyond their penalty only."""
    monkeypatch.setattr(l1_svm, "_EXACT", 0.1)
    assert _worst_slope(0) > 1e-3


# ---- nothing leaves a block ---------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_degenerate_blocks_are_silent(loss: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Constant columns, copies, empty blocks, one class: no warning, no error, no print."""
    X = np.tile([1.0, 1.0, 0.0, -1.0], (12, 1))
    X[:2, 0] = 0.0
    y = np.r_[1.0, -np.ones(11)]
    options = {"classes": (-1, 1), "y_bound": None} if loss == "hinge" else {}
    problem = make_problem(X, 3, y=y, loss=loss, include=[1], **options)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for blocks in (1, 3, 30):
            drawn = SampleAggregate(1.0, blocks=blocks).draw(problem, 3, random_state=0)
            assert (drawn == 1).any(axis=1).all()
    assert capfd.readouterr() == ("", "")


def test_what_a_function_does_stays_inside() -> None:
    def mischief(X: np.ndarray, y: np.ndarray, count: int) -> Any:
        kind = int(X[0, 0] * 8)
        X[:] = y[:] = np.nan
        if kind == 0:
            raise RuntimeError("the first row is secret")
        if kind == 1:
            warnings.warn("the second row is secret", stacklevel=1)
        return [None, [2, 2, -1, 99, True, 1.0, 3, 4, 0], 7, "02", ["x"], np.array([3]), ["3"]][
            kind - 1
        ]

    X = np.zeros((8, 6))
    X[:, 0] = np.arange(8) / 8
    mechanism = SampleAggregate(1.0, blocks=8, selector=mischief)
    problem = make_problem(X, 2)
    counts = mechanism._counts(problem, mechanism._voters(problem), np.arange(8))
    assert counts.tolist() == [0, 0, 1, 2, 0, 0]
    assert np.isfinite(problem.design.take(range(6))).all()
    assert np.isfinite(problem.y).all()


# ---- the rest -----------------------------------------------------------------------------------


def true_columns(loss: str, sparse: bool = False, **options: Any) -> Problem:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (1500, 7))
    t = X[:, 2] - X[:, 5] + 0.5 * X[:, 0]
    y = np.sign(t) if loss == "hinge" else t / 3
    bounds = {"y_bound": None, "classes": (-1, 1)} if loss == "hinge" else {}
    table = sp.csr_array(X) if sparse else X
    return make_problem(table, 3, y=y, loss=loss, **bounds, **options)


@pytest.mark.parametrize("loss", ["squared", "absolute", "hinge"])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_clear_columns_are_found(loss: str, neighbours: str) -> None:
    mechanism = SampleAggregate(10.0, blocks=20, neighbours=neighbours)
    for sparse in (False, True):
        drawn = mechanism.draw(true_columns(loss, sparse), 2, random_state=0)
        assert drawn.tolist() == [[0, 2, 5]] * 2


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_included_and_excluded_columns(loss: str) -> None:
    problem = true_columns(loss, include=[6], exclude=[5])
    drawn = SampleAggregate(10.0, blocks=20).draw(problem, 2, random_state=0)
    assert drawn.tolist() == [[0, 2, 6]] * 2
    problem = true_columns(loss, include=[6, 1, 5])
    assert SampleAggregate(1.0, blocks=2).draw(problem, 2, 0).tolist() == [[1, 5, 6]] * 2


def test_guarantee_and_release() -> None:
    problem = true_columns("squared", include=[6])
    mechanism = SampleAggregate(2.0)
    promise = mechanism.guarantee(problem)
    assert (promise.epsilon, promise.delta, promise.condition) == (2.0, 0.0, None)
    assert (promise.sensitivity, promise.precision) == (4.0, 0.0)
    assert mechanism.scale(problem) == 2.0
    release = mechanism.release(problem)
    assert release.guarantee == promise
    assert len(release.support) == 3
    assert 6 in release.support


def test_bad_input() -> None:
    for blocks in (0, 2.5, True):
        with pytest.raises(InputError, match="blocks must be a whole number of at least 1"):
            SampleAggregate(1.0, blocks=blocks)
    for selector in ("ridge", 3):
        with pytest.raises(InputError, match="allowed: lasso, l1-svm, or a function"):
            SampleAggregate(1.0, selector=selector)
    with pytest.raises(InputError, match="'l1-svm' needs labels"):
        SampleAggregate(1.0, selector="l1-svm").release(true_columns("squared"))
    with pytest.raises(UnprovenError, match="count the budget as spent"):
        SampleAggregate(1.0, limits=Limits(nodes=3)).release(true_columns("squared"))
