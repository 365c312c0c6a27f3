"""`SubsetSelector`: private best-subset selection as a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted, validate_data

from dpsubset.data.frames import as_matrix
from dpsubset.data.stores import as_store
from dpsubset.designs import Store
from dpsubset.docstrings import documented
from dpsubset.errors import InputError, without_context
from dpsubset.estimators.asking import Asking
from dpsubset.estimators.schemas import picked_columns
from dpsubset.selection import Selection

__all__ = ["SubsetSelector"]


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class SubsetSelector(SelectorMixin, Asking):  # type: ignore[misc]
    """Select the columns that best explain a target, under differential privacy.

    Columns and target are clipped to public bounds and mapped linearly onto [-1, 1]; the bounds
    are never derived from the data. Labels of two classes become -1 and +1. Fitting spends the
    privacy budget once; the fitted object holds the released columns and their guarantee, no
    score and no data. Applying `transform` to the private table gives private data again: the
    guarantee covers the choice of columns only.

    Every fit spends its own epsilon: GridSearchCV, cross_val_score and their kin spend it once for
    each candidate and fold. Steps of a pipeline that are fitted to the rows, such as StandardScaler
    and SimpleImputer, are outside the guarantee. Both are warned of where they can be seen
    (docs/pipelines.md).

    Parameters
    ----------
    bounds_y : pair (lower, upper), or "private"
        Public bounds of the target of a regression loss; labels have none. "private" draws them
        from the table, with a part of epsilon: around two private quantiles, on a grid of round
        numbers up to 10^9 that has six steps a decade. With a schema, too, if that does not say
        what the target holds.
    target_bounds_share : float, default=0.1
        With bounds_y="private": the part of epsilon that buys them. They are released, as
        `release_.target_bounds`.
    window_share : float or "auto", default=None
        The part of epsilon that buys a window of a target of numbers, around two private
        quartiles: the selection clips the target to it, so that a row counts by what is usual.
        "auto" is 200 / (epsilon n), at least 0.001 and at most 0.1; 0.1 under add-remove, where n
        is private. By default "auto" where no loss is named and epsilon n is 1000 or more, or n is
        private; 0 otherwise. The window is released, as `release_.target_bounds`.
    classes : pair, default=None
        The two classes of a classification loss, as public knowledge. Without it they are read
        off the labels, and a table that holds only one class, or a third, is refused: as with
        missing values, the refusal itself depends on the data and is outside the guarantee. With
        `classes` a table may hold one class only; a label other than the two is still refused. A
        custom loss may treat the classes differently, and mechanisms by votes of blocks
        ("sample-aggregate", "lasso-stability") see more than scores: both need them named.
    class_weights : pair or mapping {class: weight}, default=None
        Public weights of the two `classes`, which must be named: rows of a class count as often.
        "balanced" is refused: such weights are computed from the table.
    offset_share : float, default=0.0
        The part of epsilon that buys an offset of all predictions, for mechanisms by name: a
        private median of the target, or the log odds of the second of the two `classes`. It is
        released with the columns, as `release_.offset`. The constant shares `radius` with the
        coefficients; where the target lies far from the middle of its bounds, or a class is rare,
        a small radius leaves little for the columns without an offset.

    Attributes
    ----------
    support_ : array of bool, shape (p,)
        The selected columns.
    guarantee_ : Guarantee
        What the release guarantees; prints in plain words.
    release_ : Release
        The released column indices and the guarantee.
    classes_ : array of two classes
        The classes that were given as `classes`; not there if none were.
    n_features_in_ : int
        Number of columns seen by `fit`.
    feature_names_in_ : array of str
        Column names seen by `fit`, if the table had any.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (2000, 6))
    >>> y = X[:, 1] - X[:, 4]
    >>> selector = SubsetSelector(
    ...     n_features_to_select=2, epsilon=5.0, bounds_X=(0, 10), bounds_y=(-10, 10)
    ... )
    >>> selector.set_params(random_state=0).fit(X, y).get_support(indices=True)
    array([1, 4])

    Labels of two classes, by a classification loss:

    >>> ill = np.where(y > 0, "yes", "no")
    >>> labels = {"loss": "logistic", "classes": ("no", "yes"), "bounds_y": None}
    >>> selector.set_params(**labels).fit(X, ill).get_support(indices=True)
    array([1, 4])
    """

    bounds_y: Any = None
    target_bounds_share: Any = 0.1
    window_share: Any = None
    classes: Any = None
    class_weights: Any = None
    offset_share: Any = 0.0

    def fit(self, X: Any, y: Any) -> SubsetSelector:
        """Select columns; this spends the privacy budget.

        Parameters
        ----------
        X : array, scipy.sparse matrix, pandas or polars DataFrame of shape (n, p)
            The table.
        y : array or Series of shape (n,)
            The target: numbers, or for a classification loss labels of two classes, such as -1
            and +1, 0 and 1, truth values, or two strings.
        """
        self._forget()
        selection, problem = self._ask(Selection, X, y)
        self._warn(selection, problem, 2)
        released = selection.release(problem, self.ledger)
        self.support_: NDArray[np.bool_] = np.zeros(self.n_features_in_, dtype=bool)
        self.support_[self._places(selection.schema, released.support)] = True
        self.release_ = released
        self.guarantee_ = released.guarantee
        if selection.schema.target.classes is not None:
            self.classes_ = np.array(selection.schema.target.classes)
        return self

    @without_context
    def transform(self, X: Any) -> Any:
        """Return the selected columns of a table.

        Parameters
        ----------
        X : array, scipy.sparse matrix, pandas or polars DataFrame of shape (n, p)
            A table with the columns that `fit` saw.
        """
        check_is_fitted(self)
        X = as_store(X)
        if isinstance(X, Store):
            return self._stored(X)
        if hasattr(self, "_columns_in"):
            try:
                validate_data(self, X, reset=False, skip_check_array=True, ensure_2d=False)
            except ValueError as error:  # names of columns, no entry
                raise InputError(str(error)) from None
            return picked_columns(X, np.flatnonzero(self.support_).tolist())
        table, _ = as_matrix(X)  # scikit-learn's own refusals would show entries
        if table.shape[0] > 0:
            try:
                return super().transform(np.asarray(X) if isinstance(X, np.matrix) else X)
            except ValueError as error:  # their words hold no entry: that was seen to above
                raise InputError(str(error)) from None
        # scikit-learn refuses an empty table; where the number of rows is private, that tells it.
        validate_data(self, X, reset=False, skip_check_array=True)
        table = table.tocsr() if hasattr(table, "tocsr") else table
        return table[:, self.support_]

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "support_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        if self._takes_labels():  # a transformer still, whose target has two classes
            tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags
