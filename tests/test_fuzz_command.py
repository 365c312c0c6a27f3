"""Nonsense against the command: an exit code of 0, 1 or 2, no traceback, and no data in its words.

Every example is mostly valid, with up to two parts spoiled: the table's file, the bounds file, the
model file, or an option. How examples are drawn, and how a quoted entry is noticed, is told in
test_fuzz_api.py.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import tempfile
import zlib
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_fuzz_api import (
    BREAKS,
    LEDGERS,
    SECRET,
    Leak,
    Properties,
    break_at,
    caught,
    cells,
    check,
    examples,
    often,
    overhearing,
    patience,
    placed,
)
from typer.testing import CliRunner, Result

from dpsubset.cli import app
from dpsubset.model_file import LinearModel, write_model

__all__ = ["PROPERTIES", "Leak"]

# Files ------------------------------------------------------------------------------------------


def _grid(n: int, p: int, seed: int, labels: bool) -> list[list[str]]:
    """Return the lines of a table as fields: names, then marked entries, the target last."""
    rng = np.random.default_rng(seed)
    entries = [[repr(v) for v in row] for row in cells(rng, n, p).tolist()]
    last = cells(rng, n).tolist()
    ends = [f"{SECRET}{'ab'[v > 0]}" if labels else repr(v) for v in last]
    return [
        [*(f"c{j}" for j in range(p)), "y"],
        *([*e, y] for e, y in zip(entries, ends, strict=True)),
    ]


def _rng(grid: list[list[str]]) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(grid).encode()))


def _text(grid: list[list[str]], mark: str = ",", end: str = "\n") -> bytes:
    return "".join(mark.join(line) + end for line in grid).encode()


def _cell(value: str) -> Callable[[list[list[str]]], bytes]:
    """Put one value into the first column of the last line."""
    return lambda grid: _text([*grid[:1], *grid[1:-1], *([value, *g[1:]] for g in grid[1:][-1:])])


def _last(value: str) -> Callable[[list[list[str]]], bytes]:
    return lambda grid: _text([*grid[:1], *grid[1:-1], *([*g[:-1], value] for g in grid[1:][-1:])])


def _head(*names: str) -> Callable[[list[list[str]]], bytes]:
    return lambda grid: _text([[*names, *grid[0][len(names) :]], *grid[1:]])


GOOD_CSV: dict[str, Callable[[list[list[str]]], bytes]] = {
    "plain": _text,
    "carriage returns": lambda g: _text(g, end="\r\n"),
    "a mark at the start": lambda g: b"\xef\xbb\xbf" + _text(g),
    "quoted": lambda g: _text([[f'"{v}"' for v in line] for line in g]),
    "blanks": lambda g: _text([g[0], *([f" {v} " for v in line] for line in g[1:])]),
    "no last end": lambda g: _text(g).rstrip(b"\n"),
    "truth values": lambda g: _text([g[0], *(["true", *line[1:]] for line in g[1:])]),
    "capitals": lambda g: _text([g[0], *([v.upper() for v in line] for line in g[1:])]),
}
BAD_CSV: dict[str, Callable[[list[list[str]]], bytes]] = {
    **{f"a cell {v!r}": _cell(v) for v in ("", "nan", "NA", "inf", "-inf", "1e999", "1e-999", "?")},
    **{
        f"a cell {v!r}": _cell(v)
        for v in (SECRET, f'"{SECRET}', f'{SECRET}"x', "7_351_942", "0x7351")
    },
    **{
        f"a cell {v!r}": _cell(v)
        for v in ("7.3519422.1", "--7.3519422", "7.3519422e", "７.3519422")
    },
    **{
        f"a target {v!r}": _last(v)
        for v in ("", "nan", "inf", SECRET, "true", "\x01", f'"{SECRET}')
    },
    **{
        f"names {v!r}": _head(*v)
        for v in (("",), ("c1",), ("ü 名",), (" c0",), ('"a\nb"',), ('"a',))
    },
    **{
        f"names {v!r}": _head(*v) for v in (("7",), ("y",), ("a\x1b[2J",), ("c0", "c0"), ('"a,b"',))
    },
    "a field more": lambda g: _text([*g, [*g[-1], "7.3519422"]]),
    "a field less": lambda g: _text([*g, g[-1][:-1]]),
    "one field": lambda g: _text([*g, [SECRET]]),
    "an empty line": lambda g: _text([*g[:2], [""], *g[2:]]),
    "empty lines at the end": lambda g: _text(g) + b"\n\n",
    "an empty line first": lambda g: b"\n" + _text(g),
    "a comment": lambda g: b"# a comment\n" + _text(g),
    "semicolons": lambda g: _text(g, mark=";"),
    "tabs": lambda g: _text(g, mark="\t"),
    "blanks between": lambda g: _text(g, mark=" "),
    "decimal commas": lambda g: _text(
        [g[0], *([v.replace(".", ",") for v in line] for line in g[1:])]
    ),
    "old ends of lines": lambda g: _text(g, end="\r"),
    "mixed ends of lines": lambda g: _text(g[:3], end="\r\n") + _text(g[3:]),
    "wide letters": lambda g: _text(g).decode().encode("utf-16"),
    "Latin letters": lambda g: (
        _text([g[0], *([f"{SECRET}é"] * len(line) for line in g[1:])]).decode().encode("latin-1")
    ),
    "Latin names": lambda g: "é,y\n".encode("latin-1") + _text(g[1:]),
    "not a letter": lambda g: _text(g) + b"\xff\xfe\x80,\xc0\n",
    "nul": lambda g: _text(g).replace(b"7", b"\x00", 1),
    "nul late": lambda g: _text(g)[:-1] + b"\x00\n",
    "no names": lambda g: _text([[*line[:-1], "7.3519422"] for line in g[1:]]),
    "names only": lambda g: _text(g[:1]),
    "empty": lambda g: b"",
    "an end of line": lambda g: b"\n",
    "quotes only": lambda g: b'"',
    "one column": lambda g: _text([line[-1:] for line in g]),
    "cut off": lambda g: _text(g)[: len(_text(g)) * 2 // 3],
    "packed": lambda g: gzip.compress(_text(g), mtime=0),
    "a long field": lambda g: _text([*g, ["7" * 140_000, *g[-1][1:]]]),
    "a long name": lambda g: _text([["n" * 70_000, *g[0][1:]], *g[1:]]),
    "many digits": lambda g: _text([*g, ["7.3519422" + "1" * 400, *g[-1][1:]]]),
    "noise": lambda g: bytes(_rng(g).integers(0, 256, 300, dtype=np.uint8)),
    "noise after names": lambda g: _text(g[:1]) + _rng(g).bytes(300),
    "Parquet": lambda g: _parquet(_frame(g)),
}


def _frame(grid: list[list[str]]) -> pl.DataFrame:
    columns = dict(zip(grid[0], zip(*grid[1:], strict=True), strict=True)) if grid[1:] else {}
    made = {name: columns.get(name, ()) for name in grid[0]}
    kinds = dict.fromkeys(grid[0], pl.Float64)
    if any(SECRET in value for value in made["y"]):
        kinds["y"] = pl.String
    frame = pl.DataFrame(
        {name: list(values) for name, values in made.items()}, schema=dict.fromkeys(made, pl.String)
    )
    return frame.cast(kinds)


def _parquet(frame: pl.DataFrame, **options: Any) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file, **options)
    return file.getvalue()


def _column(value: Any) -> Callable[[list[list[str]]], bytes]:
    """Put a strange column into a Parquet file."""
    return lambda g: _parquet(
        _frame(g).with_columns(c0=pl.Series([value] * (len(g) - 1), strict=False))
    )


def _twice(grid: list[list[str]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table([pa.array([7.3519422]), pa.array([7.3519422])], names=["y", "y"]), file)
    return file.getvalue()


def _flipped(grid: list[list[str]]) -> bytes:
    """Damage some bytes in the middle."""
    raw, rng = (
        bytearray(_parquet(_frame(grid), compression="uncompressed")),
        _rng(grid),
    )
    for place in rng.integers(4, len(raw) - 4, 5):
        raw[place] ^= int(rng.integers(1, 256))
    return bytes(raw)


GOOD_PARQUET: dict[str, Callable[[list[list[str]]], bytes]] = {
    "as is": lambda g: _parquet(_frame(g)),
    "float32": lambda g: _parquet(_frame(g).cast({pl.Float64: pl.Float32})),
    "truth values": lambda g: _parquet(_frame(g).with_columns(c0=pl.lit(True))),
    "whole": lambda g: _parquet(_frame(g).with_columns(c0=pl.lit(735194, pl.Int64))),
}
BAD_PARQUET: dict[str, Callable[[list[list[str]]], bytes]] = {
    "text": _column(SECRET),
    "nan": _column(math.nan),
    "infinite": _column(math.inf),
    "nulls": _column(None),
    "lists": _column([7.3519422]),
    "structures": _column({"a": 7.3519422}),
    "dates": _column(date(1973, 5, 19)),
    "decimals": _column(Decimal("7.3519422")),
    "bytes": _column(SECRET.encode()),
    "categories": lambda g: _parquet(
        _frame(g).with_columns(c0=pl.lit(SECRET).cast(pl.Categorical))
    ),
    "no rows": lambda g: _parquet(_frame(g[:1])),
    "no columns": lambda g: _parquet(pl.DataFrame()),
    "dates as target": lambda g: _parquet(_frame(g).with_columns(y=pl.lit(date(1973, 5, 19)))),
    "lists as target": lambda g: _parquet(_frame(g).with_columns(y=pl.lit([7.3519422]))),
    "nulls as target": lambda g: _parquet(_frame(g).with_columns(y=pl.lit(None))),
    "one name": _twice,
    "cut off": lambda g: _parquet(_frame(g))[:-9],
    "its end only": lambda g: _parquet(_frame(g))[-200:],
    "damaged": _flipped,
    "CSV": _text,
    "empty": lambda g: b"",
}
PATHS = (
    "missing.csv",
    "folder",
    "folder.csv",
    "plain.txt",
    "plain",
    "loop.csv",
    "nowhere.csv",
    "n" * 300 + ".csv",
    "",
)
TABLES = often(
    *(f"csv: {kind}" for kind in GOOD_CSV), *(f"parquet: {kind}" for kind in GOOD_PARQUET)
)
WRONG_TABLES = st.one_of(
    st.sampled_from([f"csv: {kind}" for kind in BAD_CSV]),
    st.sampled_from([f"parquet: {kind}" for kind in BAD_PARQUET]),
    st.sampled_from([f"path: {name}" for name in PATHS]),
)
_DEFAULT = "[default]\nbounds = [-10, 10]\n"
GOOD_BOUNDS = {
    "default": _DEFAULT,
    "wide": "[default]\nbounds = [-1e3, 1e3]\n",
    "columns": "[columns]\n"
    + "".join(f'"{c}" = [-10, 10]\n' for c in ("c0", "c1", "c2", "y"))
    + _DEFAULT,
}
BAD_BOUNDS: dict[str, bytes | None] = {
    **{
        f"a pair {v!r}": f"[default]\nbounds = {v}\n".encode()
        for v in (
            "[1, -1]",
            "[1, 1]",
            "[]",
            "[1]",
            "[1, 2, 3]",
            "3",
            '"a"',
            '["a", "b"]',
            "[nan, 1]",
        )
    },
    **{
        f"a pair {v!r}": f"[default]\nbounds = {v}\n".encode()
        for v in ("[0, inf]", "[-1e308, 1e308]", "[0, 5e-324]", "[true, false]", "[[0], [1]]", "{}")
    },
    "huge": f"[default]\nbounds = [0, {10**400}]\n".encode(),
    "very huge": f"[default]\nbounds = [0, {'9' * 5000}]\n".encode(),
    "dates": b"[default]\nbounds = [1979-05-27, 1980-05-27]\n",
    "a column missing": b'[columns]\n"c0" = [0, 1]\n',
    "another column": _DEFAULT.encode() + b'[columns]\n"c99" = [0, 1]\n',
    "a column twice": b'[columns]\n"c0" = [0, 1]\n"c0" = [0, 1]\n',
    "a column reversed": _DEFAULT.encode() + b'[columns]\n"c0" = [5, -5]\n',
    "a column open": _DEFAULT.encode() + b'[columns]\n"c0" = []\n',
    "another section": _DEFAULT.encode() + b"[more]\na = 1\n",
    "another line": _DEFAULT.encode() + b"more = 1\n",
    "columns as number": b"columns = 3\n",
    "default as number": b"default = 3\n",
    "nested": b"[columns.c0]\na = 1\n" + _DEFAULT.encode(),
    "broken": b"[default\nbounds = [0, 1",
    "deep": b"a = " + b"[" * 3000,
    "Latin letters": "[columns]\n'é' = [0, 1]\n".encode("latin-1"),
    "nul": b"\x00",
    "empty": b"",
    "a folder": None,
}
MODEL = LinearModel("y", ("c0", "c1"), (0.5, -2.0), 0.25)
LABELLED = LinearModel("y", ("c0",), (0.5,), 0.25, ("no", "yes"), True)


def _edited(**parts: Any) -> bytes:
    return json.dumps(json.loads(write_model(MODEL)) | parts).encode()


GOOD_MODELS = {"numbers": write_model(MODEL).encode(), "labels": write_model(LABELLED).encode()}
BAD_MODELS: dict[str, bytes | None] = {
    "edited": _edited(intercept=3.0),
    "of another version": _edited(version=99),
    "of version 0": _edited(version=True),
    "cut off": write_model(MODEL).encode()[:100],
    "a list": b"[]",
    "not a number": b'{"format": "dpsubset model", "version": NaN}',
    "deep": b"[" * 100_000,
    "a number of 5000 digits": b'{"version": ' + b"9" * 5000 + b"}",
    "Latin letters": b"\xe9",
    "empty": b"",
    "more columns": write_model(LinearModel("y", ("c99",), (1.0,), 0.0)).encode(),
    "no columns": write_model(LinearModel("y", (), (), 0.0)).encode(),
    "huge": write_model(LinearModel("y", ("c0", "c1"), (1e308, 1e308), 1e308)).encode(),
    "uneven": write_model(LinearModel("y", ("c0", "c1"), (1.0,), 0.0)).encode(),
    "a folder": None,
}

# Options ----------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *(
            "",
            " ",
            "abc",
            "-1",
            "0",
            "1.5",
            "nan",
            "inf",
            "-inf",
            "1e400",
            "1e-400",
            "1e308",
            "ü名",
        ),
        *(
            "a,b",
            ",",
            '"',
            "c0",
            "y",
            "c0,c0",
            "c1,c0",
            "9" * 20,
            "9" * 400,
            "0x10",
            "1_0",
            "--json",
        ),
        *("true", "\n", "-", "--", "x" * 3000, "a\x1b[2J", "[bold]", "squared", "huber:0", "all"),
    ]
)
FEW = st.sampled_from(["", "abc", "-1", "0", "1.5", "nan"])  # where much would take long
MECHANISMS = ("permute-and-flip", "exponential", "top-r", "mistakes", "all", "markov-chain")
BASELINES = ("sample-aggregate", "lasso-stability")
NUMBERS = often("absolute", "squared", "huber:0.2", seldom=("quantile:0.9",))
NUMBER = often("1", "0.5", seldom=("1e-20", "1e20", "1e6"))
SHARED = {
    "table": TABLES,
    "bounds": often(*GOOD_BOUNDS),
    "target": often("y"),
    "size": often("1", "2", "auto"),
    "max-size": often(None, "2"),
    "false-columns": often(None, seldom=("1", "1e-20")),
    "epsilon": often("1", "20", seldom=("1e-20", "1e20")),
    "mechanism": often(*MECHANISMS, seldom=BASELINES),
    "neighbours": st.sampled_from(["replace-one", "add-remove"]),
    "loss": NUMBERS,
    "ridge": often("10", "0", seldom=("1e-20", "1e20")),
    "clip": often(None, "0.5", seldom=("1e-6",)),
    "radius": NUMBER,
    "features": often(None, seldom=("c0,c1", "c2,c0")),
    "always-include": often(None, seldom=("c0",)),
    "max-seconds": often("0.5"),
    "seed": often(None, "1"),
    "classes": often(None),
    "ledger": often(None, seldom=("ledger: with room",)),
    "output": often("out.json"),
    "flag": often("--intercept", "--no-intercept", seldom=("--quiet", "--no-such", "extra")),
}
OPTIONS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "select": SHARED
    | {
        "count": often(None),
        "trials": often(None),
        "accounting": often(None),
        "sensitivity": often(None, "largest", "paper"),
        "output": often(None, "out.json"),
        "flag": often("--intercept", "--json", "--quiet", "--timings", "--no-intercept"),
    },
    "fit": SHARED
    | {
        "mechanism": often(*(m for m in MECHANISMS if m != "all"), seldom=("all", *BASELINES)),
        "selection-share": often(None, seldom=("0.9", "1e-20")),
        "coefficients": often(None, seldom=("noisy-statistics",)),
        "coefficient-loss": often(None, seldom=("squared", "logistic")),
        "coefficient-ridge": often(None, seldom=("1", "1e20")),
        "coefficient-radius": often(None, seldom=("1", "1e20", "1e-20")),
        "delta": often(None, seldom=("1e-6", "0.2")),
    },
    "predict": {
        "table": TABLES,
        "model": st.sampled_from(sorted(GOOD_MODELS)),
        "output": often(None, "out.csv"),
        "flag": often(None),
    },
    "bounds": {
        "table": TABLES,
        "target": often(None, "y"),
        "output": often(None, "out.toml"),
        "flag": often(None, "--force"),
    },
    "plan": {
        "features": often("3", "6"),
        "size": often("1", "2"),
        "epsilon": often("1", "20", seldom=("1e-20", "1e20")),
        "share": often(None, "0.5"),
        "snr": often(None, seldom=("1e-20", "1e20")),
        "rho": often(None, "0.9", "-0.5"),
        "loss": NUMBERS,
        "mechanism": often(*(m for m in MECHANISMS if m != "all"), seldom=BASELINES),
        "neighbours": st.sampled_from(["replace-one", "add-remove"]),
        "clip": often(None, "0.5", seldom=("1e-6",)),
        "ridge": often(None, "0", seldom=("1e-20", "1e20")),
        "radius": NUMBER,
        "tables": often("1"),
        "draws": often("1"),
        "most": often("128"),
        "output": often(None),
    },
    "ledger": {
        "file": st.sampled_from(["ledger: missing", "ledger: with room"]),
        "epsilon": often(None, "3", seldom=("1e20",)),
        "delta": often(None, seldom=("0", "1", "1e-6")),
        "neighbours": often(None, seldom=("replace-one", "add-remove")),
        "flag": often(None, "--json"),
    },
    "audit": {
        "mechanism": often("exponential", "permute-and-flip", seldom=("top-r", "lasso-stability")),
        "loss": often("squared", "absolute", seldom=("hinge",)),
        "neighbours": st.sampled_from(["replace-one", "add-remove"]),
        "epsilon": often("1"),
        "pairs": often("1"),
        "seed": often(None, "1"),
    },
}
WRONG: dict[str, st.SearchStrategy[Any]] = {
    "table": WRONG_TABLES,
    "bounds": st.sampled_from([*BAD_BOUNDS, None]),
    "model": st.sampled_from(sorted(BAD_MODELS)),
    "output": st.sampled_from(
        ["folder", "no/such/folder/f", "{table}", "/dev/null", "n" * 300, "", "."]
    ),
    "loss": st.sampled_from(["hinge", "logistic", "huber:nan", "quantile:1", "squared:1", ":"])
    | WORDS,
    "classes": st.sampled_from(["no,yes", "SECRETxyza,b", "1,1.0", "1,0"]) | WORDS,
    "flag": st.sampled_from(["--help", "--no-such", "extra", "--version", "--json"]),
    **dict.fromkeys(("draws", "features"), FEW | st.just("9" * 20)),
    **dict.fromkeys(("tables", "most", "pairs"), FEW),
    **dict.fromkeys(("ledger", "file"), st.sampled_from(sorted(LEDGERS))),
}


@st.composite
def requests(draw: Any, command: str) -> dict[str, Any]:
    """Draw a command with its files and options, up to two of them spoiled."""
    valid = OPTIONS[command]
    asked = {"command": command, "n": draw(often(17, 19, 23, 29, seldom=(0, 1, 2)))}
    asked |= {
        "p": draw(often(3, 4, 6, seldom=(1, 2))),
        "seed of the table": draw(st.integers(0, 999)),
    }
    asked["labels"] = draw(often(False, seldom=(True,))) or (
        "bounds" in valid and draw(st.booleans())
    )
    asked |= {name: draw(strategy) for name, strategy in valid.items()}
    if asked["labels"] and "classes" in valid:
        asked |= {"loss": draw(st.sampled_from(["hinge", "logistic", "huber_hinge"]))}
        asked["classes"] = f"{SECRET}a,{SECRET}b" if command == "fit" else draw(st.none())
    count = draw(st.sampled_from([0, 0, 1, 1, 2]))
    files = [name for name in ("table", "bounds", "model", "file") if name in valid]
    name = st.sampled_from([*sorted(valid), *files * 5])
    names = st.lists(name, min_size=count, max_size=count, unique=True)
    return asked | {name: draw(_wrong(command, name)) for name in draw(names)}


def _wrong(command: str, name: str) -> st.SearchStrategy[Any]:
    return FEW if command == "audit" else WRONG.get(name, WORDS)  # all audits would take long


# The property -----------------------------------------------------------------------------------


def _write(path: Path, content: bytes | str | None) -> Path:
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def _table(folder: Path, asked: dict[str, Any]) -> Path:
    kind, _, name = asked["table"].partition(": ")
    if kind == "path":
        (folder / "folder").mkdir()
        (folder / "folder.csv").mkdir()
        (folder / "loop.csv").symlink_to("loop.csv")
        (folder / "nowhere.csv").symlink_to("gone.csv")
        for plain in ("plain", "plain.txt"):
            (folder / plain).write_text(f"c0,y\n{SECRET},7.3519422\n")
        return folder / name if name else Path("")
    grid = _grid(asked["n"], asked["p"], asked["seed of the table"], asked["labels"])
    made = {"csv": GOOD_CSV | BAD_CSV, "parquet": GOOD_PARQUET | BAD_PARQUET}[kind]
    return _write(folder / f"t.{kind}", made[name](grid))


_FIRST = ("model", "file", "table")


def _arguments(folder: Path, asked: dict[str, Any]) -> list[str]:
    """Write the files and return the command's words."""
    words = [asked["command"]]
    if "model" in asked:
        words.append(str(_write(folder / "m.json", (GOOD_MODELS | BAD_MODELS)[asked["model"]])))
    if "file" in asked:
        words.append(str(placed(str(folder), asked["file"])))
    table = _table(folder, asked) if "table" in asked else None
    if table is not None:
        words.append(str(table))
    for name, value in asked.items():
        if name not in OPTIONS[asked["command"]] or name in _FIRST or value is None:
            continue
        if name == "flag":
            words.append(value)
        elif name == "bounds":
            content = (GOOD_BOUNDS | BAD_BOUNDS)[value]
            words += ["--bounds", str(_write(folder / "b.toml", content))]
        elif name == "ledger":
            words += ["--ledger", str(placed(str(folder), value))]
        elif name == "output":
            place = str(table) if value == "{table}" else str(folder / value)
            words += ["--output", place]
        else:
            words += [f"--{name}", value]
    return words


def ends_well(asked: dict[str, Any]) -> None:
    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="fuzz") as name:
        words = _arguments(Path(name), asked)
        with patience(), overhearing(said):
            result = CliRunner().invoke(app, words)
        kept = [Path(name) / "out.json"] if asked["command"] == "select" else []
        kept += [Path(name) / "budget.db"] if asked.get("ledger") == "ledger: with room" else []
        said += [file.read_bytes().decode("latin-1") for file in kept if file.is_file()]
    _check_end(result)
    shown = result.stdout
    if result.exit_code == 0 and asked["command"] == "fit":
        shown = re.sub(r"[\d.]+", "#", shown)  # what a model says in numbers was released
    if result.exit_code == 0 and asked["command"] == "predict":
        shown = ""  # predictions tell of their rows
    public = f"{SECRET}a,{SECRET}b"  # as the user typed it
    for text in [*said, shown]:
        check(text.replace(public, ""))
    check(result.stderr.replace(public, ""), rows=asked["command"] not in ("plan", "audit"))


def _check_end(result: Result) -> None:
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2)
    assert "Traceback" not in result.output


SHARES = {"select": 0.14, "fit": 0.1, "predict": 0.05, "bounds": 0.025, "plan": 0.02}
SHARES |= {"ledger": 0.02, "audit": 0.005}
PROPERTIES: Properties = {
    command: (share, ends_well, (requests(command),)) for command, share in SHARES.items()
}


@pytest.mark.grid(every=7)
@pytest.mark.parametrize("command", PROPERTIES)
def test_a_command_ends_well_and_tells_nothing(command: str) -> None:
    share, law, drawn = PROPERTIES[command]
    examples(share)(given(*drawn)(law))()


# Twins: the same property on broken code --------------------------------------------------------

PLACES = {
    "select": "dpsubset.data.files.frame_matrix",
    "fit": "dpsubset.cli.asked.read_table",
    "predict": "dpsubset.data.files.frame_matrix",
    "bounds": "dpsubset.data.schema_template",
    "plan": "dpsubset.planning.rows_for",
    "ledger": "dpsubset.cli.ledger._print_ledger",
    "audit": "dpsubset.audit.campaign.campaign",
}


# The command shows no error that came before another: what the API's chained break is about.
_BREAKS = [how for how in BREAKS if "before" not in how]
_BASIC = _BREAKS[:2]


@pytest.mark.grid(every=3)
@pytest.mark.parametrize(
    ("command", "how"), [(c, how) for c in PLACES for how in (_BREAKS if c == "select" else _BASIC)]
)
def test_what_is_broken_is_caught(command: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, act = BREAKS[how]
    break_at(monkeypatch, PLACES[command], act)
    caught(kind, command, PROPERTIES)


def test_an_ending_that_is_none_of_ours_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave() -> None:
        raise SystemExit(3)

    break_at(monkeypatch, PLACES["select"], leave)
    caught(AssertionError, "select", PROPERTIES, text="assert 3 in")
