"""Lines of CSV files as rows: nothing fails, and a line changes its own row only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from dpsubset.cli import app
from dpsubset.data import files, lines
from dpsubset.data.files import read_cells
from dpsubset.data.schema import Schema
from dpsubset.errors import InputError

NAMES = ("a", "b", "y")
WORDS = [
    b'"',
    b'""',
    b",",
    b"x",
    b"7",
    b" ",
    b"\r",
    b"\x00",
    b"\xff",
    b"ab",
    b'",',
    b',"',
    b"\xc3\xa9",
]
LINE = st.lists(st.sampled_from(WORDS), max_size=9).map(b"".join)


def by_hand(line: bytes, count: int) -> tuple[str | None, ...]:
    """Read one line character by character."""
    text = line[:-1] if line.endswith(b"\r") else line
    fields: list[list[bytes]] = [[]]
    state = "begin"
    at = 0
    while at < len(text):
        one = text[at : at + 1]
        if state == "within":
            if text[at : at + 2] == b'""':
                fields[-1].append(b'"')
                at += 1
            elif one == b'"':
                state = "after"
            else:
                fields[-1].append(one)
        elif one == b",":
            fields.append([])
            state = "begin"
        elif one == b'"' and state == "begin":
            state = "within"
        else:
            fields[-1].append(one)
            state = "after"
        at += 1
    found = [b"".join(field).decode(errors="replace") or None for field in fields][:count]
    return tuple(found + [None] * (count - len(found)))


def read(folder: Path, rows: list[bytes], **options: Any) -> list[tuple[str | None, ...]]:
    path = folder / "t.csv"
    path.write_bytes(b"a,b,y\n" + b"".join(row + b"\n" for row in rows))
    cells = read_cells(path, NAMES, **options)
    return [tuple(cell or None for cell in row) for row in cells.rows()]


@settings(max_examples=400, derandomize=True, deadline=None)
@given(rows=st.lists(LINE, max_size=6))
@example(rows=[b"", b"1,2,3"])
@example(rows=[b"1", b"1,2,3"])
@example(rows=[b'1,"2,3', b"4,5,6", b'7,8"', b"9,9,9"])
def test_a_row_is_its_line(rows: list[bytes], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("lines")
    assert read(folder, rows) == [by_hand(row, 3) for row in rows]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(rows=st.lists(LINE, min_size=1, max_size=6), other=LINE, place=st.integers(0, 5))
def test_a_line_changes_its_own_row_only(
    rows: list[bytes], other: bytes, place: int, tmp_path_factory: Any
) -> None:
    folder, place = tmp_path_factory.mktemp("lines"), place % len(rows)
    before, after = (
        read(folder, some) for some in (rows, [*rows[:place], other, *rows[place + 1 :]])
    )
    assert before[:place] + before[place + 1 :] == after[:place] + after[place + 1 :]
    without = read(folder, rows[:place] + rows[place + 1 :])
    assert before[:place] + before[place + 1 :] == without


def test_the_library_alone_would_be_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twins: quotes go on over lines, and lines are not mended at all."""
    rows = [b'1,"2,3', b"4,5,6", b'7,"8",9']
    right = [by_hand(row, 3) for row in rows]
    assert read(tmp_path, rows) == right
    mended = lines.mended
    monkeypatch.setattr(files, "mended", lambda *given, spanning: mended(*given, spanning=True))
    assert read(tmp_path, rows) != right
    monkeypatch.setattr(files, "mended", lambda *given, spanning: None)
    with pytest.raises(InputError):
        read(tmp_path, rows)


SPANNING = {
    "closed": ([b'1,"two', b'lines",3', b"4,5,6"], [("1", "two\nlines", "3"), ("4", "5", "6")]),
    "left open": ([b"1,2,3", b'4,"5', b"6,7,8"], [("1", "2", "3"), ("4", "5\n6,7,8", None)]),
    "open, then a quote": (
        [b'1,"2,3', b'4,"5",6', b"7,8,9"],
        [("1", '2,3\n4,5"', "6"), ("7", "8", "9")],
    ),
    "several": (
        [b'"a', b'b","c', b"", b'd",3', b"4"],
        [("a\nb", "c\n\nd", "3"), ("4", None, None)],
    ),
    "a quote within": ([b'5",2,3', b'4",5,6'], [('5"', "2", "3"), ('4"', "5", "6")]),
}


@pytest.mark.parametrize("name", SPANNING)
def test_texts_with_line_breaks_where_the_schema_says_so(name: str, tmp_path: Path) -> None:
    rows, expected = SPANNING[name]
    assert read(tmp_path, rows, line_breaks=True) == expected


@settings(max_examples=200, derandomize=True, deadline=None)
@given(rows=st.lists(LINE, max_size=6))
def test_nothing_fails_with_line_breaks_either(rows: list[bytes], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("lines")
    whole = [row for row in rows if b'"' not in row]
    assert read(folder, whole, line_breaks=True) == [by_hand(row, 3) for row in whole]
    assert len(read(folder, rows, line_breaks=True)) <= len(rows)


def described(**more: Any) -> dict[str, Any]:
    columns = {"a": {"levels": ["x", "z"]}, "b": [0, 10]}
    return {"columns": columns, "target": {"name": "y", "bounds": [0, 10]}, **more}


def test_line_breaks_are_the_schemas_to_allow() -> None:
    """By a word, or by a level that holds one."""
    plain = Schema.from_dict(described())
    said = Schema.from_dict(described(line_breaks=True))
    levels = {"a": {"levels": ["x", "two\nlines"]}, "b": [0, 10]}
    implied = Schema.from_dict(described() | {"columns": levels})
    assert [one.line_breaks for one in (plain, said, implied)] == [False, True, True]
    assert "line_breaks" not in plain.to_dict()
    assert plain.sha256 != said.sha256
    assert Schema.from_dict(said.to_dict()).line_breaks
    with pytest.raises(InputError, match="line_breaks must be true or false"):
        Schema.from_dict(described(line_breaks=1))


@pytest.mark.parametrize("spanning", [False, True])
def test_the_commands_read_files_with_open_quotes(spanning: bool, tmp_path: Path) -> None:
    """The quote is in one row; the fit, its model and predictions are defined all the same."""
    rng = np.random.default_rng(0)
    rows = [f"{'xz'[rng.integers(2)]},{rng.integers(11)},{rng.integers(11)}" for _ in range(60)]
    rows[7], rows[20] = '"x,3,4', "\x00,5,\x00"
    table, schema, model = tmp_path / "t.csv", tmp_path / "s.toml", tmp_path / "m.json"
    table.write_text("a,b,y\n" + "\n".join(rows) + "\n")
    head = "line_breaks = true\n" if spanning else ""
    schema.write_text(
        f'{head}[columns]\na = ["x", "z"]\nb = [0, 10]\n[target]\nname = "y"\nbounds = [0, 10]\n'
    )
    runner = CliRunner()
    given = ["--schema", str(schema), "--size", "1", "--epsilon", "1", "--output", str(model)]
    done = runner.invoke(app, ["fit", str(table), *given])
    assert done.exit_code == 0, done.output
    done = runner.invoke(app, ["predict", str(model), str(table), "--output", str(tmp_path / "p")])
    assert done.exit_code == 0, done.output
    assert pl.read_csv(tmp_path / "p").height == (8 if spanning else 60)
