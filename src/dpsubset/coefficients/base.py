"""What both methods share: a guarantee, and coefficients released once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.checks import positive
from dpsubset.errors import InputError
from dpsubset.mechanisms.base import options_of
from dpsubset.privacy import Guarantee, Randomness, as_randomness, check_neighbours
from dpsubset.privacy.guarantee import seeded_if
from dpsubset.privacy.ledger import as_ledger
from dpsubset.problem import Problem, check_classes_named, check_problem
from dpsubset.records import charging, described, record

__all__ = ["CoefficientMechanism", "Coefficients"]


@dataclass(frozen=True)
class Coefficients:
    """Private coefficients, one for each column of the support, and what they guarantee.

    Where features are groups of columns, `support` holds features, and the values are those of
    `problem.features.columns(support)`, in that order.

    Parameters
    ----------
    support : tuple of int
        The features.
    values : tuple of float
        Their coefficients.
    guarantee : Guarantee
        What is guaranteed.
    asked : mapping, optional
        The public settings.

    Examples
    --------
    >>> promise = Guarantee("objective perturbation", 1.0, "replace-one", 2.0)
    >>> Coefficients((1,), (0.5,), promise).to_dict()["released"]
    {'positions': [1], 'coefficients': [0.5]}
    """

    support: tuple[int, ...]
    values: tuple[float, ...]
    guarantee: Guarantee
    asked: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the record: what was asked and released, and the guarantee, as plain values."""
        released = {"positions": list(self.support), "coefficients": list(self.values)}
        return record(self.asked, released, self.guarantee)


@dataclass(eq=False, repr=False)
class CoefficientMechanism(ABC):
    """A private fit of a problem's loss on a support that is public already.

    Parameters
    ----------
    epsilon : float
        The budget of one release.
    delta : float
        The chance with which the guarantee may fail; 0 is pure differential privacy.
    neighbours : "replace-one" or "add-remove"
        Which tables the guarantee compares. Under add-remove the number of rows is private too.
    ledger : Ledger or path, optional
        A budget that every release is charged to before it is made.

    Examples
    --------
    >>> from dpsubset.coefficients import ObjectivePerturbation
    >>> isinstance(ObjectivePerturbation(1.0), CoefficientMechanism)
    True
    """

    name: ClassVar[str]

    epsilon: float
    _: KW_ONLY
    delta: float = 0.0
    neighbours: str = "replace-one"
    ledger: Any = None

    def __post_init__(self) -> None:
        self.epsilon = positive(self.epsilon, "epsilon")
        self.delta = positive(self.delta, "delta", zero=True)
        if self.delta > 0.1:
            raise InputError(f"delta must be 0, or a small number up to 0.1, not {self.delta!r}")
        self.neighbours = check_neighbours(self.neighbours)
        self.ledger = as_ledger(self.ledger)

    def __repr__(self) -> str:
        return options_of(self)

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee; it depends on public parameters only."""
        check_problem(problem)
        check_classes_named(problem, f"{self.name} of a classification loss")
        return Guarantee(
            self.name,
            self.epsilon,
            self.neighbours,
            self.sensitivity(problem),
            precision=0.0,
            delta=self.delta,
            bounds=problem.public_bounds,
        )

    def prepare(self, problem: Problem, *, seeded: bool) -> None:
        """Raise what `release` would raise for any table: wrong losses, missing libraries."""
        self.guarantee(problem)

    def release(
        self,
        problem: Problem,
        support: Iterable[int],
        random_state: int | np.random.Generator | None = None,
    ) -> Coefficients:
        """Spend the budget: return private coefficients on a support.

        Parameters
        ----------
        problem : Problem
            The problem.
        support : iterable of int
            The features. They must be public: released before, or fixed without the table.
        random_state : int or Generator, optional
            For experiments only; the guarantee then says so.

        Returns
        -------
        Coefficients
            The coefficients, and what they guarantee.
        """
        check_problem(problem)
        self.prepare(problem, seeded=random_state is not None)
        features = problem.as_support(support)
        randomness = as_randomness(random_state)
        promise = seeded_if(randomness.seeded, self.guarantee(problem))
        chosen = tuple(int(j) for j in features)
        asked = {**problem.origin.asked, "coefficients": described(self), "support": list(chosen)}
        with charging(self.ledger, promise, asked) as write:
            values = self.fitted(problem, chosen, randomness)
            write({"positions": list(chosen), "coefficients": list(values)})
        return Coefficients(chosen, values, promise, asked)

    def fitted(
        self, problem: Problem, support: tuple[int, ...], randomness: Randomness
    ) -> tuple[float, ...]:
        """Fit on a public support; charge nothing.

        For who charges for it together with the selection.
        """
        if not support:
            return ()
        if problem.false_columns is not None:  # the size is public by now, and less noise will do
            problem = problem.of_size(len(support))
        return tuple(float(v) for v in self._fit(problem, support, randomness))

    @abstractmethod
    def sensitivity(self, problem: Problem) -> float:
        """Return how far one row moves what the noise is added to."""

    @abstractmethod
    def _fit(self, problem: Problem, support: tuple[int, ...], randomness: Randomness) -> Floats:
        """Return the coefficients of the support's columns."""
