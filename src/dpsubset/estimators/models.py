"""`SubsetRegressor` and `SubsetClassifier`: selection and coefficients under one budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from dpsubset.arrays import Floats
from dpsubset.data.bounds import narrowed
from dpsubset.data.frames import MISSING, as_matrix
from dpsubset.data.stores import as_store
from dpsubset.data.target import Target
from dpsubset.designs import Store
from dpsubset.docstrings import documented
from dpsubset.errors import InputError, without_context
from dpsubset.estimators.asking import Asking
from dpsubset.estimators.schemas import with_names
from dpsubset.losses import Loss, as_loss
from dpsubset.model import Model, chosen_loss, has_chances
from dpsubset.model_file import LinearModel, label_columns
from dpsubset.privacy import Guarantee
from dpsubset.question import default_loss

__all__ = ["SubsetClassifier", "SubsetRegressor"]


@dataclass(kw_only=True, eq=False, repr=False)
class _SubsetModel(Asking):
    """A sparse linear model: private columns, then private coefficients on them.

    Parameters
    ----------
    epsilon : float, default=1.0
        The budget of the whole fit. A mechanism object brings its own epsilon, and what it leaves
        of this goes to the coefficients.
    offset_share : float, default=None
        The part of it that buys an offset of all predictions: the target's centre (Huber's, or the
        median for squared loss), or the log odds of the second class. Columns are selected around
        it, coefficients are fitted around it, and where epsilon is too small for coefficients the
        model falls back to it. By default 50 / (epsilon n), at least 0.01 and at most 0.9; under
        add-remove, where n is private, n is the schema's `rows`; without them 0.1. 0 is none.
    selection_share : float, default=None
        The part of the rest that the selection may spend. By default 0.5; 0.35 for numbers where
        epsilon n is below 1000 (under add-remove by the schema's `rows`).
    coefficients : {"objective-perturbation", "noisy-statistics"}
        How coefficients are made private. The default was best in all measurements.
    coefficient_loss : str or Loss, default=None
        What the coefficients minimise: by default Huber's loss with c = 0.2 on the scale [-1, 1],
        and squared loss for noisy statistics.
    coefficient_radius : float, default=None
        Largest norm of the coefficients on the scale [-1, 1]: by default 2, for squared loss 1.
    coefficient_ridge : float, default=None
        Weight of their squared norm; objective perturbation takes more where it must. By default
        as much as keeps the noise small, by a rule with epsilon and the number of rows (T42), so
        that a model with too little budget is not worse than none; under add-remove by the
        schema's `rows`, and 0 without them.
    delta : float, default=0.0
        With delta > 0 objective perturbation draws Gaussian noise, and the guarantee is
        (epsilon, delta); a selection that has a delta of its own adds it.
    """

    _asked = Model

    selection_share: Any = None
    coefficients: Any = "objective-perturbation"
    coefficient_loss: Any = None
    coefficient_radius: Any = None
    coefficient_ridge: Any = None
    offset_share: Any = None
    delta: Any = 0.0

    def _fit(self, X: Any, y: Any) -> tuple[Floats, LinearModel]:
        """Select, fit, and return a coefficient for each column, and the model."""
        self._forget()
        model, problem = self._ask(Model, X, y)
        self._warn(model, problem, 3)
        released = model.release(problem, self.ledger)
        schema = model.schema
        self.support_: NDArray[np.bool_] = np.zeros(self.n_features_in_, dtype=bool)
        self.support_[self._places(schema, released.positions or ())] = True
        self.guarantee_ = Guarantee.from_dict(released.guarantee)
        if schema.columns is not None:
            self.model_ = released
            self.coef_names_ = np.array(
                label_columns(schema.names or (), schema.columns), dtype=object
            )
            owner = np.repeat(np.arange(schema.n_columns), [len(c.labels) for c in schema.columns])
            effects = np.zeros(owner.size)
            effects[np.isin(owner, released.positions or ())] = released.coefficients
            return effects, released
        line = np.zeros(self.n_features_in_)
        line[list(released.positions or ())] = released.coefficients
        self.bounds_X_ = np.array(narrowed(schema.limits, self.clip))
        return line, released

    def _wants_labels(self) -> bool | None:
        return self._loss().classification

    @without_context
    def _predicted(self, X: Any) -> Floats:
        """Return X coef + intercept for a table with the columns of the fit, clipped as there."""
        check_is_fitted(self)
        if hasattr(self, "_columns_in"):
            return self.model_.margins(with_names(X, self._columns_in))
        X = as_store(X)
        if isinstance(X, Store):
            return self._line(self._stored(X))
        table, _ = as_matrix(X)
        try:
            validate_data(self, X, reset=False, skip_check_array=True)
        except ValueError as error:  # names of columns, no entry
            raise InputError(str(error)) from None
        sparse = hasattr(table, "tocsc")
        table = table.tocsc() if sparse else table
        if not np.isfinite(table.data if sparse else table).all():
            raise InputError(f"the table {MISSING}")
        chosen = np.flatnonzero(self.support_)
        part = (table[:, chosen].toarray() if sparse else table[:, chosen]).astype(np.float64)
        return self._line(part)

    def _line(self, part: Floats) -> Floats:
        """Return X coef + intercept for the selected columns of some rows."""
        chosen = np.flatnonzero(self.support_)
        part = np.clip(part, *self.bounds_X_[:, chosen])
        line = np.ravel(self.coef_)[chosen]
        return np.asarray(part @ line + float(np.ravel(self.intercept_)[0]))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class SubsetRegressor(RegressorMixin, _SubsetModel):  # type: ignore[misc]
    """Linear regression on a few columns, both chosen and fitted under differential privacy.

    Columns and target are clipped to public bounds and mapped onto [-1, 1]; columns are selected
    as by `SubsetSelector`, coefficients are fitted on them, and the guarantee is the composition.
    The fitted object holds what was released and nothing else of the data. Predictions for rows
    of the private table, and `score` on it, are computed from private rows: they are not covered.

    Every fit spends its own epsilon, those of GridSearchCV and its kin, too; steps of a pipeline
    that are fitted to the rows are outside the guarantee (docs/pipelines.md).

    Parameters
    ----------
    bounds_y : pair (lower, upper), or "private"
        Public bounds of the target. "private" draws them from the table, with a part of epsilon,
        as for `SubsetSelector`.
    target_bounds_share : float, default=0.1
        With bounds_y="private": the part of epsilon that buys bounds of the target (T37). They are
        released, as `bounds_y_`.
    window_share : float or "auto", default=None
        The part of epsilon that buys a window of the target for the selection, as for
        `SubsetSelector`; coefficients are fitted within the bounds.

    Attributes
    ----------
    coef_ : array of shape (p,)
        One coefficient for each column, 0 for those that were not selected.
    intercept_ : float
        The intercept.
    support_ : array of bool, shape (p,)
        The selected columns.
    guarantee_ : Guarantee
        What selection and coefficients guarantee together.
    bounds_X_ : array of shape (2, p)
        The bounds that columns were clipped to, and are clipped to by `predict`: lower, upper.
    bounds_y_ : pair (lower, upper)
        The bounds of the target, which predictions are clipped to.
    model_ : LinearModel
        With a schema only: what was released, as a model file holds it.
    coef_names_ : array of str
        With a schema only: what the coefficients belong to, as in "region=north". `coef_` has one
        for each level of a category then, which add up to zero, and `bounds_X_` is not there.
    n_features_in_, feature_names_in_
        Number and names of the columns seen by `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (3000, 6))
    >>> y = X[:, 1] - X[:, 4] + rng.normal(size=3000)
    >>> model = SubsetRegressor(
    ...     n_features_to_select=2, epsilon=2.0, bounds_X=(0, 10), bounds_y=(-10, 10)
    ... )
    >>> model.set_params(random_state=0).fit(X, y).coef_.round(1)
    array([ 0.,  1.,  0.,  0., -1.,  0.])
    """

    bounds_y: Any = None
    target_bounds_share: Any = 0.1
    window_share: Any = None

    def fit(self, X: Any, y: Any) -> SubsetRegressor:
        """Select columns and fit coefficients; this spends the privacy budget.

        Parameters
        ----------
        X : array, scipy.sparse matrix, pandas or polars DataFrame of shape (n, p)
            The table.
        y : array or Series of shape (n,)
            The target, numbers.
        """
        self.coef_, model = self._fit(X, y)
        self.intercept_ = model.intercept
        assert model.target_bounds is not None
        self.bounds_y_ = model.target_bounds
        return self

    def predict(self, X: Any) -> Floats:
        """Return a prediction for every row of a table with the columns of the fit.

        Rows are clipped to the bounds of the fit, and predictions to the bounds of the target: a
        line is good for the values that it was fitted to. Both bounds are public.
        """
        predicted = self._predicted(X)
        lower, upper = self.bounds_y_
        return np.asarray(np.clip(predicted, lower, upper))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # scikit-learn's tables have few rows for the noise
        return tags

    def _check_loss(self) -> None:
        loss = self._loss()
        if loss.classification:
            raise InputError(f"loss={loss.name!r} is for classification; use SubsetClassifier")

    def _plan_target(self, y: Any) -> Target:
        self._check_loss()
        return super()._plan_target(y)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class SubsetClassifier(ClassifierMixin, _SubsetModel):  # type: ignore[misc]
    """A linear classifier of two classes on a few columns, chosen and fitted privately.

    What is guaranteed, and what is not, is as for `SubsetRegressor`.

    Parameters
    ----------
    classes : pair
        The two classes, as public knowledge: `fit` refuses without. They are part of the model,
        and one label of the table could exchange them if they were read off it. A table may hold
        one of them only; a label other than the two is refused, which tells that there was one.
    class_weights : pair or mapping {class: weight}, default=None
        Public weights of the two classes, for selection and coefficients: rows of a class count as
        often, and chances are those of classes so weighted. "balanced" is refused.
    loss : str or Loss, default=None
        The loss of the selection: "brier" by default, "hinge", "logistic" or "huber_hinge".
    coefficient_loss : str or Loss, default=None
        What the coefficients minimise: "huber_logistic:0.5" by default, "logistic" or
        "huber_hinge".
    coefficient_radius : float, default=None
        Largest norm of the coefficients on the scale [-1, 1]: by default 10.

    Attributes
    ----------
    classes_ : array of two classes
        The classes, the second of which has positive margins.
    coef_ : array of shape (1, p)
        One coefficient for each column, 0 for those that were not selected.
    intercept_ : array of shape (1,)
        The intercept.
    support_, guarantee_, bounds_X_, n_features_in_, feature_names_in_
        As for `SubsetRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (3000, 6))
    >>> y = np.where(X[:, 1] - X[:, 4] + rng.normal(size=3000) > 0, "yes", "no")
    >>> model = SubsetClassifier(
    ...     n_features_to_select=2, epsilon=2.0, bounds_X=(0, 10), classes=("no", "yes")
    ... )
    >>> model.set_params(random_state=0).fit(X, y).predict([[0, 9, 0, 0, 1, 0]])
    array(['yes'], dtype='<U3')
    """

    classes: Any = None
    class_weights: Any = None

    def fit(self, X: Any, y: Any) -> SubsetClassifier:
        """Select columns and fit coefficients; this spends the privacy budget.

        Parameters
        ----------
        X : array, scipy.sparse matrix, pandas or polars DataFrame of shape (n, p)
            The table.
        y : array or Series of shape (n,)
            Labels of two classes.
        """
        line, model = self._fit(X, y)
        self.coef_, self.intercept_ = line[None, :], np.array([model.intercept])
        self.classes_ = np.array(model.classes)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return a margin for every row, positive for the second class."""
        return self._predicted(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return a class for every row of a table with the columns of the fit."""
        second = self._predicted(X) > 0
        return np.asarray(self.classes_[second.astype(np.intp)])

    def _loss(self) -> Loss:
        return as_loss(default_loss(labels=True) if self.loss is None else self.loss)

    def _has_probabilities(self) -> bool:
        """Say whether the margins are log odds."""
        return has_chances(chosen_loss(self.coefficients, self.coefficient_loss, True))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the chances of the two classes for every row; not for huber_hinge."""
        second = expit(self._predicted(X))
        return np.column_stack([1.0 - second, second])

    def _check_loss(self) -> None:
        loss = self._loss()
        if not loss.classification:
            raise InputError(f"loss={loss.name!r} is for a target of numbers; use SubsetRegressor")

    def _plan_target(self, y: Any) -> Target:
        self._check_loss()
        if self.classes is None:
            raise InputError(
                "SubsetClassifier needs the names of the two classes, classes=(first, second): "
                "they are part of the model, and which is which must be public. Read off the "
                "labels, they could tell of a label that one person alone has"
            )
        return super()._plan_target(y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # as of a regressor
        return tags
