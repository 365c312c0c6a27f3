"""Search: the best support, the R best, the best at every number of mistakes (T17, T23).

Three solvers answer: our branch and bound, which proves its answers exactly, and the paper's two,
outer approximation and an off-the-shelf integer program, which prove them to a tolerance.
"""

from __future__ import annotations

from dpsubset.checks import whole
from dpsubset.docstrings import documented_like
from dpsubset.errors import InputError
from dpsubset.limits import Allowance, Limits, Progress, ProgressCallback
from dpsubset.problem import Problem, check_one_size, check_problem
from dpsubset.search.branch_and_bound import BranchAndBound
from dpsubset.search.found import Found
from dpsubset.search.mip import MIP
from dpsubset.search.outer_approximation import OuterApproximation
from dpsubset.search.solver import Solver

__all__ = [
    "MIP",
    "BranchAndBound",
    "Found",
    "Limits",
    "OuterApproximation",
    "Progress",
    "Solver",
    "as_solver",
    "best",
    "best_by_mistakes",
    "top",
]

_SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver for solver in (BranchAndBound, OuterApproximation, MIP)
}


def as_solver(solver: str | Solver) -> Solver:
    """Return a solver by its name, with default options, or as it is given.

    Parameters
    ----------
    solver : str or Solver
        A name, or a solver with options of its own.

    Returns
    -------
    Solver
        The solver.

    Examples
    --------
    >>> as_solver("outer-approximation").tolerance
    0.005
    """
    if isinstance(solver, Solver):
        return solver
    if isinstance(solver, str) and solver in _SOLVERS:
        return _SOLVERS[solver]()
    raise InputError(
        f"unknown solver {solver!r}; allowed: {', '.join(_SOLVERS)}, or one of the objects "
        "search.OuterApproximation(...), search.MIP(...)"
    )


def best(
    problem: Problem,
    *,
    solver: str | Solver = "branch-and-bound",
    limits: Limits | None = None,
    progress: ProgressCallback | None = None,
) -> Found:
    """Return the support of smallest score.

    Parameters
    ----------
    problem : Problem
        The problem. What is found depends on its rows and is not private.
    solver : str or Solver
        Who searches; the default proves its answers exactly.
    limits : Limits, optional
        When to stop without a proof.
    progress : callable, optional
        Called with a `Progress` now and then.

    Returns
    -------
    Found
        The support, its score, and what is proven.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(4); y = np.array([0.0, 1.0, 0.0, 0.5])
    >>> best(Problem(X, y, size=2, x_bound=1.0, y_bound=1.0, radius=2.0)).support
    (1, 3)
    """
    check_problem(problem)
    check_one_size(problem, "a search")
    return as_solver(solver).top(problem, 1, Allowance(limits, progress))[0]


@documented_like(best)
def top(
    problem: Problem,
    count: int,
    *,
    solver: str | Solver = "branch-and-bound",
    limits: Limits | None = None,
    progress: ProgressCallback | None = None,
) -> list[Found]:
    """Return the `count` supports of smallest score, ascending (all, if there are fewer).

    Parameters
    ----------
    count : int
        How many supports.

    Returns
    -------
    list of Found
        The supports, the best first.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.eye(4); y = np.array([0.0, 1.0, 0.0, 0.5])
    >>> problem = Problem(X, y, size=2, x_bound=1.0, y_bound=1.0, radius=2.0)
    >>> [found.support for found in top(problem, 2)]
    [(1, 3), (0, 1)]
    """
    check_problem(problem)
    check_one_size(problem, "a search")
    count = whole(count, "count", 1, most=10**15)
    return as_solver(solver).top(problem, count, Allowance(limits, progress))


@documented_like(best)
def best_by_mistakes(
    problem: Problem,
    *,
    solver: str | Solver = "branch-and-bound",
    limits: Limits | None = None,
    progress: ProgressCallback | None = None,
) -> list[Found]:
    """Return, for k = 0, 1, ..., the best support with k columns outside the best support.

    At a limit on seconds the list may end before the last k.

    Returns
    -------
    list of Found
        One support for every k.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.eye(4); y = np.array([0.0, 1.0, 0.0, 0.5])
    >>> problem = Problem(X, y, size=2, x_bound=1.0, y_bound=1.0, radius=2.0)
    >>> [found.support for found in best_by_mistakes(problem)][:2]
    [(1, 3), (0, 1)]
    """
    check_problem(problem)
    check_one_size(problem, "a search")
    return as_solver(solver).by_mistakes(problem, Allowance(limits, progress))
