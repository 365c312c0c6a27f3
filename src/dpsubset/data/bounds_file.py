"""The file of bounds alone, as it was before schemas: written from public knowledge.

[default]                # optional: for every column without a line of its own, target included
bounds = [-1, 1]

[columns]
"age" = [0, 120]
"income" = [0, 2e5]
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dpsubset.data.bounds import as_pair
from dpsubset.data.template import quoted
from dpsubset.errors import InputError, at_once, without_context

__all__ = ["TableBounds", "read_bounds"]

Pair = tuple[float, float]

_SHOWN = 20  # names in one message


@dataclass(frozen=True)
class TableBounds:
    """Bounds of the features, by name, and of a target that needs some; the digest of the file.

    Parameters
    ----------
    columns : dict of str to pair
        The bounds of each feature.
    target : pair or None
        The bounds of the target; None for labels.
    sha256 : str
        The checksum of the file.

    Examples
    --------
    >>> TableBounds({"age": (0.0, 120.0)}, None, "ab12").columns["age"]
    (0.0, 120.0)
    """

    columns: dict[str, Pair]
    target: Pair | None
    sha256: str


def read_bounds(
    path: Path, names: Sequence[str], target: str | None, *, known: Iterable[str] | None = None
) -> TableBounds:
    """Read the bounds of the features `names` and of the target.

    Lines of columns that are not asked for are not looked at.

    Parameters
    ----------
    path : Path
        A TOML file with [columns] and, perhaps, [default].
    names : sequence of str
        The features.
    target : str or None
        The target; None if it holds labels, which have no bounds.
    known : iterable of str, optional
        All columns of the table: a name outside them is a mistake. Features and target, if None.

    Returns
    -------
    TableBounds
        The bounds of features and target.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "bounds.toml"
    >>> _ = path.write_text('[default]\\nbounds = [0, 1]\\n')
    >>> read_bounds(path, ["age"], None).columns
    {'age': (0.0, 1.0)}
    >>> folder.cleanup()
    """
    wanted = [*names] if target is None else [*names, target]
    raw = _read(path)
    content = _parse(raw, path)
    columns = _section(content, "columns", path)
    default = _section(content, "default", path)
    extra = [key for key in content if key not in ("columns", "default")]
    if extra or set(default) - {"bounds"}:
        raise InputError(
            f"{path}: only [columns] with lines name = [lower, upper], and [default] with "
            "bounds = [lower, upper], are allowed"
        )
    allowed = set(wanted) if known is None else set(known)
    unknown = [name for name in columns if name not in allowed]
    missing = [name for name in wanted if name not in columns]
    given = [name for name in wanted if name in columns]
    _, _, *pairs, fallback = at_once(
        partial(_check_unknown, path, unknown),
        partial(_check_missing, path, [] if default else missing),
        *(
            partial(_pair, columns[name], f"{path}: the bounds of column {name!r}")
            for name in given
        ),
        lambda: _pair(default["bounds"], f"{path}: [default] bounds") if default else None,
    )
    found = dict(zip(given, pairs, strict=True))
    if fallback is not None:
        found.update(dict.fromkeys(missing, fallback))
    digest = hashlib.sha256(raw).hexdigest()
    limits = None if target is None else found[target]
    return TableBounds({name: found[name] for name in names}, limits, digest)


def _check_unknown(path: Path, unknown: Sequence[str]) -> None:
    if unknown:
        shown = ", ".join(map(repr, unknown[:_SHOWN]))
        word = "a column" if len(unknown) == 1 else "columns"
        raise InputError(
            f"{path} names {shown}, which is not {word} of the table. Correct the name or remove "
            "the line"
        )


def _check_missing(path: Path, missing: Sequence[str]) -> None:
    if missing:
        raise InputError(
            f"{path} has no bounds for column {missing[0]!r} ({len(missing)} missing in all). Add "
            f"the line {quoted(missing[0])} = [lower, upper] under [columns], or give all such "
            "columns one pair under [default], or leave columns out with --features"
        )


@without_context
def _read(path: Path) -> bytes:
    if path.is_dir():
        raise InputError(f"{path} is a folder. Name a TOML file with bounds")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file. `dpsubset schema TABLE --output {path}` writes a template"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


@without_context
def _parse(raw: bytes, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text. Give a TOML file with bounds") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        raise InputError(f"{path} is not valid TOML. {_layout()}") from None


def _layout() -> str:
    return 'Its lines look like this: [columns], then "age" = [0, 120]'


def _section(content: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    section = content.get(name, {})
    if not isinstance(section, dict):
        raise InputError(f"{path}: {name} must be a table. {_layout()}")
    return section


def _pair(given: Any, what: str) -> Pair:
    if given == []:
        raise InputError(
            f"{what} are still empty. Fill in [lower, upper] from public knowledge, not from the "
            "table"
        )
    if not isinstance(given, list):
        raise InputError(f"{what} must be a pair [lower, upper] of numbers")
    return as_pair(given, what)
