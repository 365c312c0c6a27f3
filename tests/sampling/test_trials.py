"""Scores that a chain over blocks encloses by trial fits (T24j), and broken twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from block_cases import Blocks, blocks, problem_of

from dpsubset import MarkovChain
from dpsubset.designs import gram
from dpsubset.privacy import as_randomness
from dpsubset.problem import Problem
from dpsubset.sampling import block_chain, l1_face, l1_trials, trials
from dpsubset.sampling.block_chain import ByBlocks
from dpsubset.sampling.chain import Rule
from dpsubset.sampling.pairs import no_pairs
from dpsubset.sampling.shrunk import shrunk
from dpsubset.sums import BLOCK, dot, four_dots

GROUPS = ((6,), (3, 8, 10), (0,), (1, 11), (2, 4, 9, 13, 14), (5,), (7, 12))
CASES = {
    "inside the ball": {"radius": 50.0, "ridge": 2.0},
    "the ball is active": {"radius": 0.3, "ridge": 0.1},
    "no ridge": {"radius": 0.8, "ridge": 0.0},
}
HELD = ("products", "residuals")
ERROR = 1e-6  # of the brute force
ENDS = {"l2": trials.ends, "l1": l1_trials.l1_ends}


@pytest.fixture(autouse=True)
def always_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have trial fits decide, however few the columns are, and no directions before them."""
    monkeypatch.setattr(block_chain, "_FEW", 0)
    monkeypatch.setattr(ByBlocks, "_room_for_directions", lambda self: False)


def no_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram, "FULL_UP_TO", 0)


def case_of(name: str) -> Blocks:
    return blocks("squared", 5, groups=GROUPS, size=3, n=40, **CASES[name])


class Bench:
    """A trial fit of one problem, to be moved by hand."""

    def __init__(self, problem: Problem, ball: str = "l2") -> None:
        self.l1 = ball == "l1"
        gap = 1e-9 if self.l1 else 0.0
        state = np.array([[0, 1, 2]]), np.array([[3, 4, 5, 6]])
        counted = np.zeros(1, dtype=int)
        walker = ByBlocks(problem, Rule(3.0, 100, self.l1, gap), state, counted)
        slots = np.array([[0, 1, 2, 3]])
        self.data = walker._data(slots, 0, 1)
        self.alone, self.pairs = walker._alone, walker._pairs
        assert self.alone.values.size  # or nothing is tried
        self.norm, self.near, self.energy = walker._norm, walker._near, problem.energy
        y = np.empty(0) if self.data.whole else problem.y
        self.trial = trials.Trial.of(3, 5, y)
        self.face, self.faced = l1_face.Face.of(self.trial.beta.shape[1]), False
        self.ridge = problem.ridge

    def stand(self, support: Any, weight: float = 0.0) -> None:
        trials.forget_all(self.trial, self.near.least, weight)
        trials.catch_up(self.data.table, self.alone, self.ridge, self.trial, np.array(support))

    def propose(self, at: int, g: int) -> None:
        trials.propose(self.data.table, self.alone, self.ridge, self.trial, at, g)

    def ends(self, which: int, at: int, g: int) -> tuple[float, float, float]:
        """Return the least and the most of the score, and what the ball has of that."""
        given = self.alone, self.pairs, self.norm, self.energy, self.trial, which, at, g
        gains = l1_trials.l1_ends(*given) if self.l1 else trials.ends(*given)
        return self.energy - gains[1], self.energy - gains[0], gains[2]

    def nearer(self, which: int, at: int, g: int) -> None:
        """Fit once more, and choose another multiplier if the ball's part is large."""
        if self.l1 and self.data.whole and self.trial.numbers[which, 3] > 0.0:
            self.faced = not self.faced
            given = self.alone, self.norm, self.trial, self.face, which, at
            if not (self.faced and l1_face.to_face(*given)):
                l1_trials.sweep(self.alone, self.ridge, self.trial, which, at, g)
        else:
            trials.refit(self.data.table, self.alone, self.ridge, self.trial, which, at, g)
        low, high, ball = self.ends(which, at, g)
        if ball > 0.5 * (high - low):
            given = self.alone, self.norm, self.trial, which, at, g
            if self.l1:
                l1_trials.l1_turn(*given)
            else:
                trials.turn(*given, self.near.least)


def scores_of(case: Blocks, supports: Any, ball: str) -> np.ndarray:
    listed = np.array([np.sort(s) for s in supports])
    if ball == "l2":
        return case.scores(listed)
    return MarkovChain(1.0, ball="l1")._l1_scores(problem_of(case), listed)


def outside(case: Blocks, ball: str, times: int = 6) -> tuple[float, float]:
    """Return how far scores are outside their ends at most, and how far apart the last ends are."""
    bench, others = Bench(problem_of(case), ball), [0, 4]
    worst, widest = -np.inf, 0.0
    for at in range(3):
        supports = [np.insert(others, at, g) for g in range(7) if g not in others]
        for support, score in zip(supports, scores_of(case, supports, ball), strict=True):
            bench.stand(np.insert(others, at, 5 if support[at] != 5 else 6))
            bench.propose(at, support[at])
            for _ in range(times):
                low, high, _ = bench.ends(1, at, support[at])
                worst = max(worst, low - score, score - high)
                bench.nearer(1, at, support[at])
            widest = max(widest, high - low)
    return worst, widest


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("name", CASES)
def test_the_ends_enclose_every_score(
    name: str, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By brute force, after every fit; all features of their own widths, at every place."""
    if held == "residuals":
        no_products(monkeypatch)
    worst, widest = outside(case_of(name), "l2")
    assert worst < ERROR
    assert np.isfinite(widest)


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("name", CASES)
def test_the_ends_over_the_l1_ball_enclose_every_score(
    name: str, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if held == "residuals":
        no_products(monkeypatch)
    worst, widest = outside(case_of(name), "l1")
    assert worst < ERROR
    assert np.isfinite(widest)


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("ball", ["l2", "l1"])
@pytest.mark.parametrize("name", ["inside the ball", "the ball is active"])
def test_fits_lead_to_the_score(
    name: str, ball: str, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if held == "residuals":
        no_products(monkeypatch)
    assert outside(case_of(name), ball, 80)[1] < 1e-2


def in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ("propose", "_propose_far", "_refit_one"):
        monkeypatch.setattr(trials, function, plain(getattr(trials, function)))


def proposed(case: Blocks, weight: float) -> float:
    """Return how far scores are outside the ends of a first proposal, at an l1 multiplier."""
    bench, worst = Bench(problem_of(case), "l1"), -np.inf
    for g in (1, 2, 3, 5, 6):
        support = np.array([0, 4, g])
        (score,) = scores_of(case, [support], "l1")
        bench.stand([0, 4, 5 if g != 5 else 6], weight)
        bench.propose(2, g)
        low, high, _ = bench.ends(1, 2, g)
        worst = max(worst, low - score, score - high)
    return worst


def nothing_left(
    own: Any, width: int, weight: float, beta: Any, left: Any, first: int, change: Any
) -> None:
    """Take a feature for fitted, with coefficients of 0."""
    change[:] = 0.0
    left[first : first + change.size] = 0.0


def test_a_feature_that_is_shrunk_leaves_what_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """By residuals; and a twin that does not look at what its coefficients leave."""
    case = blocks("squared", 5, groups=GROUPS, size=3, n=40, radius=0.3, ridge=200.0)
    no_products(monkeypatch)
    assert proposed(case, 0.1) < ERROR
    in_python(monkeypatch)
    assert proposed(case, 0.1) < ERROR
    monkeypatch.setattr(trials, "shrunk", nothing_left)
    assert proposed(case, 0.1) > 1e-3


def test_a_shrunk_feature_is_fitted() -> None:
    """At the multiplier where signs stay, and no larger than it where coefficients are 0."""
    bench = Bench(problem_of(case_of("inside the ball")))
    alone, c = bench.alone, 8
    for g, weight in ((4, 0.5), (1, 3.0), (6, 1e3)):
        width = len(GROUPS[g])
        A = alone.vectors[g].T @ ((alone.values[g] + 0.2)[:, None] * alone.vectors[g])
        beta, left, change = np.zeros(c), alone.targets[g].copy(), np.zeros(c)
        for _ in range(60):
            shrunk(A, width, weight, beta, left, 0, change)
            beta += change
            left -= A @ change
        assert not change[:width].any() or np.abs(change).max() < 1e-9
        assert np.allclose(left[beta != 0], weight * np.sign(beta[beta != 0]), atol=1e-6)
        assert (np.abs(left[:width]) <= weight + 1e-6).all()
        assert not beta[width:].any()


def test_a_face_is_fitted_at_once() -> None:
    """The ball is filled, and what is left of coefficients that are not 0 is its multiplier."""
    bench, where = Bench(problem_of(case_of("the ball is active")), "l1"), []
    for support in ([0, 1, 2], [4, 3, 1], [6, 2, 5]):
        bench.stand(support, 0.1)
        trials.refit(bench.data.table, bench.alone, bench.ridge, bench.trial, 0, 0, support[0])
        for _ in range(30):  # until no sign changes
            l1_face.to_face(bench.alone, bench.norm, bench.trial, bench.face, 0, 0)
        beta, left, weight = bench.trial.beta[0], bench.trial.left[0], bench.trial.numbers[0, 3]
        filled = np.abs(beta).sum() / bench.norm.radius
        assert filled == pytest.approx(1.0) if weight > 0.0 else filled <= 1.0
        assert np.allclose(left[beta != 0], weight * np.sign(beta[beta != 0]), atol=1e-8)
        where.append(np.count_nonzero(beta) if weight > 0.0 else 0)
    assert max(where) > 1


def old_products(trial: Any, which: int, at: int, change: Any, penalty: float) -> float:
    """Go by the products of the feature that stood at that place."""
    trial.left[which] -= trial.products @ change + penalty * change
    trial.beta[which] += change
    return float(np.linalg.norm(change))


def test_a_face_by_old_products_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of("the ball is active")
    monkeypatch.setattr(l1_face, "to_face", plain(l1_face.to_face))
    assert outside(case, "l1")[0] < ERROR
    monkeypatch.setattr(l1_face, "_move", old_products)
    assert outside(case, "l1")[0] > 1e-3


def no_remainder(alone: Any) -> Any:
    """What is left counts for nothing: a trial fit is taken for the best one."""
    return alone._replace(numbers=alone.numbers * np.array([1.0, 1.0, 1.0, 1e-9, 1.0]))


def another_target(alone: Any) -> Any:
    return alone._replace(targets=1.1 * alone.targets)


@pytest.mark.parametrize("ball", ["l2", "l1"])
@pytest.mark.parametrize("broken", [no_remainder, another_target])
def test_broken_tables_are_caught(
    broken: Callable[[Any], Any], ball: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of("inside the ball")
    made = block_chain.alone_of
    monkeypatch.setattr(block_chain, "alone_of", lambda *given: broken(made(*given)))
    assert outside(case, ball)[0] > 1e-3


@pytest.mark.parametrize("ball", ["l2", "l1"])
def test_without_a_ridge_the_ball_bounds_what_is_left(
    ball: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By residuals nothing else is known of the curvature; and a twin that leaves it out."""
    case, module = case_of("no ridge"), l1_trials if ball == "l1" else trials
    no_products(monkeypatch)
    low, widest = outside(case, ball)
    monkeypatch.setattr(module, "l1_ends" if ball == "l1" else "ends", plain(ENDS[ball]))
    assert outside(case, ball) == pytest.approx((low, widest))
    monkeypatch.setattr(module, "within", lambda *given: np.inf)
    assert outside(case, ball)[1] > 100.0 * widest
    monkeypatch.setattr(module, "within", lambda *given: 0.0)
    assert outside(case, ball)[0] > 1e-3


@pytest.mark.parametrize("ball", ["l2", "l1"])
@pytest.mark.parametrize("held", HELD)
def test_rounding_of_what_is_left_is_counted(
    held: str, ball: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long walk, with other multipliers on the way; then everything is computed anew."""
    if held == "residuals":
        no_products(monkeypatch)
    case = case_of("the ball is active")
    bench, rng = Bench(problem_of(case), ball), np.random.default_rng(1)
    X, y = case.bounded()
    support = np.array([0, 1, 2])
    bench.stand(support)
    seen = []
    for _ in range(300):
        at, g = rng.integers(3), rng.choice(np.setdiff1d(np.arange(7), support))
        bench.propose(at, g)
        for _ in range(rng.integers(3)):
            bench.nearer(1, at, g)
        trials.follow(bench.trial, at, g)
        support[at] = g
        trials.catch_up(bench.data.table, bench.alone, bench.ridge, bench.trial, support)
        mu, come, _ = bench.trial.numbers[0, :3]
        wrong = 0.0
        for q, f in enumerate(support):
            columns, c = list(GROUPS[f]), len(GROUPS[f])
            beta = bench.trial.beta[0].reshape(3, -1)
            fit = sum(
                X[:, list(GROUPS[h])] @ beta[p, : len(GROUPS[h])] for p, h in enumerate(support)
            )
            left = X[:, columns].T @ (y - fit) - (bench.ridge + mu) * beta[q, :c]
            wrong += float(np.sum((left - bench.trial.left[0].reshape(3, -1)[q, :c]) ** 2))
        unit, trace = bench.alone.numbers[:2]
        seen.append(np.sqrt(wrong) / (unit * (trace + 24 * mu) * come))
    assert max(seen) < 1.0
    assert max(seen) > 0.0
    assert (bench.trial.numbers[0, 3] > 0.0) == (ball == "l1")  # its multiplier was used


def walked(case: Blocks, ball: str, epsilon: float, **more: Any) -> np.ndarray:
    mechanism = MarkovChain(epsilon, steps=40, ball=ball, **more)
    return mechanism._chains(problem_of(case), 30, as_randomness(np.random.default_rng(4)))[0]


def plain(function: Any) -> Any:
    return getattr(function, "py_func", function)


def all_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute every score to the end, from all products."""
    monkeypatch.undo()
    monkeypatch.setattr(block_chain, "pairs_of", lambda *given: no_pairs())
    monkeypatch.setattr(block_chain, "_walk", plain(block_chain._walk))
    monkeypatch.setattr(block_chain, "_enclosed", lambda *given: (-np.inf, np.inf, 0.0))


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("ball", ["l2", "l1"])
@pytest.mark.parametrize("epsilon", [0.5, 30.0])
@pytest.mark.parametrize("name", CASES)
def test_every_step_goes_where_the_scores_send_it(
    name: str, epsilon: float, ball: str, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(name)
    if held == "residuals":
        no_products(monkeypatch)
    quick = walked(case, ball, epsilon)
    all_scores(monkeypatch)
    assert np.array_equal(quick, walked(case, ball, epsilon))


def too_sure(*given: Any) -> Any:
    least, most, ball = RIGHT(*given)
    return least, most - 1.0, ball


def stands_still(trial: Any, at: int, g: int) -> None:
    """Take the new feature for fitted, and keep the products of the old one."""
    trial.held[at] = g
    trial.beta[0], trial.left[0] = trial.beta[1], trial.left[1]


RIGHT = plain(trials.ends)
TWINS = {"ends": too_sure, "follow": stands_still}


@pytest.mark.parametrize("name", TWINS)
def test_twins_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that is no bound, and products of what has left."""
    case = case_of("no ridge")
    right = walked(case, "l2", 30.0)
    for function in ("_walk", "_tried"):
        monkeypatch.setattr(block_chain, function, plain(getattr(block_chain, function)))
    assert np.array_equal(right, walked(case, "l2", 30.0))
    monkeypatch.setattr(block_chain, name, TWINS[name])
    assert not np.array_equal(right, walked(case, "l2", 30.0))


def test_features_learned_from_columns_are_those_of_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = case_of("no ridge")
    known = Bench(problem_of(case)).alone
    no_products(monkeypatch)
    learned = Bench(problem_of(case)).alone
    met = np.isfinite(learned.values[:, 0])
    assert met.all()
    assert np.allclose(learned.values, known.values, atol=1e-9)
    assert np.allclose(learned.targets, known.targets)
    for g in range(7):
        rebuilt = [a.vectors[g].T @ (a.values[g][:, None] * a.vectors[g]) for a in (learned, known)]
        assert np.allclose(*rebuilt, atol=1e-9)


def test_four_products_at_once() -> None:
    a, b, c, d, v = np.random.default_rng(0).normal(size=(5, BLOCK + 7))
    assert np.allclose(four_dots(a, b, c, d, v), [dot(x, v) for x in (a, b, c, d)], rtol=1e-11)
