"""Model files: a released linear model as JSON, with a version and a checksum, without code."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpsubset.data.cells import pick_cells
from dpsubset.data.columns import Column
from dpsubset.data.described import column_of
from dpsubset.errors import InputError, without_context
from dpsubset.records import checksum
from dpsubset.version import __version__

__all__ = ["VERSION", "LinearModel", "label_columns", "read_json", "read_model", "write_model"]

FORMAT = "dpsubset model"
# Since 2 a record, with bounds; a model of version 1 has none, and clips nothing. Since 3 there may
# be codings: what the columns hold, and what missing cells count as.
VERSION = 3
_LARGEST = 64 << 20  # bytes; a model file has a few thousand


@dataclass(frozen=True)
class LinearModel:
    """A linear model over named columns: a number, or for two classes a margin.

    Rows are clipped to the bounds of their columns, predicted numbers to those of the target. With
    `codings` columns hold what a schema says: coefficients are then those of `labels`, one for each
    level of a category, and missing values and unknown levels count as the schema says.

    Parameters
    ----------
    target : str or None
        What is predicted.
    columns : tuple of str
        The columns that it takes.
    coefficients : tuple of float
        Their coefficients, in the units of the table; with codings those of `labels`.
    intercept : float
        The prediction where all coefficients count for nothing.
    classes : pair, optional
        The two classes, the second of which has positive margins.
    probabilities : bool
        Whether margins are log odds.
    guarantee : dict, optional
        What is guaranteed, as `Guarantee.to_dict` writes it.
    asked : dict, optional
        The public settings.
    bounds : tuple of pairs, optional
        What rows are clipped to, column by column.
    target_bounds : pair, optional
        What predicted numbers are clipped to.
    positions : tuple of int, optional
        The places of the columns in the table of the fit.
    codings : tuple of Column, optional
        What the columns hold, if a schema says so.
    clip : float
        The central fraction of the bounds that was used.
    offset : float, optional
        The private offset, which the intercept holds, too.
    line_breaks : bool
        Whether texts in quotes of a CSV file may hold line breaks.
    dpsubset : str
        The version that wrote it.

    Examples
    --------
    >>> model = LinearModel("y", ("a",), (2.0,), 1.0)
    >>> model.predict(np.array([[3.0]]))
    {'y': array([7.])}
    """

    target: str | None
    columns: tuple[str, ...]
    coefficients: tuple[float, ...]
    intercept: float
    classes: tuple[Any, Any] | None = None
    probabilities: bool = False
    guarantee: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    bounds: tuple[tuple[float, float], ...] | None = None
    target_bounds: tuple[float, float] | None = None
    positions: tuple[int, ...] | None = None
    codings: tuple[Column, ...] | None = None
    clip: float = 1.0
    offset: float | None = None  # which the intercept holds, too
    line_breaks: bool = False
    dpsubset: str = field(default=__version__, compare=False)

    @property
    def labels(self) -> tuple[str, ...]:
        """What the coefficients belong to: columns, or their levels."""
        return label_columns(self.columns, self.codings)

    def released(self) -> dict[str, Any]:
        """Return what was released, as records hold it."""
        codings = None if self.codings is None else [column.to_dict() for column in self.codings]
        more = {"labels": list(self.labels), "codings": codings, "clip": self.clip}
        return ({} if codings is None else more) | {
            "positions": None if self.positions is None else list(self.positions),
            "columns": list(self.columns),
            "coefficients": list(self.coefficients),
            "intercept": self.intercept,
            "target": self.target,
            "classes": None if self.classes is None else [str(name) for name in self.classes],
            "probabilities": self.probabilities,
            "bounds": None if self.bounds is None else [list(pair) for pair in self.bounds],
            "target_bounds": None if self.target_bounds is None else list(self.target_bounds),
            **({} if self.offset is None else {"offset": self.offset}),
            **({"line_breaks": True} if self.line_breaks else {}),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the record: what was asked and released, and the guarantee, as plain values."""
        return {
            "asked": self.asked,
            "released": self.released(),
            "guarantee": self.guarantee,
            "dpsubset": self.dpsubset,
        }

    def predict(self, X: Any) -> dict[str, Any]:
        """Return predictions by name: the target, and where there are any, the second's chances.

        X has the model's columns, in their order; with codings as a data frame, by their names.
        """
        line = self.margins(X)
        target = self.target or "prediction"
        if self.classes is None:
            clipped = line if self.target_bounds is None else np.clip(line, *self.target_bounds)
            return {target: clipped}
        named = {target: np.array(self.classes)[(line > 0).astype(np.intp)]}
        if self.probabilities:
            name = f"probability of {self.classes[1]}"
            named[f"the {name}" if name == target else name] = expit(line)
        return named

    def margins(self, X: Any) -> NDArray[np.float64]:
        """Return what the coefficients make of every row, before it is clipped or given a class."""
        coefficients = np.array(self.coefficients)
        with np.errstate(over="ignore", invalid="ignore"):  # what a huge coefficient gives
            if self.codings is None:
                rows = X.astype(np.float64)
                if self.bounds:
                    rows = np.clip(rows, *np.array(self.bounds).T)
                return np.asarray(rows @ coefficients + self.intercept)
            cells = pick_cells(X, self.columns)
            line = np.full(len(cells[0]) if cells else len(X), self.intercept)
            for column, one in zip(self.codings, cells, strict=True):
                effects = coefficients[: len(column.labels)]
                coefficients = coefficients[len(column.labels) :]
                line = line + column.predicted(one, effects, self.clip)
            return line


def label_columns(names: Sequence[str], codings: Sequence[Column] | None) -> tuple[str, ...]:
    """Return what coefficients belong to: a column, a level of it, or its missing values.

    Parameters
    ----------
    names : sequence of str
        The columns.
    codings : sequence of Column or None
        What they hold, if a schema says so.

    Returns
    -------
    tuple of str
        One text for each coefficient.

    Examples
    --------
    >>> from dpsubset.data.category import Category
    >>> label_columns(["region"], [Category(levels=("north", "south"))])
    ('region=north', 'region=south')
    """
    if codings is None:
        return tuple(names)
    pairs = zip(names, codings, strict=True)
    return tuple(f"{n}={label}" if label else n for n, c in pairs for label in c.labels)


def write_model(model: LinearModel) -> str:
    """Return the text of a model file.

    Parameters
    ----------
    model : LinearModel
        The model.

    Returns
    -------
    str
        What `read_model` reads, with a checksum.

    Examples
    --------
    >>> print(write_model(LinearModel("y", ("a",), (2.0,), 1.0))[:29])
    {
      "format": "dpsubset model
    """
    content: dict[str, Any] = {"format": FORMAT, "version": VERSION, **model.to_dict()}
    content["sha256"] = checksum(content)
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


@without_context
def read_model(path: Path) -> LinearModel:
    """Read a model file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    LinearModel
        The model.

    Raises
    ------
    InputError
        If the file is missing, cut off, no model, of a newer version, or was edited.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.json"
    ...     _ = path.write_text(write_model(LinearModel("y", ("a",), (2.0,), 1.0)))
    ...     read_model(path).coefficients
    (2.0,)
    """
    content = read_json(path, "model", "fit")
    version: Any = content.get("version")
    if content.get("format") != FORMAT or type(version) is not int or version < 1:
        raise InputError(f"{path} is not a model that `dpsubset fit` wrote")
    if version > VERSION:
        raise InputError(
            f"{path} has version {version} of the model format; this dpsubset reads up to version "
            f"{VERSION}. Install a newer dpsubset"
        )
    if content.pop("sha256", None) != checksum(content):
        raise InputError(
            f"{path} was changed after it was written: its checksum does not fit its contents. "
            "Take the original file, or fit again"
        )
    try:
        return _model(content)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{path} is not a complete model: parts are missing or wrong") from None


@without_context
def read_json(path: Path, what: str, command: str) -> dict[str, Any]:
    """Read the JSON object of a file: a model or a release, by the command that writes it.

    Parameters
    ----------
    path : Path
        The file.
    what : str
        How error messages call it.
    command : str
        The command that writes such files.

    Returns
    -------
    dict
        What it holds.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "release.json"
    ...     _ = path.write_text('{"a": 1}')
    ...     read_json(path, "release", "select")
    {'a': 1}
    """
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder. Name a {what} file")
        if path.stat().st_size > _LARGEST:
            raise InputError(f"{path} is far too large for a {what} file")
        raw = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file. `dpsubset {command}` writes a {what}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text, so it is no {what} file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    try:
        content = json.loads(raw, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise InputError(
            f"{path} is not valid JSON: it may have been cut off or edited. Take the original "
            f"file, or {command} again"
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a {what} that `dpsubset {command}` wrote")
    return content


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _model(content: dict[str, Any]) -> LinearModel:
    """Build a model, or raise a ValueError, TypeError or KeyError for what is not one."""
    old = content["version"] == 1  # all in one, without bounds and positions
    released = content if old else _checked(content["released"], dict)
    classes, target = released["classes"], released["target"]
    bounds, target_bounds, positions = (None, None, None) if old else _bounds(released)
    codings = released.get("codings") if content["version"] >= 3 else None
    model = LinearModel(
        target=target if target is None and not old else _checked(target, str),
        columns=tuple(_checked(name, str) for name in _checked(released["columns"], list)),
        coefficients=tuple(_number(v) for v in _checked(released["coefficients"], list)),
        intercept=_number(released["intercept"]),
        classes=None
        if classes is None
        else tuple(_checked(c, str) for c in _checked(classes, list)),
        probabilities=_checked(released["probabilities"], bool),
        guarantee=_checked(content["guarantee"], dict),
        asked=_checked(content["settings" if old else "asked"], dict),
        bounds=bounds,
        target_bounds=target_bounds,
        positions=positions,
        codings=None if codings is None else _codings(codings, released["columns"]),
        clip=1.0 if codings is None else _number(released["clip"]),
        offset=None if released.get("offset") is None else _number(released["offset"]),
        line_breaks=_checked(released.get("line_breaks", False), bool),
        dpsubset=__version__ if old else _checked(content["dpsubset"], str),
    )
    count = len(model.columns)
    parts = (model.columns, model.bounds, model.positions)
    if (
        len(model.coefficients) != len(model.labels)
        or any(part is not None and len(part) != count for part in parts)
        or (model.classes is not None and len(set(model.classes)) != 2)
    ):
        raise ValueError
    if len(set(model.columns)) != count:
        raise ValueError
    return model


def _codings(given: Any, names: list[str]) -> tuple[Column, ...]:
    pairs = zip(_checked(given, list), names, strict=True)
    return tuple(column_of(_checked(one, dict), f"column {name!r}") for one, name in pairs)


def _bounds(released: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return the bounds of the columns and of the target, and the columns' positions."""
    columns, target, places = (released[k] for k in ("bounds", "target_bounds", "positions"))
    return (
        None if columns is None else tuple(_pair(pair) for pair in _checked(columns, list)),
        None if target is None else _pair(target),
        None if places is None else tuple(_checked(j, int) for j in _checked(places, list)),
    )


def _pair(value: Any) -> tuple[float, float]:
    lower, upper = (_number(end) for end in _checked(value, list))
    if not lower < upper:
        raise ValueError
    return lower, upper


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise TypeError
    return float(value)
