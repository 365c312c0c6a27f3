"""Designs: how to answer products with a bounded table, dense or sparse."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from dpsubset.arrays import Floats
from dpsubset.designs.base import Design
from dpsubset.designs.blocks import bounded_blocks
from dpsubset.designs.columns import ColumnCache
from dpsubset.designs.dense import DenseDesign
from dpsubset.designs.features import Features
from dpsubset.designs.gram import Gram
from dpsubset.designs.sparse import SparseDesign
from dpsubset.designs.streamed import Store
from dpsubset.errors import InputError, without_context

__all__ = [
    "ColumnCache",
    "Design",
    "Features",
    "Gram",
    "Store",
    "as_design",
    "bounded_blocks",
    "unmasked",
]


def as_design(
    X: Any,
    *,
    bound: float,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    partner: Floats | None = None,
) -> Design:
    """Make a design of a table.

    Parameters
    ----------
    X : array of shape (n, p), scipy.sparse matrix, or Store
        float64 and float32 are used as they are, without a copy; integers and booleans are
        converted.
    bound : float
        Entries lie in [-bound, bound] afterwards.
    lower, upper : scalar or array of length p, optional
        Public bounds of each column. With them a column is clipped to its bounds and mapped
        linearly onto [-bound, bound]; without them it is clipped to [-bound, bound].
    partner : float64 array of length n, optional
        A vector whose products with the columns are likely to be asked for: they are computed in
        the pass that checks the table, where that is possible.

    Examples
    --------
    >>> import numpy as np
    >>> as_design(np.array([[0.0], [5.0], [20.0]]), bound=1.0, lower=0, upper=10).take([0]).ravel()
    array([-1.,  0.,  1.])
    """
    if not (np.isfinite(bound) and bound > 0):
        raise InputError(f"the bound must be a positive number, not {bound!r}")
    if isinstance(X, Store):
        middle, scale = _affine(lower, upper, X.n_columns, bound)
        if partner is not None and partner.size != X.n_rows:
            raise InputError("the target and the table have different numbers of rows")
        return X.design(bound, middle, scale, partner)
    if sp.issparse(X):
        X = cast(Any, X)  # issparse narrows to a class without dtype and shape
        _check_kind(X.dtype)
        if len(X.shape) != 2 or X.shape[1] == 0:
            raise InputError("a sparse table must have two dimensions and at least one column")
        middle, scale = _affine(lower, upper, X.shape[1], bound)
        if middle.any():
            raise InputError(
                "a sparse table needs bounds that are symmetric around 0 (lower = -upper), so that "
                "zeros stay zeros; give such bounds or a dense table"
            )
        return SparseDesign(X, bound, scale)
    array = _as_floats(X)
    middle, scale = _affine(lower, upper, array.shape[1], bound)
    if partner is not None and partner.size != array.shape[0]:
        raise InputError("the target and the table have different numbers of rows")
    return DenseDesign(array, bound, middle, scale, partner)


def unmasked(X: Any) -> Any:
    """Return X, unless it is a masked array that hides entries: numpy would lay them open."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.getmaskarray(X).any():
        raise InputError("the array is masked; fill masked entries in with fixed public values")
    return X


def _check_kind(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "fiub":
        raise InputError(
            f"the table has entries of type {dtype.type.__name__}; it must hold numbers. Encode "
            "text and categories as numbers first, and give integers within 64 bits"
        )


@without_context
def _as_floats(X: Any) -> NDArray[np.floating]:
    plain = unmasked(X)
    try:
        array = np.asarray(plain)
    except ValueError:
        raise InputError(
            "the table is ragged: every row needs the same number of columns"
        ) from None
    except MemoryError:
        raise
    except Exception:  # another library's table, with words of its own
        raise InputError("the table cannot be turned into an array of numbers") from None
    if array.ndim != 2:
        raise InputError(
            f"the table must have two dimensions (rows and columns), not {array.ndim}; "
            "a single column x is given as x.reshape(-1, 1)"
        )
    _check_kind(array.dtype)
    if array.shape[1] == 0:
        raise InputError("the table has no columns; give at least one")
    if array.dtype in (np.float64, np.float32):
        return array
    # Small integers are exact in float32; anything wider becomes float64.
    small = array.dtype.kind in "fiub" and array.dtype.itemsize <= 2
    with np.errstate(over="ignore"):  # extended precision may become infinite
        return array.astype(np.float32 if small else np.float64)


def _affine(
    lower: ArrayLike | None, upper: ArrayLike | None, p: int, bound: float
) -> tuple[Floats, Floats]:
    """Return the middle and the scale of every column's map onto [-bound, bound]."""
    if lower is None and upper is None:
        return np.zeros(p), np.ones(p)
    if lower is None or upper is None:
        raise InputError("only one of lower and upper bounds was given; give both")
    low, high = _limits(lower, p, "lower"), _limits(upper, p, "upper")
    if not np.all(low < high):
        raise InputError("a lower bound is not below its upper bound; give lower < upper")
    middle = low / 2 + high / 2
    with np.errstate(divide="ignore", over="ignore"):
        scale = bound / (high / 2 - low / 2)
    if not (np.isfinite(scale).all() and np.all(scale > 0)):
        raise InputError("bounds are too close together or too far apart for float64")
    return middle, scale


@without_context
def _limits(given: ArrayLike, p: int, name: str) -> Floats:
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the {name} bounds must be numbers") from None
    if array.ndim > 1 or (array.ndim == 1 and array.size != p):
        raise InputError(
            f"the {name} bounds have shape {array.shape}; give one number or one for each of the "
            f"{p} columns"
        )
    if not np.isfinite(array).all():
        raise InputError(f"the {name} bounds must be finite numbers")
    return np.broadcast_to(array, (p,))
