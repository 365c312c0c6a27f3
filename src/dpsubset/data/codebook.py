"""The schema file: what is public about a table, written by its owner from a codebook.

    [columns]
    age = [0, 120]                 # a number with bounds
    smoker = "0/1"                 # a truth value
    "lab_*" = [0, 100]             # a family of columns; exact names win, then longer patterns
    region = ["north", "south"]    # a category with its levels
    visit = [2019-01-01, 2024-12-31]
    id = "ignore"

    [columns.income]               # or with more words
    bounds = [0, 2e5]
    missing = "indicator"
    unit = "EUR"

    [target]
    name = "cost"
    bounds = [0, 1e5]              # or "private", or classes = ["no", "yes"]

A file of bounds alone, [columns] with pairs and [default], is read, too.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dpsubset.data.category import Category, Ignored
from dpsubset.data.cells import kind_of
from dpsubset.data.columns import PRIVATE, Column, Truth
from dpsubset.data.described import STILL_EMPTY, TRUTH, as_level, column_of, unbounded
from dpsubset.errors import InputError, at_once, without_context

__all__ = ["Codebook", "check_file", "is_bounds_only", "read_toml"]

_SHOWN = 20  # names in one message
_SECTIONS = ("columns", "default", "target", "rows", "line_breaks", "note")


@dataclass(frozen=True, eq=False)
class Codebook:
    """Columns by their names or by patterns, and the target; it may fit many tables.

    `classes` are those of a target of labels, as they were written.

    Parameters
    ----------
    columns : mapping of str to Column
        What columns hold, by names or patterns.
    fallback : Column, optional
        What all others hold.
    target_name : str, optional
        The name of the target.
    target : Column, optional
        What the target holds.
    classes : pair, optional
        The classes of a target of labels.
    rows : int, optional
        The number of rows, if that is public.
    line_breaks : bool
        Whether texts in quotes of a CSV file may hold line breaks.
    note : str, optional
        What the file says of itself.
    where : str
        How error messages call it.

    Examples
    --------
    >>> target = {"name": "y", "bounds": [0, 1]}
    >>> book = Codebook.of({"columns": {"age": [0, 120]}, "target": target})
    >>> book.target_name, list(book.columns)
    ('y', ['age'])
    """

    columns: Mapping[str, Column]
    fallback: Column | None = None
    target_name: str | None = None
    target: Column | None = None
    classes: tuple[Any, Any] | None = None
    rows: int | None = None
    line_breaks: bool = False
    note: str | None = None
    where: str = field(default="the schema", compare=False)

    @classmethod
    def read(cls, path: Path) -> Codebook:
        """Read a TOML file; all that is wrong with it by itself is told at once."""
        return cls.of(read_toml(path), str(path))

    @classmethod
    def of(cls, given: Any, where: str = "the schema") -> Codebook:
        """Return what a dictionary in the layout of the file says.

        >>> book = Codebook.of({"columns": {"lab_*": [0, 9], "lab_sex": ["f", "m"]}})
        >>> book.column("lab_sex").labels, book.column("lab_iron").span
        (('f', 'm'), (0.0, 9.0))
        """
        if not isinstance(given, Mapping):
            raise InputError(f"{where} must be a table with [columns] and [target]")
        given = {key: value for key, value in given.items() if value is not None}
        given.pop("picked", None)  # of Schema.to_dict
        extra = [str(key) for key in given if key not in _SECTIONS]
        sections = [_section(given, name, where) for name in ("columns", "default", "target")]
        lines, default, target = sections
        named = [name for name in lines if isinstance(name, str)]
        empty = [name for name in named if lines[name] in ([], "")]  # as a template has them
        _, _, _, rows, _, fallback, own, *columns = at_once(
            partial(_refuse_extra, extra, where),
            partial(_line_breaks, given.get("line_breaks", False), where),
            partial(_refuse, empty, f"{where}: {STILL_EMPTY}"),
            partial(_rows, given.get("rows"), where),
            partial(_note, given.get("note"), where),
            lambda: column_of(default, f"{where}: [default]") if default else None,
            partial(_target, target, lines, where),
            *(
                partial(column_of, lines[n], f"{where}: column {n!r}")
                for n in named
                if n not in empty
            ),
        )
        return cls(
            dict(zip(named, columns, strict=True)),
            fallback,
            target_name=own[0],
            target=own[1],
            classes=own[2],
            rows=rows,
            line_breaks=given.get("line_breaks", False),
            note=given.get("note"),
            where=where,
        )

    @property
    def patterns(self) -> list[str]:
        """The keys that stand for families of columns."""
        return [key for key in self.columns if "*" in key]

    def column(self, name: str) -> Column | None:
        """Return what is said of a column: by its name, the longest pattern, or for all."""
        if name in self.columns:
            return self.columns[name]
        if name == self.target_name and self.target is not None:
            return self.target
        fitting = [key for key in self.patterns if _matches(key, name)]
        return self.columns[max(fitting, key=len)] if fitting else self.fallback

    def has_classes(self, target: str | None = None) -> bool:
        """Say whether the target, or another column in its place, is described by two classes."""
        name = target or self.target_name
        own = name == self.target_name and self.target is not None
        column = self.target if own else (None if name is None else self.column(name))
        return isinstance(column, (Category, Truth))

    def check_names(self, names: Sequence[str], wanted: Iterable[str], target: str | None) -> None:
        """Refuse lines without a column, and columns without a line, all of them at once."""
        known = {*names, target}
        exact = [key for key in self.columns if "*" not in key]
        idle = [key for key in self.patterns if not any(_matches(key, name) for name in names)]
        at_once(
            partial(
                _refuse,
                [key for key in exact if key not in known],
                f"{self.where} names {{}}, which the table does not have: correct the name or "
                "remove the line",
            ),
            partial(
                _refuse,
                [key for key in idle if key not in known],
                f"{self.where} has the pattern {{}}, which no column of the table fits: correct or "
                "remove it",
            ),
            partial(
                _refuse,
                [name for name in wanted if self.column(name) is None],
                f'{self.where} does not describe {{}}: add a line for it, or "ignore" it',
            ),
        )

    def check_types(self, types: Mapping[str, Any], target: str | None = None) -> None:
        """Refuse columns whose declared type cannot hold what the schema says."""
        at_once(
            *(
                partial(_check_type, f"{self.where}: column {name!r}", self.column(name), dtype)
                for name, dtype in types.items()
            )
        )


def _check_type(what: str, column: Column | None, dtype: Any) -> None:
    kind = kind_of(dtype)
    if column is not None and kind not in column.types:
        held = {"date": "dates"}.get(kind, "neither numbers nor text nor dates")
        raise InputError(
            f"{what} is described as a {type(column).__name__.lower()}, but the table declares "
            f"that it holds {held}: describe it as what it is, or ignore it"
        )


def _refuse(names: Sequence[str], text: str) -> None:
    if names:
        shown, more = ", ".join(map(repr, names[:_SHOWN])), len(names) - _SHOWN
        raise InputError(text.replace("{}", f"{shown} and {more} more" if more > 0 else shown))


def _refuse_extra(extra: Sequence[str], where: str) -> None:
    _refuse(
        extra,
        f"{where} has {{}}; allowed are [columns], [default], [target], rows, line_breaks and note",
    )


def _matches(pattern: str, name: str) -> bool:
    """Say whether a name fits a pattern; only the star means more than itself."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.S) is not None


def _section(given: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    section = given.get(name, {})
    if not isinstance(section, Mapping):
        raise InputError(f"{where}: [{name}] must be a table, with lines such as age = [0, 120]")
    return dict(section)


def _rows(given: Any, where: str) -> int | None:
    if given is None or (type(given) is int and given > 0):
        return given
    raise InputError(f"{where}: rows must be a whole number above 0, or left out if it is private")


def _line_breaks(given: Any, where: str) -> None:
    if type(given) is not bool:
        raise InputError(f"{where}: line_breaks must be true or false")


def _note(given: Any, where: str) -> None:
    if not isinstance(given, str | None):
        raise InputError(f"{where}: note must be a text")


def _target(
    given: dict[str, Any], lines: Mapping[str, Any], where: str
) -> tuple[str | None, Column | None, tuple[Any, Any] | None]:
    """Return name, column and classes of the target, as far as they are said."""
    what = f"{where}: [target]"
    name = given.get("name")
    allowed = {"name", "bounds", "classes", "truth", "missing", "unit", "note"}
    extra = sorted(set(map(str, given)) - allowed)
    if extra:
        raise InputError(
            f"{what} has {', '.join(map(repr, extra))}; allowed are name, one of bounds, classes "
            "and truth, missing, unit and note"
        )
    if name is not None and not (isinstance(name, str) and name):
        raise InputError(f"{what} name must be the name of a column")
    spec = {key: value for key, value in given.items() if key != "name"}
    if spec.get("missing") == "ignore":  # as if nothing were said: such a row counts for nothing
        del spec["missing"]
    if not spec:
        return name, None, None
    if name in lines:
        raise InputError(f"{what} and [columns] both describe {name!r}: leave one of them out")
    if len(spec.keys() & {"bounds", "classes", "truth"}) != 1:
        raise InputError(
            f'{what} needs one of bounds = [lower, upper] or "private", classes = '
            "[first, second], and truth = true"
        )
    if [] in (spec.get("bounds"), spec.get("classes")):
        raise InputError(
            f"{what} is still empty. Fill it in from public knowledge, a codebook or a form, not "
            'from the table: bounds = [lower, upper] for numbers, or "private"; classes = '
            "[first, second] for labels"
        )
    if spec.get("missing") == "indicator":
        raise InputError(f'{what} missing must be "ignore" or a fixed value')
    if spec.get("bounds") == PRIVATE:
        return name, unbounded(spec, what), None
    if "classes" not in spec:
        return name, column_of(spec, what), None
    classes = spec.pop("classes")
    pair = classes if isinstance(classes, list) and len(classes) == 2 else [None]
    if any(as_level(one) is None for one in pair) or spec.get("missing") == "level":
        raise InputError(f'{what} classes must be two texts or numbers, such as ["no", "yes"]')
    column = column_of({"levels": pair, **spec}, what)
    return name, column, (pair[0], pair[1])


def check_file(path: Path, names: Sequence[str] | None, types: Mapping[str, Any]) -> Codebook:
    """Read a schema file, with the names and types of a table if there is one; tell all faults.

    Parameters
    ----------
    path : Path
        The file.
    names : sequence of str or None
        The columns of a table.
    types : mapping of str to type
        The types that a table declares.

    Returns
    -------
    Codebook
        What the file says.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "schema.toml"
    >>> _ = path.write_text('[columns]\\nage = [0, 120]\\n')
    >>> list(check_file(path, ["age"], {}).columns)
    ['age']
    >>> folder.cleanup()
    """
    content = read_toml(path)
    found = at_once(
        lambda: Codebook.of(content, str(path)),
        lambda: None if names is None else _check_keys(content, names, str(path)),
    )
    book: Codebook = found[0]
    book.check_types({n: t for n, t in types.items() if n != book.target_name})
    return book


def _check_keys(content: dict[str, Any], names: Sequence[str], where: str) -> None:
    """Compare the names of a file with those of a table, whatever else is wrong."""
    lines = content.get("columns", {})
    said, target = content.get("default"), content.get("target", {})
    name = target.get("name") if isinstance(target, dict) else None
    lines = dict.fromkeys(lines if isinstance(lines, dict) else (), Ignored())
    outline = Codebook(lines, Ignored() if said else None, where=where)
    outline.check_names(names, [one for one in names if one != name], None)
    if name is not None and name not in names:
        raise InputError(f"{where}: the target {name!r} is not a column of the table")


@without_context
def read_toml(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file, or say why there are none."""
    if path.is_dir():
        raise InputError(f"{path} is a folder. Name a TOML file with a schema")
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file. `dpsubset schema TABLE --output {path}` writes a template"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text. Give a TOML file with a schema") from None
    except tomllib.TOMLDecodeError as error:
        twice = ". Is a column described twice?" if "overwrite" in str(error) else ""
        raise InputError(f"{path} is not valid TOML: {error}{twice}") from None
    except (RecursionError, ValueError):
        raise InputError(f"{path} is not valid TOML") from None


def is_bounds_only(path: Path) -> bool:
    """Say whether a file is one of bounds alone, as `--bounds` has always taken them.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    bool
        Whether it holds bounds and nothing else.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "bounds.toml"
    >>> _ = path.write_text('[default]\\nbounds = [0, 1]\\n')
    >>> is_bounds_only(path)
    True
    >>> folder.cleanup()
    """
    try:
        content = read_toml(path)
    except InputError:
        return True  # its reader says what is wrong
    lines = content.get("columns", {})
    plain = not isinstance(lines, dict) or all(_is_old(line) for line in lines.values())
    stars = isinstance(lines, dict) and any("*" in name for name in lines)
    return plain and not stars and not set(content) & {"target", "rows", "line_breaks", "note"}


def _is_old(line: Any) -> bool:
    """Say whether a line is a pair of bounds, or a wrong one."""
    if isinstance(line, dict) or line in (*TRUTH, "ignore"):
        return False
    if not isinstance(line, list) or not line:
        return True
    return isinstance(line[0], (int, float))
