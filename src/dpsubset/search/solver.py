"""What a solver is: the questions that a search answers (T17, T23)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from dpsubset.limits import Allowance
from dpsubset.problem import Problem
from dpsubset.search.found import Found

__all__ = ["Solver"]


class Solver(ABC):
    """A way to find the best supports of a problem.

    Examples
    --------
    >>> from dpsubset import search
    >>> isinstance(search.as_solver("branch-and-bound"), Solver)
    True
    """

    name: ClassVar[str]
    tolerance: float = 0.0  # relative gap at which answers count as proven; 0 is exact

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def check(self, problem: Problem) -> None:  # noqa: B027
        """Refuse a problem that the solver is not made for, by what is public of it."""

    @abstractmethod
    def top(self, problem: Problem, count: int, allowance: Allowance) -> list[Found]:
        """Return the `count` best supports, ascending (all, if there are fewer)."""

    @abstractmethod
    def by_mistakes(self, problem: Problem, allowance: Allowance) -> list[Found]:
        """Return, for k = 0, 1, ..., the best support with k columns outside the best support."""
