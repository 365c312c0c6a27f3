"""Lasso stability: release the lasso's support if a private test finds it stable (T26)."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.checks import one_of, positive, whole
from dpsubset.docstrings import documented
from dpsubset.errors import InputError
from dpsubset.limits import Allowance
from dpsubset.mechanisms.base import Mechanism, Sampler
from dpsubset.mechanisms.blocks import (
    MOST_DEALS,
    Selector,
    Voters,
    check_selector,
    check_votes,
    deal,
    deals,
)
from dpsubset.mechanisms.lasso import Units, margin, units_of
from dpsubset.mechanisms.tested import check_delta, passes, passing, threshold
from dpsubset.privacy import Guarantee, Randomness, as_randomness
from dpsubset.problem import Problem
from dpsubset.sampling.pieces import Support

__all__ = ["LassoStability"]

Ballots = Counter[tuple[int, ...]]
Stability = Callable[[Randomness], tuple[float, Support | None]]

_CURVATURE = 0.25
_MOST_BLOCKS = 100_000


@documented
@dataclass(eq=False, repr=False)
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
        Subsampling: blocks of rows choose sets of t features, and h counts by how many blocks the
        most frequent set leads. Perturbation: h comes from the margins of one lasso on all rows;
        squared loss, replace-one and no included columns only. A feature of several columns is
        chosen if the lasso has any of them.
    blocks, repeats : int
        Subsampling: the rows are parted `repeats` times into so many blocks. More repeats make h
        less random, not larger. The default number of blocks follows epsilon and delta.
    selector : "lasso", "l1-svm" or a function, optional
        Subsampling: how a block chooses, as for SampleAggregate; a block that does not choose
        exactly t features abstains.
    penalty, l1_bound, curvature : float, optional
        Perturbation: the penalty in |y - X b|^2 / 2 + penalty |b|_1, summed over rows; a bound on
        |b|_1 (radius times the root of the most columns of a support unless given); and the least
        curvature that the chosen columns must have, as a share of n x_bound^2 between 0 and 1. The
        default share of 1/4 asks for a spread of half the bound; where more is known, more passes
        the test sooner. All public: never derive them from the table.
    limits : Limits, optional
        Limits on the work, at which nothing is released; a block counts as a node.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.vstack([np.eye(3)] * 400); y = X[:, 0]
    >>> problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> LassoStability(epsilon=1.0).draw(problem, 2, random_state=0).tolist()
    [[0], [0]]
    """

    name = "lasso-stability mechanism"

    delta: float = 1e-6
    _: KW_ONLY
    sensitivity: str = field(default="tight", init=False)  # no score enters
    method: str = "subsampling"
    blocks: int | None = None
    repeats: int = 1
    selector: str | Selector | None = None
    penalty: float | None = None
    l1_bound: float | None = None
    curvature: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.delta = check_delta(self.delta)
        self.method = one_of(self.method, "method", ("subsampling", "perturbation"))
        if self.blocks is not None:
            self.blocks = whole(self.blocks, "blocks", 1, _MOST_BLOCKS)
        self.repeats = whole(self.repeats, "repeats", 1)
        self.selector = check_selector(self.selector)
        for name in ("penalty", "l1_bound", "curvature"):
            if getattr(self, name) is not None:
                setattr(self, name, positive(getattr(self, name), name))
        if self.curvature is not None and self.curvature > 1:
            raise InputError(
                f"curvature is a share of n x_bound^2, at most 1, not {self.curvature!r}"
            )
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
        """Return the guarantee; its sensitivity is that of h."""
        self._check(problem)
        check_votes(problem)
        if self.method == "subsampling":
            self._blocks()
        else:
            self.units(problem)
        return Guarantee(
            self.name, self.epsilon, self.neighbours, 1.0, precision=0.0, delta=self.delta
        )

    def probabilities(self, problem: Problem) -> tuple[NDArray[np.int64], Floats]:
        """Return the supports that may be released and their log probabilities; for few rows."""
        self._check_law_may_be_seen()
        self._check(problem)
        found: dict[tuple[int, ...], list[float]] = {}
        outcomes = list(self._outcomes(problem))
        for h, chosen in outcomes:
            if chosen is not None:
                support = tuple(self._support(problem, chosen).tolist())
                found.setdefault(support, []).append(passing(h, self.epsilon, self.delta))
        supports = np.array(sorted(found), dtype=np.int64).reshape(len(found), problem.size)
        chances = [math.fsum(found[tuple(s)]) / len(outcomes) for s in supports.tolist()]
        return supports, np.log(np.array(chances))

    def _outcomes(self, problem: Problem) -> Iterator[tuple[float, Support | None]]:
        """Return h and the support for all partitions, each as likely as any other."""
        if self.method == "perturbation":
            yield self._margins(problem)(as_randomness(0))
            return
        voters, blocks = Voters(problem, self.selector, Allowance(self.limits)), self._blocks()
        every = deals(problem.n_rows, blocks, self.neighbours)
        if len(every) ** self.repeats > MOST_DEALS:
            raise InputError("the distribution is listed for fewer repeats or rows; use draw")
        ballots = [self._ballots(voters, labels, blocks) for labels in every]
        for chosen in itertools.product(ballots, repeat=self.repeats):
            yield _lead(sum(chosen, Counter()), self.repeats)

    def _chance(self, problem: Problem, support: NDArray[np.intp]) -> None:
        return None  # the distribution averages over all partitions of the rows

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        raise NotImplementedError  # scores play no part

    def _sampler(self, problem: Problem) -> Sampler:
        stability = (self._voted if self.method == "subsampling" else self._margins)(problem)

        def draw(randomness: Randomness) -> Support:
            h, chosen = stability(randomness)
            stable = passes(h, self.epsilon, self.delta, randomness)
            if chosen is None or not stable:
                return np.full(problem.size, -1, dtype=np.intp)
            return self._support(problem, chosen)

        return draw

    @staticmethod
    def _support(problem: Problem, chosen: Support) -> Support:
        included = np.array(problem.include, dtype=np.intp)
        return np.sort(np.concatenate([problem.free[chosen], included]))

    def _blocks(self) -> int:
        # full agreement is h = blocks/2: half as much again as the threshold
        blocks = self.blocks or math.ceil(3.0 * threshold(self.epsilon, self.delta))
        if blocks > _MOST_BLOCKS:
            raise InputError(
                f"this epsilon and delta need {blocks} blocks of rows, and at most {_MOST_BLOCKS} "
                "are made: choose a larger epsilon"
            )
        return blocks

    @staticmethod
    def _ballots(voters: Voters, labels: NDArray[np.int64], blocks: int) -> Ballots:
        votes = voters.votes(labels, blocks)
        return Counter(tuple(vote.tolist()) for vote in votes if vote.size == voters.most)

    def _voted(self, problem: Problem) -> Stability:
        """Return h = (c1 - c2)/(2 repeats) and the most frequent set, anew for every draw."""
        voters, blocks = Voters(problem, self.selector, Allowance(self.limits)), self._blocks()

        def stability(randomness: Randomness) -> tuple[float, Support | None]:
            ballots: Ballots = Counter()
            for _ in range(self.repeats):
                labels = deal(randomness, problem.n_rows, blocks, self.neighbours)
                ballots += self._ballots(voters, labels, blocks)
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
        bound = self.l1_bound or problem.radius * math.sqrt(problem.most_columns)
        wanted = threshold(self.epsilon, self.delta) + 3.0 / self.epsilon
        return units_of(problem, share, bound, wanted, self.penalty)

    def _margins(self, problem: Problem) -> Stability:
        """Return h from the margins of the lasso on all rows; it is not random.

        One call of scikit-learn, which cannot be cut: limits are not looked at.
        """
        units = self.units(problem)
        found: tuple[float, Support | None] = 0.0, None
        if problem.n_rows:
            X = problem.design.take(problem.features.columns(problem.free))
            widths = problem.features.widths[problem.free]
            owner = np.repeat(np.arange(widths.size), widths)
            found = margin(X, problem.y, problem.size, units, owner)
        return lambda randomness: found


def _lead(ballots: Ballots, repeats: int) -> tuple[float, Support | None]:
    """Return the most frequent set's lead, in rows that it takes to undo it; ties by order."""
    if not ballots:
        return 0.0, None
    first, *others = sorted(ballots, key=lambda chosen: (-ballots[chosen], chosen))
    lead = ballots[first] - (ballots[others[0]] if others else 0)
    return lead / (2 * repeats), np.array(first, dtype=np.intp)
