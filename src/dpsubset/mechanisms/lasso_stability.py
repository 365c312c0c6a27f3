"""Lasso stability: release the lasso's support if a private test finds it stable (T26)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.checks import positive, whole
from dpsubset.errors import InputError, RefusedError
from dpsubset.limits import Budget, Limits
from dpsubset.mechanisms.base import Mechanism, Release, Sampler
from dpsubset.mechanisms.blocks import Selector, Voters, check_selector, deal
from dpsubset.mechanisms.lasso import Units, margin, units_of
from dpsubset.privacy import Guarantee, Randomness, as_randomness
from dpsubset.problem import Problem
from dpsubset.sampling.pieces import Support

__all__ = ["LassoStability", "passing", "threshold"]

Stability = Callable[[Randomness], tuple[float, Support | None]]

_CURVATURE = 0.25
_MOST_BLOCKS = 100_000
_REFUSED = (
    "the test that comes before a release did not pass, so nothing is released; the refusal is an "
    "outcome that the guarantee covers, and the budget is spent. A larger epsilon or delta, or "
    "more rows, make it pass more often"
)
_NO_LAW = (
    "lasso stability may refuse, and its test averages over partitions of the rows, so its law is "
    "not listed; use draw, where a refusal is a row of -1"
)


def passing(h: float, epsilon: float, delta: float) -> float:
    """Return the chance that the test passes: h + Laplace(1/epsilon) is above its threshold.

    >>> round(passing(1.0, 1.0, 1e-6), 12), round(passing(20.0, 1.0, 1e-6), 3)
    (1e-06, 0.999)
    """
    over = epsilon * (h - threshold(epsilon, delta))
    return 1.0 - 0.5 * math.exp(-over) if over > 0 else 0.5 * math.exp(over)


def threshold(epsilon: float, delta: float) -> float:
    """Return 1 + ln(1/(2 delta))/epsilon: from h <= 1 the noise reaches it with chance delta."""
    return 1.0 + math.log(0.5 / delta) / epsilon


class LassoStability(Mechanism):
    """The lasso's support, if it is far from changing; otherwise a refusal (T26).

    (epsilon, delta)-DP without any condition. After Thakurta and Smith (2013): a number h tells how
    many rows must be replaced, at least, before the support can change, and the support is released
    if h + Laplace(1/epsilon) > 1 + ln(1/(2 delta))/epsilon. Otherwise `release` and `experiment`
    raise RefusedError and `draw` fills the row with -1; the budget is spent either way.

    Parameters
    ----------
    epsilon, delta : float
        The budget of one release; delta is below 1/2.
    method : "subsampling" or "perturbation"
        Subsampling: blocks of rows choose sets of t columns, and h counts by how many blocks the
        most frequent set leads. Perturbation: h comes from the margins of one lasso on all rows;
        squared loss, replace-one and no included columns only.
    blocks, repeats : int
        Subsampling: the rows are parted `repeats` times into so many blocks. More repeats make h
        less random, not larger. The default number of blocks follows epsilon and delta.
    selector : "lasso", "l1-svm" or a function, optional
        Subsampling: how a block chooses, as for SampleAggregate; a block that does not choose
        exactly t columns abstains.
    penalty, l1_bound, curvature : float, optional
        Perturbation: the penalty in |y - X b|^2 / 2 + penalty |b|_1, summed over rows; a bound on
        |b|_1 (radius times the root of the size unless given); and the least curvature that the
        chosen columns must have, as a share of n x_bound^2 between 0 and 1. The default share of
        1/4 asks for a spread of half the bound; where more is known, more passes the test sooner.
        All public: never derive them from the table.
    neighbours, limits
        As for every mechanism; a block counts as a node.

    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.vstack([np.eye(3)] * 400); y = X[:, 0]
    >>> problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> LassoStability(epsilon=1.0).draw(problem, 2, random_state=0).tolist()
    [[0], [0]]
    """

    name = "lasso-stability mechanism"

    def __init__(
        self,
        epsilon: float,
        delta: float = 1e-6,
        *,
        method: str = "subsampling",
        blocks: int | None = None,
        repeats: int = 1,
        selector: str | Selector | None = None,
        penalty: float | None = None,
        l1_bound: float | None = None,
        curvature: float | None = None,
        neighbours: str = "replace-one",
        limits: Limits | None = None,
    ) -> None:
        super().__init__(epsilon, neighbours=neighbours, limits=limits)
        self.delta = positive(delta, "delta")
        if self.delta >= 0.5:
            raise InputError(f"delta must be below 1/2, not {delta!r}; choose it below 1/n")
        if method not in ("subsampling", "perturbation"):
            raise InputError(f"unknown method {method!r}; allowed: subsampling, perturbation")
        self.method = method
        self.blocks = None if blocks is None else whole(blocks, "blocks", 1)
        self.repeats = whole(repeats, "repeats", 1)
        self.selector = check_selector(selector)
        self.penalty = None if penalty is None else positive(penalty, "penalty")
        self.l1_bound = None if l1_bound is None else positive(l1_bound, "l1_bound")
        self.curvature = None if curvature is None else positive(curvature, "curvature")
        if curvature is not None and curvature > 1:
            raise InputError(f"curvature is a share of n x_bound^2, at most 1, not {curvature!r}")
        self._check_options()

    def _check_options(self) -> None:
        """Refuse options of the other method: they would do nothing."""
        other, names = "perturbation", ("penalty", "l1_bound", "curvature")
        if self.method == "perturbation":
            other, names = "subsampling", ("blocks", "repeats", "selector")
        for name in names:
            if getattr(self, name) != (1 if name == "repeats" else None):
                raise InputError(f"{name} is for the method {other!r}, not for {self.method!r}")
        if self.method == "perturbation" and self.neighbours == "add-remove":
            raise InputError(
                "the constants of the method 'perturbation' hold the number of rows, which is "
                "private under add-remove; use the method 'subsampling'"
            )

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the promise; its sensitivity is that of h."""
        return Guarantee(
            self.name, self.epsilon, self.neighbours, 1.0, precision=0.0, delta=self.delta
        )

    def release(self, problem: Problem) -> Release:
        """Spend the budget: return one private support, or raise RefusedError."""
        promise = self.guarantee(problem)
        return _unless_refused(self._sampler(problem)(as_randomness(None)), promise)

    def experiment(self, problem: Problem, random_state: int | np.random.Generator) -> Release:
        """Return a release that can be repeated, or raise RefusedError."""
        support = self.draw(problem, 1, random_state)[0]
        return _unless_refused(support, replace(self.guarantee(problem), randomness="seeded"))

    def probabilities(self, problem: Problem) -> tuple[NDArray[np.int64], Floats]:
        """Raise an InputError: a refusal is no support."""
        raise InputError(_NO_LAW)

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        raise InputError(_NO_LAW)

    def _sampler(self, problem: Problem) -> Sampler:
        stability = (self._voted if self.method == "subsampling" else self._margins)(problem)
        least = threshold(self.epsilon, self.delta)

        def draw(randomness: Randomness) -> Support:
            h, chosen = stability(randomness)
            noisy = h + float(randomness.laplaces(1)[0]) / self.epsilon
            if chosen is None or not noisy > least:
                return np.full(problem.size, -1, dtype=np.intp)
            included = np.array(problem.include, dtype=np.intp)
            return np.sort(np.concatenate([problem.free[chosen], included]))

        return draw

    def _voted(self, problem: Problem) -> Stability:
        """Return h = (c1 - c2)/(2 repeats) and the most frequent set, anew for every draw."""
        voters = Voters(problem, self.selector, Budget(self.limits))
        # full agreement is h = blocks/2: half as much again as the threshold
        blocks = self.blocks or math.ceil(3.0 * threshold(self.epsilon, self.delta))
        if blocks > _MOST_BLOCKS:
            raise InputError(
                f"this epsilon and delta need {blocks} blocks of rows, and at most {_MOST_BLOCKS} "
                "are made: choose a larger epsilon"
            )

        def stability(randomness: Randomness) -> tuple[float, Support | None]:
            ballots: Counter[tuple[int, ...]] = Counter()
            for _ in range(self.repeats):
                labels = deal(randomness, problem.n_rows, blocks, self.neighbours)
                for vote in voters.votes(labels, blocks):
                    if vote.size == problem.to_choose:
                        ballots[tuple(vote.tolist())] += 1
            return _lead(ballots, self.repeats)

        return stability

    def units(self, problem: Problem) -> Units:
        """Return the public constants of the method "perturbation"."""
        if not problem.quadratic or problem.include:
            raise InputError(
                "the method 'perturbation' needs the squared loss and no included columns; use "
                "the method 'subsampling'"
            )
        share = _CURVATURE if self.curvature is None else self.curvature
        bound = self.l1_bound or problem.radius * math.sqrt(problem.size)
        wanted = threshold(self.epsilon, self.delta) + 3.0 / self.epsilon
        return units_of(problem, share, bound, wanted, self.penalty)

    def _margins(self, problem: Problem) -> Stability:
        """Return h from the margins of the lasso on all rows; it is not random."""
        units = self.units(problem)
        found: tuple[float, Support | None] = 0.0, None
        if problem.n_rows:
            X = problem.design.take(problem.features.columns(problem.free))
            found = margin(X, problem.y, problem.size, units)
        return lambda randomness: found


def _unless_refused(support: Support | NDArray[np.int64], promise: Guarantee) -> Release:
    if support.size and support[0] < 0:
        raise RefusedError(_REFUSED)
    return Release(tuple(int(j) for j in support), promise)


def _lead(ballots: Counter[tuple[int, ...]], repeats: int) -> tuple[float, Support | None]:
    """Return the most frequent set's lead, in rows that it takes to undo it; ties by order."""
    if not ballots:
        return 0.0, None
    first, *others = sorted(ballots, key=lambda chosen: (-ballots[chosen], chosen))
    lead = ballots[first] - (ballots[others[0]] if others else 0)
    return lead / (2 * repeats), np.array(first, dtype=np.intp)
