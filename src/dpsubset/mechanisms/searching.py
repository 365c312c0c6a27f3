"""Mechanisms that rest on a search: which solver they trust, and what its tolerance costs (T23)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpsubset.checks import yes_or_no
from dpsubset.docstrings import documented
from dpsubset.errors import InputError, UnprovenError, without_context
from dpsubset.limits import REFUSED
from dpsubset.mechanisms.base import Mechanism
from dpsubset.privacy import Guarantee
from dpsubset.problem import Problem
from dpsubset.search import Found, as_solver

__all__ = ["Searching"]


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class Searching(Mechanism):
    """A mechanism on the answers of a search.

    Parameters
    ----------
    solver : str or Solver
        "branch-and-bound", whose answers are exact, or one that proves to a tolerance.
    accept_gap : bool
        Use a solver that proves to a tolerance only. The guarantee then has a larger epsilon, and
        says that it rests on bounds computed by the outside solver. To reproduce the paper.
    """

    solver: Any = "branch-and-bound"
    accept_gap: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.solver = as_solver(self.solver)
        self.accept_gap = yes_or_no(self.accept_gap, "accept_gap")
        if self.solver.tolerance and not self.accept_gap:
            raise InputError(
                f"the solver {self.solver.name!r} proves its answers to a tolerance only, which "
                "weakens the guarantee: use solver='branch-and-bound', or accept_gap=True to "
                "reproduce the paper"
            )
        if self.solver.tolerance and self.neighbours == "add-remove":
            raise InputError(
                f"what the tolerance of the solver {self.solver.name!r} costs depends on the "
                "number of rows, which is private under add-remove; use replace-one or "
                "solver='branch-and-bound'"
            )

    def gap(self, problem: Problem) -> float:
        """Return how far a search may be off: a number that is public, and holds for all tables."""
        largest = problem.loss.largest(problem.y_bound, 0.0)
        return float(self.solver.tolerance * problem.n_rows * largest)

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee; a tolerance of the solver enlarges epsilon (T23)."""
        promise = super().guarantee(problem)
        self.solver.check(problem)
        if not self.solver.tolerance:
            return promise
        share = self.gap(problem) / problem.sensitivity(self.sensitivity)
        return replace(
            promise,
            epsilon=promise.epsilon * (1.0 + share),
            condition=(
                f"the bounds computed by the outside solver of {self.solver!r} are right, which "
                "nobody has checked; its relative tolerance is counted in epsilon, which would "
                f"be {self.epsilon:g} with exact answers"
            ),
        )

    @without_context
    def _searched(
        self, ask: Callable[..., list[Found]], problem: Problem, *given: int, count: int
    ) -> list[Found]:
        """Refuse a search that did not come to its end, or has not as many entries as asked.

        How an outside solver fails may depend on the data: one text serves for all.
        """
        try:
            found = ask(problem, *given, solver=self.solver, limits=self.limits)
        except Exception:
            if not self.solver.tolerance:
                raise
            raise UnprovenError(REFUSED) from None
        if len(found) != count or not all(f.proven for f in found):
            raise UnprovenError(REFUSED)
        return found
