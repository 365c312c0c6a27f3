"""Outside solvers: integer programs that are asked for a support, and for a proven bound (T23)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.errors import MissingExtraError, without_context
from dpsubset.limits import Allowance

__all__ = ["Answer", "Master", "Model", "Positions", "Program", "Watch", "need"]

Watch = Callable[[float], bool]  # is told the bound so far; whether to stop
Positions = NDArray[np.intp]


@dataclass(frozen=True)
class Answer:
    """What an outside solver came back with.

    No point of the model has a value below `bound`. `ended` says that the solver did what it was
    asked: it found a point as good as its own tolerance allows, or proved that there is none.
    """

    bound: float
    chosen: Positions | None
    ended: bool
    nodes: int = 0


class Model(ABC):
    """An integer program over supports: `choose` of `count` features, known by their positions."""

    @abstractmethod
    def exclude(self, chosen: Positions) -> None:
        """Rule out one support."""

    @abstractmethod
    def share(self, centre: Positions, low: int, high: int) -> None:
        """Ask for supports with `low` to `high` of the columns of `centre`, always the same."""

    @abstractmethod
    def solve(self, goal: float, tolerance: float, allowance: Allowance, watch: Watch) -> Answer:
        """Look for the support of least value, if that is below `goal`."""


class Master(Model):
    """The master problem of outer approximation: the least value that all cuts allow."""

    @abstractmethod
    def add(self, constant: float, weights: Floats) -> None:
        """Add a cut: the value is at least the constant minus the weights of the chosen columns."""

    @abstractmethod
    def relaxed(self) -> tuple[Floats, float]:
        """Return shares of the columns, between 0 and 1, of least value, and that value."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of rows so far."""

    @abstractmethod
    def prune(self, first: int) -> None:
        """Drop rows, from the `first` on, that do not hold up the last relaxed value."""


@dataclass(frozen=True, eq=False)
class Program:
    """The paper's integer program, in units of the ball and of the value without columns (T23).

    Minimise constant + linear'b + |factor b|^2 + unit * sum(max(0, 1 - rows b)) + penalty * sum(t)
    over b_j^2 <= t_j z_g, sum(t) <= 1, and `choose` of the binaries z: `binary` says which one each
    column after the first `fixed` has, one a feature.
    """

    constant: float
    linear: Floats
    penalty: float
    choose: int
    fixed: int
    binary: Positions
    factor: Floats | None = None
    rows: Floats | None = None
    unit: float = 1.0

    @property
    def count(self) -> int:
        """How many binaries there are."""
        return int(self.binary.max(initial=-1)) + 1


_PACKAGES = {"highs": "highspy", "scip": "pyscipopt", "gurobi": "gurobipy"}


@without_context
def need(backend: str) -> Any:
    """Import a backend's package, or say which extra has it."""
    package = _PACKAGES[backend]
    try:
        return import_module(package)
    except ImportError:
        raise MissingExtraError(
            f"this solver needs the package {package!r}, which is not installed: "
            f"pip install 'dpsubset[{backend}]'"
        ) from None
