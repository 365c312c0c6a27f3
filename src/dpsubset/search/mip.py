"""The paper's integer program with rotated cones, for an off-the-shelf solver (T23)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpsubset.cuts import CutMaker
from dpsubset.cuts.curvature import curvature
from dpsubset.errors import InputError
from dpsubset.losses.hinge import Hinge
from dpsubset.problem import Problem
from dpsubset.search.backends import Model, Program
from dpsubset.search.backends.gurobi import GurobiProgram
from dpsubset.search.backends.scip import ScipProgram
from dpsubset.search.outside import Outside, Session

__all__ = ["MIP"]

_PROGRAMS: dict[str, Callable[[Program], Model]] = {"scip": ScipProgram, "gurobi": GurobiProgram}


class MIP(Outside):
    """The whole problem as one mixed-integer program, for squared and hinge loss.

    Parameters
    ----------
    tolerance : float
        Relative gap at which a search ends.
    backend : "scip" or "gurobi"
        What solves the program.
    tighten : bool
        Move known curvature of X'X into the perspective term (squared loss with more rows than
        columns): same scores, a much better relaxation. False is the paper's own program.

    Examples
    --------
    >>> MIP().backend
    'scip'
    """

    name = "mip"
    backends = tuple(_PROGRAMS)

    def __init__(
        self, *, tolerance: float = 0.005, backend: str = "scip", tighten: bool = True
    ) -> None:
        super().__init__(tolerance, backend, tighten)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if not (problem.quadratic or isinstance(problem.loss, Hinge)):
            raise InputError(
                f"the integer program is for squared and hinge loss, not {problem.loss.name}; use "
                "solver='outer-approximation' or 'branch-and-bound'"
            )
        if not problem.gram.affordable:
            raise InputError(
                "the integer program holds a matrix of all columns, and "
                f"{problem.features.n_columns} are "
                "too many; use solver='outer-approximation' or 'branch-and-bound'"
            )

    def session(self, maker: CutMaker, scale: float) -> Session:
        program = _formulated(maker.problem, scale, self.tighten)
        return Session(maker, scale, _PROGRAMS[self.backend](program))


def _formulated(problem: Problem, scale: float, tighten: bool) -> Program:
    """State the program over the columns of the included features and of the free ones."""
    columns, widths = problem.features.columns, problem.features.widths[problem.free]
    included = columns(np.array(problem.include, dtype=np.intp))
    index = np.concatenate([included, columns(problem.free)])
    binary = np.repeat(np.arange(widths.size), widths)
    common = (problem.to_choose, included.size, binary)
    d = curvature(problem) if problem.quadratic and tighten else 0.0
    radius = _reached(problem, scale, d)
    penalty = (problem.ridge + d) * radius**2 / scale
    if not problem.quadratic:
        rows = problem.y[:, None] * problem.design.take(index) * radius
        return Program(0.0, np.zeros(index.size), penalty, *common, rows=rows, unit=1.0 / scale)
    matrix = problem.gram.full()[np.ix_(index, index)] - d * np.eye(index.size)
    values, vectors = np.linalg.eigh(matrix * (radius**2 / scale))
    kept = values > 1e-14 * values.max(initial=0.0)
    factor = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    linear = problem.correlations[index] * (-2.0 * radius / scale)
    return Program(problem.energy / scale, linear, penalty, *common, factor=factor)


def _reached(problem: Problem, scale: float, d: float) -> float:
    """Return a radius that no best coefficients exceed; a smaller one makes a better model.

    At the best coefficients ridge |b|^2 is at most the value without columns, and so is a quarter
    of |X b|^2, which is at least d |b|^2, for squared loss.
    """
    norms = [problem.radius]
    norms += [1.01 * np.sqrt(scale / problem.ridge)] if problem.ridge else []
    norms += [2.02 * np.sqrt(scale / d)] if d else []
    return float(min(norms))
