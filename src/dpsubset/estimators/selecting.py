"""What all estimators share: reading a table and a target, and choosing columns privately."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from dpsubset.arrays import Floats
from dpsubset.checks import yes_or_no
from dpsubset.errors import InputError
from dpsubset.estimators.bounds import column_limits
from dpsubset.estimators.inputs import as_matrix, column_positions
from dpsubset.estimators.misuse import Lineage, warn_of_fitted_steps, warn_of_refits
from dpsubset.estimators.release import (
    Choice,
    check_seed,
    check_size,
    make_mechanism,
    make_problem,
    release,
    shortfall,
)
from dpsubset.estimators.targets import Target, plan_target
from dpsubset.losses import as_loss
from dpsubset.mechanisms import Mechanism, Release
from dpsubset.privacy import Ledger
from dpsubset.privacy.guarantee import seeded_if
from dpsubset.privacy.ledger import as_ledger, charged
from dpsubset.privacy.shown import fields_html
from dpsubset.problem import Problem

__all__ = ["DEFAULT_EPSILON", "DEFAULT_NEIGHBOURS", "Selecting", "Stated"]

_RESULTS = (
    *("support_", "release_", "guarantee_", "classes_"),
    *("coef_", "intercept_", "bounds_X_", "bounds_y_"),
)
DEFAULT_EPSILON = 1.0
DEFAULT_NEIGHBOURS = "replace-one"


@dataclass(frozen=True, eq=False)
class Stated:
    """A table that was read, the problem it poses, and the mechanism that is to solve it."""

    problem: Problem
    mechanism: Mechanism
    target: Target
    limits: tuple[Floats, Floats]
    n_columns: int
    seed: int | np.random.Generator | None
    ledger: Ledger | None

    def warn_if_weaker(self, level: int) -> None:
        """Say in what the promise is weaker than the epsilon asked for, if it is.

        `level` counts the calls up to the user's, whose line the warning names.
        """
        weaker = shortfall(self.mechanism.guarantee(self.problem), self.mechanism.epsilon)
        if weaker is not None:
            warnings.warn(weaker, UserWarning, stacklevel=level)

    def select(self) -> Release:
        """Spend the selection's budget."""
        mechanism, problem = self.mechanism, self.problem
        promise = seeded_if(self.seed is not None, mechanism.guarantee(problem))
        with charged(self.ledger, promise, mechanism.asked(problem)) as record:
            released = release(mechanism, problem, self.n_columns, self.seed)
            record({"support": released.support})
        return released


class Selecting(BaseEstimator):  # type: ignore[misc]
    """An estimator that selects columns, with the parameters of `SubsetSelector`."""

    n_features_to_select: Any
    epsilon: Any
    bounds_X: Any
    bounds_y: Any
    loss: Any
    classes: Any
    mechanism: Any
    neighbours: Any
    clip: Any
    radius: Any
    ridge: Any
    always_include: Any
    fit_intercept: Any
    max_seconds: Any
    random_state: Any
    ledger: Any

    def __sklearn_clone__(self) -> Any:
        copied = super().__sklearn_clone__()
        copied._lineage = self._family().copy()
        return copied

    def _repr_html_inner(self) -> str:
        return f"{super()._repr_html_inner()}{self._released_html()}"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += self._released_html()
        return bundle

    def _released_html(self) -> str:
        """Return the released columns and the guarantee for a notebook, once there are any."""
        support, guarantee = getattr(self, "support_", None), getattr(self, "guarantee_", None)
        if support is None or guarantee is None:
            return ""
        names = getattr(self, "feature_names_in_", range(len(support)))
        columns = ", ".join(str(names[j]) for j in np.flatnonzero(support))
        return f"{fields_html([('columns', columns or 'none')])}{guarantee._repr_html_()}"

    def _family(self) -> Lineage:
        """Return this estimator's place among its copies."""
        found: Lineage = self.__dict__.setdefault("_lineage", Lineage())
        return found

    def _warn(self, epsilon: float, level: int) -> None:
        """Warn of what breaks the guarantee from outside; before anything is spent."""
        warn_of_fitted_steps(self, level + 1)
        warn_of_refits(self._family(), epsilon, level + 1)

    def _forget(self) -> None:
        """Drop the results of an earlier fit: a fit that fails leaves none behind."""
        for name in _RESULTS:
            self.__dict__.pop(name, None)

    def _state(self, X: Any, y: Any) -> Stated:
        """Check all parameters, read the table and the target, and state the problem."""
        yes_or_no(self.fit_intercept, "fit_intercept")
        mechanism, loss = self._mechanism(), as_loss(self.loss)
        ledger = self._ledger(mechanism)
        seed = check_seed(self.random_state, "random_state")
        planned = self._plan_target(y)
        table, names = as_matrix(X)
        n_columns = table.shape[1]
        limits = column_limits(self.bounds_X, names, n_columns)
        include = column_positions(self.always_include, names, n_columns, "always_include")
        check_size(self.n_features_to_select, n_columns, len(include), "n_features_to_select")
        target = planned.read(y, table.shape[0])
        validate_data(self, X, skip_check_array=True, ensure_2d=False)  # the column names
        self.n_features_in_ = n_columns
        choice = Choice(
            size=int(self.n_features_to_select),
            loss=loss,
            clip=self.clip,
            radius=self.radius,
            ridge=self.ridge,
            include=include,
            intercept=self.fit_intercept,
        )
        problem = make_problem(
            table, target, limits, planned.limits, choice, neighbours=mechanism.neighbours
        )
        return Stated(problem, mechanism, planned, limits, n_columns, seed, ledger)

    def _plan_target(self, y: Any) -> Target:
        """Say how the target is to be read; `y` is looked at only where that is documented."""
        return plan_target(as_loss(self.loss), self.bounds_y, self.classes)

    def _selection_epsilon(self) -> Any:
        """Return what a mechanism given by its name may spend."""
        return self.epsilon

    def _mechanism(self) -> Mechanism:
        given = self.mechanism
        if isinstance(given, str):
            return make_mechanism(
                given,
                self._selection_epsilon(),
                neighbours=self.neighbours,
                max_seconds=self.max_seconds,
            )
        if not isinstance(given, Mechanism):
            raise InputError("the mechanism must be a name or a mechanism object of dpsubset")
        if self.max_seconds is not None:
            raise InputError(
                "max_seconds is for mechanisms by name; give a mechanism object its own "
                "limits=search.Limits(seconds=...)"
            )
        self._check_twice_given(given)
        return given

    def _ledger(self, mechanism: Mechanism) -> Ledger | None:
        """Return the estimator's ledger; a mechanism object may have one instead."""
        ledger = as_ledger(self.ledger)
        if ledger is not None and mechanism.ledger is not None:
            raise InputError(
                "ledger is given twice, to the mechanism object and to the estimator: the release "
                "would be charged twice. Give it to the estimator only"
            )
        return ledger

    def _check_twice_given(self, mechanism: Mechanism) -> None:
        for name, default in (("epsilon", DEFAULT_EPSILON), ("neighbours", DEFAULT_NEIGHBOURS)):
            if getattr(self, name) not in (default, getattr(mechanism, name)):
                raise InputError(
                    f"{name} is given twice and differs: to the mechanism object and to the "
                    "selector. Give it to the mechanism only"
                )

    def _takes_labels(self) -> bool:
        try:
            return as_loss(self.loss).classification
        except InputError:  # `fit` tells
            return False
