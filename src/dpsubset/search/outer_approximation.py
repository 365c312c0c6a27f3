"""The paper's outer approximation: cuts from a perspective function, a master problem (T23)."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.checks import whole, yes_or_no
from dpsubset.cuts import CutMaker
from dpsubset.cuts.region import root
from dpsubset.errors import InputError
from dpsubset.search.backends import Master, Watch
from dpsubset.search.backends.gurobi import GurobiMaster
from dpsubset.search.backends.highs import HighsMaster
from dpsubset.search.outside import Outside, Session, Side, Support

__all__ = ["Approximation", "OuterApproximation"]

_ROUNDS = 60  # of the relaxation, for every side
_STEP = 0.3  # from the best point so far to the one that the cuts propose
_NEAR = 1e-4  # of the value without columns: the relaxation is close enough
_MOST_STARTS = 100  # start cuts
_MASTERS: dict[str, Callable[[int, int], Master]] = {"highs": HighsMaster, "gurobi": GurobiMaster}


class OuterApproximation(Outside):
    """The paper's Algorithm 2 with its appendix, for every loss.

    Cuts that touch a convex function c(z), equal to the score where z is the indicator of a
    support, bound all scores from below. A master problem finds the support where they are lowest;
    its score is computed, a cut is added there, and so on until the bound meets the best score.
    Every cut comes from a dual point and is valid however rough the fit behind it.

    Parameters
    ----------
    tolerance : float
        Relative gap at which a search ends; the paper's is 0.005.
    backend : "highs" or "gurobi"
        What solves the master problem.
    tighten : bool
        Move known curvature of X'X into the perspective term (squared loss with more rows than
        columns): same scores, much higher cuts. False is the paper's own function.
    relax : bool
        Also cut at fractional points, those of the master's relaxation. False is the paper's
        algorithm, which cuts at supports only.
    noise : (float, float)
        Supports are touched at a nearby point: columns outside get a share from this range.
    start_share : float
        Share of the columns, the first by |X'y|, that one-swaps are made with for start cuts.
    seed : int
        Of the noise.

    Examples
    --------
    >>> OuterApproximation(tolerance=0.01).backend
    'highs'
    """

    name = "outer-approximation"
    backends = tuple(_MASTERS)

    def __init__(
        self,
        *,
        tolerance: float = 0.005,
        backend: str = "highs",
        tighten: bool = True,
        relax: bool = True,
        noise: tuple[float, float] = (0.001, 0.005),
        start_share: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(tolerance, backend, tighten)
        self.relax = yes_or_no(relax, "relax")
        self.noise = _range(noise)
        if not (isinstance(start_share, numbers.Real) and 0 <= start_share <= 1):
            raise InputError(f"start_share must be a number from 0 to 1, not {start_share!r}")
        self.start_share: float = float(start_share)
        self.seed: int = whole(seed, "seed", 0)

    @classmethod
    def paper(cls, *, tolerance: float = 0.005, backend: str = "highs") -> OuterApproximation:
        """Return the paper's own algorithm: no curvature, no fractional points, start cuts."""
        return cls(
            tolerance=tolerance, backend=backend, tighten=False, relax=False, start_share=0.1
        )

    def session(self, maker: CutMaker, scale: float) -> Approximation:
        return Approximation(self, maker, scale)


def _range(noise: Any) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in noise)
    except (TypeError, ValueError):
        low = high = math.nan
    if not 0 < low <= high < 1:
        raise InputError(f"noise must be two numbers, 0 < low <= high < 1, not {noise!r}")
    return low, high


class Approximation(Session):
    """The master problem, and the cuts it is given."""

    model: Master

    def __init__(self, options: OuterApproximation, maker: CutMaker, scale: float) -> None:
        problem = maker.problem
        master = _MASTERS[options.backend](problem.free.size, problem.to_choose)
        super().__init__(maker, scale, master)
        self._options = options
        self._region = root(problem)
        self._noise = np.random.default_rng(options.seed)
        self._relaxed: set[Side] = set()
        self._started = False
        self.cuts = 0  # made so far

    def visit(self, support: Support) -> None:
        super().visit(support)
        self._touch(support)

    def prepare(self, side: Side, goal: float, watch: Watch) -> float:
        if side.centre and not self._started:
            self._started = True
            self._start(side.centre)
        if not self._options.relax or side in self._relaxed:
            return -math.inf
        self._relaxed.add(side)
        return self._relax(side, goal, watch)

    def _touch(self, support: Support) -> None:
        """Cut near a support."""
        z = self._noise.uniform(*self._options.noise, self.problem.free.size)
        z[self.positions(support)] = 1.0
        self._cut(z)

    def _cut(self, z: Floats) -> float:
        """Add the cut that touches c at z; return its value there."""
        cut = self.maker.tangent(self._region, z, tighten=self._options.tighten)
        # No score is negative, so no weight needs to exceed the constant.
        constant = max(cut.constant, 0.0) / self.scale
        weights = np.minimum(cut.weights / self.scale, constant)
        self.model.add(constant, weights)
        self.cuts += 1
        return constant - float(weights @ z)

    def _start(self, centre: Support) -> None:
        """Cut near one-swaps of the centre with what correlates most with the target."""
        problem, free = self.problem, self.problem.free
        strength = problem.features.sum(problem.correlations**2)
        order = free[np.argsort(-strength[free], kind="stable")]
        others = order[~np.isin(order, centre)]
        count = math.ceil(self._options.start_share * free.size)
        swaps = [(j, int(new)) for new in others[:count] for j in centre]
        for dropped, new in swaps[:_MOST_STARTS]:
            self._touch((*(j for j in centre if j != dropped), new))

    def _relax(self, side: Side, goal: float, watch: Watch) -> float:
        """Raise the master's relaxation to near its limit; return its value.

        Points between the best so far and the one proposed by the cuts lead there fastest. Of the
        cuts made on the way only those that hold up the end are kept.
        """
        rows = self.model.rows
        inner = self._middle(side)
        value = self._cut(np.maximum(inner, 1e-4))
        proposed, bound = self.model.relaxed()
        for _ in range(_ROUNDS):
            if bound >= goal or value - bound < _NEAR or bound == -math.inf or watch(bound):
                break
            z = inner + _STEP * (proposed - inner)
            here = self._cut(np.maximum(z, 1e-4))
            if here < value:
                value, inner = here, z
            proposed, bound = self.model.relaxed()
        self.model.prune(rows)
        return bound

    def _middle(self, side: Side) -> Floats:
        """Return the point in the middle of a side."""
        problem = self.problem
        inside = np.isin(problem.free, side.centre)
        t, m = problem.to_choose, int(inside.sum())
        if m == 0:
            return np.full(inside.size, t / inside.size)
        kept = (max(side.low, 0) + side.high) / 2
        kept = max(kept, t - (inside.size - m))
        return np.where(inside, kept / m, (t - kept) / max(inside.size - m, 1))
