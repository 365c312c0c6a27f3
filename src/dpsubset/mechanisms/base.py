"""What every mechanism does: promise, release once, and be drawn from in experiments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.checks import positive, whole
from dpsubset.cuts import cut_maker
from dpsubset.cuts.region import root
from dpsubset.errors import InputError
from dpsubset.limits import Limits
from dpsubset.privacy import Guarantee, Randomness, as_randomness, check_neighbours, exponent
from dpsubset.problem import Problem
from dpsubset.sampling.pieces import Support, list_region

__all__ = ["Mechanism", "Release", "Sampler"]

Sampler = Callable[[Randomness], Support]

_LARGEST_LAW = 1_000_000


@dataclass(frozen=True)
class Release:
    """One private output. It holds nothing that depends on the data but the support."""

    support: tuple[int, ...]
    guarantee: Guarantee

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"support": list(self.support), "guarantee": self.guarantee.to_dict()}


class Mechanism(ABC):
    """A private choice among the supports of a problem.

    Parameters
    ----------
    epsilon : float
        The budget of one release.
    neighbours : "replace-one" or "add-remove"
        Which tables the promise compares. Under add-remove the number of rows is private too.
    sensitivity : "tight" or "paper"
        The bound on how far one row moves a score (T2).
    limits : Limits, optional
        Limits on the work; at a limit nothing is released (UnprovenError). Whether one is reached
        depends on the data, so a limit is outside every guarantee (T18).
    """

    name: str

    def __init__(
        self,
        epsilon: float,
        *,
        neighbours: str = "replace-one",
        sensitivity: str = "tight",
        limits: Limits | None = None,
    ) -> None:
        self.epsilon = positive(epsilon, "epsilon")
        self.neighbours = check_neighbours(neighbours)
        if sensitivity not in ("tight", "paper"):
            raise InputError(f"unknown sensitivity rule {sensitivity!r}; allowed: tight, paper")
        self.sensitivity = sensitivity
        self.limits = limits

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({options})"

    def kappa(self, problem: Problem) -> float:
        """Return the exponent of the scores: eps/(2 Delta) or eps/Delta (T3)."""
        return exponent(self.epsilon, problem.sensitivity(self.sensitivity), self.neighbours)

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the promise; it depends on public parameters only."""
        return Guarantee(
            self.name,
            self.epsilon,
            self.neighbours,
            problem.sensitivity(self.sensitivity),
            problem.loss.precision,
        )

    def release(self, problem: Problem) -> Release:
        """Spend the budget: return one private support, by the operating system's randomness."""
        promise = self.guarantee(problem)
        support = self._sampler(problem)(as_randomness(None))
        return Release(tuple(int(j) for j in support), promise)

    def draw(
        self,
        problem: Problem,
        count: int,
        random_state: int | np.random.Generator | None = None,
    ) -> NDArray[np.int64]:
        """Return many supports, one a row: for experiments and audits, each draw costs epsilon."""
        count = whole(count, "count", 0)
        randomness = as_randomness(random_state)
        sampler = self._sampler(problem)
        out = np.empty((count, problem.size), dtype=np.int64)
        for row in out:
            row[:] = sampler(randomness)
        return out

    def experiment(self, problem: Problem, random_state: int | np.random.Generator) -> Release:
        """Return a release that can be repeated; its guarantee says that it was seeded (T20)."""
        support = self.draw(problem, 1, random_state)[0]
        promise = replace(self.guarantee(problem), randomness="seeded")
        return Release(tuple(int(j) for j in support), promise)

    def probabilities(self, problem: Problem) -> tuple[NDArray[np.int64], Floats]:
        """Return all supports and the log of their exact probabilities, for small problems."""
        if problem.n_supports > _LARGEST_LAW:
            raise InputError(
                f"the law is listed for up to {_LARGEST_LAW} supports; this problem has "
                f"{problem.n_supports}"
            )
        supports, scores = list_region(cut_maker(problem), root(problem))
        return supports, self._law(problem, supports, scores)

    @abstractmethod
    def _sampler(self, problem: Problem) -> Sampler:
        """Do the work that all draws share; return a function that makes one draw."""

    @abstractmethod
    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        """Return the log probability of every support from all scores."""
