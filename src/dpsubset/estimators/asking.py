"""What all estimators share: parameters as scikit-learn wants them, made into one selection."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    validate_data,
)

from dpsubset.arrays import Floats
from dpsubset.checks import whole
from dpsubset.data.covariates import Beside
from dpsubset.data.frames import Table, as_matrix
from dpsubset.data.many_names import ManyNames
from dpsubset.data.schema import Schema
from dpsubset.data.stores import as_store
from dpsubset.data.target import PRIVATE, Target, plan_target
from dpsubset.designs import Store
from dpsubset.errors import InputError, at_once
from dpsubset.estimators.misuse import Lineage, warn_of_fitted_steps, warn_of_refits
from dpsubset.estimators.schemas import as_schema, with_names
from dpsubset.losses import Loss, as_loss
from dpsubset.mechanisms.measurement import measurement_of
from dpsubset.privacy.shown import fields_html
from dpsubset.problem import Problem
from dpsubset.question import default_loss
from dpsubset.selection import Selection

__all__ = ["Asking"]

S = TypeVar("S", bound=Selection)

# How scikit-learn's users know the fields of a selection.
_CALLED = {
    "size": "n_features_to_select",
    "max_size": "max_features",
    "intercept": "fit_intercept",
    "seed": "random_state",
    "jobs": "n_jobs",
}
_RESULTS = (
    *("support_", "release_", "guarantee_", "classes_"),
    *("coef_", "coef_names_", "intercept_", "bounds_X_", "bounds_y_", "model_", "_columns_in"),
)


@dataclass(kw_only=True, eq=False, repr=False)
class Asking(BaseEstimator):  # type: ignore[misc]
    """An estimator whose parameters are the fields of a `Selection`, by scikit-learn's names.

    As a data class it does what scikit-learn asks of a constructor: it stores what was given.

    Parameters
    ----------
    n_features_to_select : int or "auto", default=5
        Number of columns to select, those of `always_include` counted, the intercept not. With
        "auto" their number is found, too, and released with them under the same epsilon: from
        nothing but `always_include` up to `max_features`. For the mechanisms "permute-and-flip",
        "exponential" and "stepwise".
    max_features : int, default=10
        With "auto" the most columns to select, counted as above; all, if there are fewer. The
        noise is that of a selection of so many.
    false_columns : float, default=0.05
        With "auto" about how many of the selected columns explain nothing, on average: a number
        above 0, up to 1. The smaller it is, the more a column must explain to be selected.
    epsilon : float, default=1.0
        What a fit spends of the privacy budget: the chance of any answer changes by a factor of at
        most e^epsilon with one person's row. Smaller protects more.
    bounds_X : pair (lower, upper) or mapping {name: (lower, upper)}
        Public bounds of the columns: two numbers, two arrays of length p, or pairs by column name.
        A sparse table needs lower = -upper.
    schema : Schema, dict or path, default=None
        What is public about the table, in place of `bounds_X`, `bounds_y` and `classes`: numbers
        with bounds, truth values, categories with levels, dates, and what missing values count as
        (docs/schema.md). A category is one feature, in or out as a whole. Nothing that a row holds
        makes a fit fail then.
    loss : str or Loss, default=None
        The loss whose best subset is wanted, on the scale [-1, 1]: by default "brier" where
        `classes` are named, and "logistic" if there is an `offset_share`, too; for numbers
        "huber:0.2", and "squared" within a private window (`window_share`) from epsilon n = 1000
        on, or where n is private. For a target of numbers: "squared", "absolute", "quantile" or
        "huber"; for labels of two classes: "brier", "hinge", "logistic" or "huber_hinge". A
        parameter follows a colon, as in "quantile:0.9" and "huber:0.1"; or give an object of
        `dpsubset.losses`.
    mechanism : str or mechanism, default="permute-and-flip"
        "permute-and-flip", "exponential", "top-r", "mistakes", "stepwise", or one of the baselines
        "markov-chain", "sample-aggregate" and "lasso-stability"; or a mechanism object, which
        brings its own epsilon, neighbours and limits. Where its guarantee is weaker than its
        epsilon (finite trials, a condition on the data), `fit` warns.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        Which tables count as neighbours. Under "add-remove" the number of rows is private.
    clip : float, default=1.0
        Clip columns and target to this share of their bounds, around the middle, before they are
        mapped onto [-1, 1]. Where most values lie near the middle, 0.5 halves the rows that a
        selection needs; where they lie near one of the bounds it does harm.
    radius : float, default=None
        Largest Euclidean norm of the coefficients, on the scale [-1, 1]; if not given
        1.5 / sqrt(size + 1) within a window, 0.5 without; for labels 1 / sqrt(size + 1) by
        "brier", 1 by other losses.
    ridge : float, default=10.0
        Weight of the coefficients' squared norm.
    row_ridge : float, default=None
        Weight of that norm for every row, added to `ridge`; if not given 0.05 for absolute and
        quantile loss, 0.1 c for "huber:c" up to c = 0.1, 0.005 for "huber_hinge" and 0.002 for
        "logistic", whose exact draws may not end without it, and 0 for others.
    always_include, exclude : sequence of names or indices, default=()
        Columns that are part of every selection, and columns that are part of none.
    fit_intercept : bool, default=True
        Add a constant column that is always included. Public bounds are rarely centred at the
        mean of the data; without a constant, a column that merely sits away from the middle of
        its bounds serves as one, and is selected in place of a column that explains the target.
        The price is one more coefficient: under `radius`, in `ridge` and in the sensitivity, where
        s becomes s + 1; for squared loss that is (1 + radius sqrt(s + 1))^2.
    max_seconds : float, default=None
        After this time of work on the release, refuse with `UnprovenError`: nothing is released,
        and the budget counts as spent. Whether the limit is reached depends on the data, which is
        outside the guarantee. A mechanism object has limits of its own.
    n_jobs : int, default=None
        How many cores may be used; all with None or -1. What is drawn does not depend on it.
    random_state : None, int or numpy.random.Generator, default=None
        None draws from the operating system: a real release. Anything else is for experiments
        only; the guarantee then says that it does not protect against anyone who knows the seed.
    ledger : Ledger or path, default=None
        A budget that the fit is charged to before it begins; BudgetError if too little is left.
    table_name : str, default=None
        What the table is called in records; a ledger is for one table, and refuses another name.
    """

    _asked: ClassVar[type[Selection]] = Selection

    n_features_to_select: Any = 5
    max_features: Any = 10
    false_columns: Any = 0.05
    epsilon: Any = 1.0
    bounds_X: Any = None
    schema: Any = None
    loss: Any = None
    mechanism: Any = "permute-and-flip"
    neighbours: Any = "replace-one"
    clip: Any = 1.0
    radius: Any = None
    ridge: Any = 10.0
    row_ridge: Any = None
    always_include: Any = ()
    exclude: Any = ()
    fit_intercept: Any = True
    max_seconds: Any = None
    n_jobs: Any = None
    random_state: Any = None
    ledger: Any = None
    table_name: Any = None

    def measurement(self, n_samples: int, n_features: int) -> Any:
        """Return an OpenDP measurement that fits a copy of this estimator, as OpenDP's own have it.

        Its argument is a pair (X, y) of the public shape, its answer a fitted estimator. A
        `Context` of OpenDP holds such a pair and the budget, and runs the measurement once.

        Parameters
        ----------
        n_samples : int
            The number of rows. Under add-remove it is private: any guess will do.
        n_features : int
            The number of columns; with a schema those that it ignores are counted, too.

        Returns
        -------
        opendp.Measurement
            What `context(...)` takes, from (X, y) to the fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from dpsubset import SubsetSelector
        >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
        >>> selector = SubsetSelector(n_features_to_select=1, bounds_X=(-1, 1), bounds_y=(-1, 1))
        >>> fit = selector.set_params(epsilon=50.0).measurement(n_samples=200, n_features=3)
        >>> fit.map(1), fit((X, X[:, 1])).get_support(indices=True)
        (50.0, array([1]))
        """
        if self.random_state is not None:
            raise InputError("a measurement is of real releases: leave random_state out")
        kept = clone(self)  # what the map says is what is run
        selection, problem = kept._ask(self._asked, *self._blank(n_samples, n_features))
        known = n_samples if selection.made.neighbours == "replace-one" else None

        def fitted(X: Any, y: Any) -> Any:
            copied = clone(kept)
            copied._lineage = Lineage()  # OpenDP counts how often it is run
            return copied.fit(X, y)

        shape = known, kept.n_features_in_
        return measurement_of(selection.guarantee(problem), shape, fitted, "ExtrinsicObject")

    def _blank(self, rows: Any, columns: Any) -> tuple[Any, Any]:
        """Return a table of a public shape in which nothing is said."""
        rows, columns = whole(rows, "n_samples", 1), whole(columns, "n_features", 1)
        if self.schema is not None:
            return np.full((rows, columns), None), np.full(rows, None)
        classes = getattr(self, "classes", None)
        return np.zeros((rows, columns)), np.full(rows, 0.0 if classes is None else classes[0])

    def _ask(self, kind: type[S], X: Any, y: Any) -> tuple[S, Problem]:
        """Read a table, and state the selection and the problem it poses; nothing is spent."""
        X = as_store(X)
        read = self._by_bounds if self.schema is None else self._by_schema
        schema, table, width = read(X, y)
        selection = kind(schema=schema, table=self.table_name, called=_CALLED, **self._fields(kind))
        selection.check_ledger(self.ledger)
        problem = selection.problem(table)
        if isinstance(X, Store):
            lower, upper = schema.limits
            self._middle = lower / 2 + upper / 2
            if X.names is not None:
                many = isinstance(X.names, ManyNames)
                text: Any = np.dtypes.StringDType() if many else object
                self.feature_names_in_ = np.fromiter(X.names, text, len(X.names))
        else:
            validate_data(self, X, skip_check_array=True, ensure_2d=False)  # the column names
        self.n_features_in_ = width
        return selection, problem

    def _by_bounds(self, X: Any, y: Any) -> tuple[Schema, Table, int]:
        """Read a table of numbers by bounds_X and what is said of the target."""
        planned = self._plan_target(y)
        (matrix, names), target = at_once(partial(as_matrix, X), partial(planned.read, y))
        width = matrix.shape[1]
        bounds = matrix.bounds(self.bounds_X) if isinstance(matrix, Beside) else self.bounds_X
        schema = Schema.of(names, width, bounds, planned, _name_of(y))
        return schema, Table(matrix, target), width

    def _by_schema(self, X: Any, y: Any) -> tuple[Schema, Table, int]:
        """Take what a schema says of a table; no cell is read yet."""
        if isinstance(X, Store):
            raise InputError(
                "a table on disk holds numbers alone: give bounds_X and bounds_y, or classes, in "
                "place of the schema"
            )
        private = isinstance(getattr(self, "bounds_y", None), str) and self.bounds_y == PRIVATE
        said = ("bounds_X", "classes", *(() if private else ("bounds_y",)))
        given = [name for name in said if self._has(name)]
        if given:
            raise InputError(f"the schema says it all: leave {' and '.join(given)} out")
        self._check_loss()
        labels = self._wants_labels()
        schema, self._columns_in = as_schema(self.schema, X, _name_of(y), labels, private)
        return schema, Table(with_names(X, self._columns_in), y), len(self._columns_in)

    def _stored(self, X: Store) -> Floats:
        """Return the selected columns of a table on disk, in their own units."""
        if X.n_columns != self.n_features_in_:
            raise InputError(
                f"the table has {X.n_columns} columns; the fit was on {self.n_features_in_}"
            )
        known = getattr(self, "feature_names_in_", None)
        chosen = np.flatnonzero(self.support_)
        if known is not None and X.names is not None:
            wrong = [j for j in chosen.tolist() if X.names[j] != known[j]]
            if wrong:
                raise InputError("the columns of the table are not those of the fit")
        return X.numbers(chosen, self._middle[chosen])

    def _wants_labels(self) -> bool | None:
        """Say whether the target is to hold labels; None if the schema may say so."""
        return None if self.loss is None else as_loss(self.loss).classification

    def _has(self, name: str) -> bool:
        return getattr(self, name, None) is not None

    def _check_loss(self) -> None:
        """Refuse a loss that is for another kind of target than the estimator's."""

    def _places(self, schema: Schema, features: Sequence[int]) -> list[int]:
        """Return where in the table of the fit some features of a schema are."""
        if schema.columns is None:
            return [int(j) for j in features]
        return [self._columns_in.index(str(schema.label(j))) for j in features]

    def _fields(self, kind: type[Selection]) -> dict[str, Any]:
        """Return the fields of a selection that this estimator has, by their own names."""
        names = {f.name: _CALLED.get(f.name, f.name) for f in fields(kind) if f.metadata}
        own = self.get_params(deep=False)
        return {name: own[called] for name, called in names.items() if called in own}

    def _plan_target(self, y: Any) -> Target:
        """Say how the target is to be read; `y` is not looked at."""
        bounds, classes = getattr(self, "bounds_y", None), getattr(self, "classes", None)
        return plan_target(self._loss(), bounds, classes)

    def _warn(self, selection: Selection, problem: Problem, level: int) -> None:
        """Warn, before anything is spent, of what makes the guarantee weaker than it seems.

        `level` counts the calls up to the user's, whose line the warnings name.
        """
        weaker = selection.weaker(problem)
        if weaker is not None:
            warnings.warn(weaker, UserWarning, stacklevel=level + 1)
        warn_of_fitted_steps(self, level + 2)
        warn_of_refits(self._family(), float(selection.guarantee(problem).epsilon), level + 2)

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

    def _forget(self) -> None:
        """Drop the results of an earlier fit: a fit that fails leaves none behind."""
        for name in _RESULTS:
            self.__dict__.pop(name, None)

    def _loss(self) -> Loss:
        """Return the loss; if none is named, that of labels where classes are."""
        labels = getattr(self, "classes", None) is not None
        return as_loss(default_loss(labels) if self.loss is None else self.loss)

    def _takes_labels(self) -> bool:
        try:
            return self._loss().classification
        except InputError:  # `fit` tells
            return False

    def get_support(self, indices: bool = False) -> NDArray[Any]:
        """Return which columns of the table were selected, as a mask or as indices."""
        check_is_fitted(self)
        return np.flatnonzero(self.support_) if indices else self.support_

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the selected columns; x0, x1, ... where the table had none."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.asarray(names)[self.support_]


def _name_of(y: Any) -> str | None:
    named = getattr(y, "name", None)  # of a series
    return named if isinstance(named, str) else None
