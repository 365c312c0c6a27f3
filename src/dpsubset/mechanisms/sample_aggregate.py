"""Sample and aggregate: blocks of rows vote for features, the noisy counts decide (T25)."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from dpsubset.arrays import Floats
from dpsubset.checks import positive, whole
from dpsubset.docstrings import documented
from dpsubset.errors import InputError
from dpsubset.limits import Allowance
from dpsubset.mechanisms.base import Mechanism, Sampler
from dpsubset.mechanisms.blocks import (
    Selector,
    Voters,
    check_selector,
    check_votes,
    deal,
    deals,
    largest,
)
from dpsubset.privacy import Guarantee, Randomness
from dpsubset.problem import Problem
from dpsubset.sampling.pieces import Support

__all__ = ["SampleAggregate", "top_law"]

_NODES = 24  # of a panel as wide as the noise's scale
_MOST_SETS = 200_000
_WIDEST = 1e5
_CHUNK = 1 << 21


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class SampleAggregate(Mechanism):
    """Blocks of rows vote for t features each; the t largest counts plus Laplace noise win (T25).

    Pure epsilon-DP without any condition. After Kifer, Smith and Thakurta (2012).

    Parameters
    ----------
    epsilon : float
        The budget of one release.
    blocks : int, optional
        Number of blocks; the square root of the number of rows, rounded down, unless given. Under
        add-remove that number is private, so blocks must be given.
    selector : "lasso", "l1-svm" or a function, optional
        How a block chooses: the first point of the lasso path with t features, or of a path of
        l1-penalised SVMs with the squared hinge. The lasso serves regression losses
        and the SVM classification unless told otherwise. Included columns are not penalised: the
        lasso projects them out, for the SVM they are scaled up. A function is called with a
        block's free columns (X, y, t) and returns indices of them, of which the first t different
        features count; it must depend on its arguments alone and keep nothing between calls.
        Whatever it raises or warns of stays inside, and that block votes for nothing.
    limits : Limits, optional
        Limits on the work, at which nothing is released; a block counts as a node.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.vstack([np.eye(3)] * 400); y = X[:, 0]
    >>> problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> SampleAggregate(epsilon=2.0).draw(problem, 2, random_state=0).tolist()
    [[0], [0]]
    """

    name = "sample-and-aggregate mechanism"

    sensitivity: str = field(default="tight", init=False)  # no score enters
    blocks: int | None = None
    selector: str | Selector | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.blocks is not None:
            self.blocks = whole(self.blocks, "blocks", 1, most=10**6)
        self.selector = check_selector(self.selector)
        if self.blocks is None and self.neighbours == "add-remove":
            raise InputError(
                "under add-remove the number of rows is private, so the number of blocks cannot "
                "follow it: give it, as in SampleAggregate(epsilon, blocks=70, neighbours=...)"
            )

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee; its sensitivity is how far one row moves the counts, summed up."""
        self._check(problem)
        check_votes(problem)
        moved = 2.0 * problem.to_choose
        return Guarantee(self.name, self.epsilon, self.neighbours, moved, precision=0.0)

    def scale(self, problem: Problem) -> float:
        """Return the scale of the noise on every count: 2t/epsilon, under both relations (T25)."""
        return 2.0 * problem.to_choose / self.epsilon

    def probabilities(self, problem: Problem) -> tuple[NDArray[np.int64], Floats]:
        """Return all supports and their log probabilities; for few rows, or for one block."""
        self._check_law_may_be_seen()
        self._check(problem)
        if problem.to_choose == 0:
            return _support(problem, np.empty(0, np.intp))[None, :], np.zeros(1)
        voters, every = self._voters(problem), self._deals(problem)
        tally = Counter(tuple(self._counts(problem, voters, labels)) for labels in every)
        laws = {counts: top_law(counts, self.scale(problem), problem.to_choose) for counts in tally}
        sets = next(iter(laws.values()))[0]
        logs = logsumexp([law + math.log(tally[c]) for c, (_, law) in laws.items()], axis=0)
        supports = np.array([_support(problem, chosen) for chosen in sets])
        return supports, np.asarray(logs - math.log(len(every)))

    def _deals(self, problem: Problem) -> list[NDArray[np.int64]]:
        if self._count(problem) == 1:
            return [np.zeros(problem.n_rows, np.int64)]
        return deals(problem.n_rows, self._count(problem), self.neighbours)

    def _count(self, problem: Problem) -> int:
        return self.blocks or max(1, math.isqrt(problem.n_rows))

    def _voters(self, problem: Problem) -> Voters:
        return Voters(problem, self.selector, Allowance(self.limits))

    def _counts(self, problem: Problem, voters: Voters, labels: NDArray[np.int64]) -> Floats:
        counts = np.zeros(problem.free.size)
        for vote in voters.votes(labels, self._count(problem)):
            counts[vote] += 1.0
        return counts

    def _sampler(self, problem: Problem) -> Sampler:
        voters, blocks = self._voters(problem), self._count(problem)
        scale = self.scale(problem)

        def draw(randomness: Randomness) -> Support:
            labels = deal(randomness, problem.n_rows, blocks, self.neighbours)
            counts = self._counts(problem, voters, labels)
            noisy = counts + scale * randomness.laplaces(counts.size)
            return _support(problem, largest(noisy, problem.to_choose))

        return draw

    def _chance(self, problem: Problem, support: NDArray[np.intp]) -> None:
        return None  # the distribution averages over all partitions of the rows

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        raise NotImplementedError  # scores play no part


def _support(problem: Problem, chosen: NDArray[np.integer]) -> Support:
    return np.sort(np.concatenate([problem.free[chosen], np.array(problem.include, np.intp)]))


def top_law(votes: ArrayLike, scale: float, count: int) -> tuple[NDArray[np.int64], Floats]:
    """Return all sets of `count` places and the log probability that their noisy votes are largest.

    The noise is Laplace of this scale. With densities f, chances F to be below x and S above it,
    a set A wins with the integral of prod_{not A} F(x) prod_A S(x) sum_A f(x)/S(x), x its smallest
    noisy vote. Between two votes the integrand is smooth, beyond the last one it is a polynomial
    in exp(-|x|).

    >>> sets, logs = top_law([3, 3, 3, 0], scale=0.1, count=1)
    >>> sets.ravel(), np.exp(logs).round(6)
    (array([0, 1, 2, 3]), array([0.333333, 0.333333, 0.333333, 0.      ]))
    """
    at = np.asarray(votes, dtype=np.float64) / positive(scale, "scale")
    count = whole(count, "count", 0)
    if at.ndim != 1 or count > at.size or math.comb(at.size, count) > _MOST_SETS:
        raise InputError(
            f"the distribution is listed for up to {_MOST_SETS} sets of at most as many places "
            "as there are votes"
        )
    if at.size and np.ptp(at) > _WIDEST:
        raise InputError(
            f"the distribution is listed for votes within {_WIDEST:g} times the noise's scale"
        )
    sets = np.array(list(itertools.combinations(range(at.size), count)), dtype=np.int64)
    if count == 0:
        return sets.reshape(1, 0), np.zeros(1)
    inside = np.zeros((len(sets), at.size))
    np.put_along_axis(inside, sets, 1.0, axis=1)
    x, log_weights = _nodes(at)
    logs = np.full(len(sets), -np.inf)
    step = max(1, _CHUNK // len(sets))
    for start in range(0, x.size, step):
        part = slice(start, start + step)
        below, above = _log_below(x[part] - at[:, None]), _log_below(at[:, None] - x[part])
        hazards = np.exp(-np.abs(x[part] - at[:, None]) - math.log(2.0) - above)
        with np.errstate(divide="ignore"):  # no hazard so far below a set's votes: no weight
            terms = inside @ above + (1.0 - inside) @ below + np.log(inside @ hazards)
        logs = np.logaddexp(logs, logsumexp(terms + log_weights[part], axis=1))
    return sets, logs


def _log_below(x: Floats) -> Floats:
    """Return the log of the Laplace distribution function, scale 1."""
    small = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, x - math.log(2.0), np.log1p(-small))


def _nodes(at: Floats) -> tuple[Floats, Floats]:
    """Return nodes and log weights: panels between the votes, and u = exp(-|x|) beyond them."""
    ends = np.unique(at)
    panels = [
        np.linspace(low, high, 1 + math.ceil(high - low))
        for low, high in itertools.pairwise(ends.tolist())
    ]
    nodes, weights = np.polynomial.legendre.leggauss(_NODES + at.size)
    x, log_weights = [], []
    for edges in panels:
        half = np.diff(edges)[:, None] / 2
        x.append((edges[:-1, None] + half * (1 + nodes)).ravel())
        log_weights.append(np.log(half * weights).ravel())
    u = (1 + nodes) / 2
    x += [ends[0] + np.log(u), ends[-1] - np.log(u)]
    log_weights += [np.log(weights / 2) - np.log(u)] * 2
    return np.concatenate(x), np.concatenate(log_weights)
