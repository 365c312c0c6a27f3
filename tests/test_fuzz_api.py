"""Nonsense against the Python API: it answers, or refuses in words of ours that hold no data.

Every example is mostly valid, with up to two parts spoiled, so that code deep inside is reached.
All numbers in tables and targets begin with the same digits and all texts in them with the same
word (`cells`, `SECRET`), so that one look at a message tells whether it quotes an entry.

Hypothesis is deterministic here: derandomised, without a database or a deadline. With the
environment variable DPSUBSET_FUZZ=10000 the seeds are random, and this file and
test_fuzz_command.py generate at least so many inputs together.
"""

from __future__ import annotations

import math
import os
import re
import signal
import sqlite3
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from carried import carried
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning, NotFittedError

import dpsubset
from dpsubset import Guarantee, Ledger, Problem, search
from dpsubset.coefficients import NoisyStatistics, ObjectivePerturbation
from dpsubset.errors import DpsubsetError, InputError
from dpsubset.limits import Limits
from dpsubset.losses import as_loss
from dpsubset.mechanisms import Mechanism
from dpsubset.privacy import compose

WANTED = os.environ.get("DPSUBSET_FUZZ")
PATIENCE = 60.0  # seconds, of the long run: what takes longer hangs
SECRET = "SECRETxyz"
ROWS = (0, 1, 2, 17, 19, 23, 29)
_MARKS = re.compile(r"735194|secret|1973-05-19", re.IGNORECASE)
_ROWS = re.compile(r"(?<![\w.+-])(?:17|19|23|29)(?![\w.])")  # no parameter is one of these
_LENGTHS = re.compile(r"[<>|=][US]\d\d")  # numpy's name of a type tells how long the texts are


def examples(share: float) -> settings:
    """So many examples of all that are wanted of both files; shrunk in the long run only."""
    return settings(
        max_examples=math.ceil(share * int(WANTED or 400)),
        derandomize=WANTED is None,
        database=None,
        deadline=None,
        print_blob=True,
        phases=(Phase.generate, Phase.shrink) if WANTED else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


# What is said, and whether it tells -------------------------------------------------------------


class Leak(AssertionError):
    """A message quotes the table."""


class Hang(BaseException):
    """An example takes too long; nothing that catches errors catches this."""


def check(text: str, *, rows: bool = False) -> None:
    """Fail if a text holds an entry of the table, or its number of rows."""
    if _MARKS.search(text.replace(".", "").replace("_", "")) or _MARKS.search(text):
        raise Leak(text[:2000])
    if rows and _ROWS.search(text):
        raise Leak(f"the number of rows: {text[:2000]}")
    if _LENGTHS.search(text):
        raise Leak(f"the length of an entry: {text[:2000]}")


def shown(error: BaseException) -> str:
    """Return the words of an error, and of all that it carries along, hidden or not."""
    return "\n".join([*traceback.format_exception_only(error), *carried(error).values()])


@contextmanager
def overhearing(said: list[str]) -> Iterator[None]:
    """Collect what is printed, by libraries that are not Python's too, and what is warned of."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as file, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        stream = open(file.fileno(), "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            with stream, redirect_stdout(stream), redirect_stderr(stream):
                yield
        finally:
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
            said.extend(f"{warning.category.__name__}: {warning.message}" for warning in warned)
            strange = [w for w in warned if not issubclass(w.category, _WARNED)]
    if strange:
        # Numpy's warnings depend on the data, whatever they say.
        raise Leak(f"a warning: {strange[0].category.__name__}: {strange[0].message}")


_WARNED = (UserWarning, DataConversionWarning)


def attempt(call: Callable[[], Any], *allowed: type[Exception]) -> Any:
    """Call; None for a refusal that is ours. Anything else that is raised is a failure."""
    said: list[str] = []
    result = None
    with patience(), overhearing(said):
        try:
            result = call()
        except (DpsubsetError, *allowed) as error:
            said.append(shown(error))
            if isinstance(error, DpsubsetError) and carried(error):
                raise Leak(f"{shown(error)} is not alone") from None
    for text in said:
        check(text, rows=True)
    return result


@contextmanager
def patience() -> Iterator[None]:
    """End an example that hangs; in the long run only, for no test depends on a clock."""
    if WANTED is None:
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise Hang(f"more than {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


# Tables and targets -----------------------------------------------------------------------------


def cells(rng: np.random.Generator, *shape: int) -> Any:
    """Return numbers of both signs and several sizes, whose digits all begin with 73519422."""
    count = math.prod(shape)
    tails, powers = rng.integers(0, 10**6, count), rng.integers(-3, 3, count)
    signs = rng.choice(["", "-"], count)
    texts = [f"{s}7.3519422{t:06d}e{k}" for s, t, k in zip(signs, tails, powers, strict=True)]
    return np.array([float(text) for text in texts]).reshape(shape)


def _spoil(table: Any, value: Any) -> Any:
    """Put one value among the others."""
    table = table.astype(object) if not isinstance(value, float) else table.copy()
    if table.size:
        table.flat[-1] = value
    return table


def _masked(table: Any, hidden: bool) -> Any:
    return np.ma.masked_array(table, mask=np.full(table.shape, hidden))


def _whole(table: Any) -> Any:
    return np.sign(table).astype(np.int64) * 735194221


def _frame(table: Any, names: Any = None) -> Any:
    width = table.shape[-1]
    return pd.DataFrame(table, columns=names or [f"c{j}" for j in range(width)])


def _polars(table: Any) -> Any:
    return pl.DataFrame({f"c{j}": table[:, j] for j in range(table.shape[1])})


def _with(frame: Any, column: Any) -> Any:
    """Put a strange column into a frame with the marked ones."""
    return frame.with_columns(c0=column) if len(frame) else frame


Maker = Callable[[Any], Any]
GOOD_TABLES: dict[str, Maker] = {
    "floats": lambda t: t,
    "column order": np.asfortranarray,
    "float32": lambda t: t.astype(np.float32),
    "float16": lambda t: t.astype(np.float16),
    "long": lambda t: t.astype(np.longdouble),
    "whole": _whole,
    "int8": lambda t: np.sign(t).astype(np.int8),
    "booleans": lambda t: t > 0,
    "big end first": lambda t: t.astype(">f8"),
    "backwards": lambda t: t[::-1, ::-1],
    "lists": lambda t: t.tolist(),
    "objects": lambda t: t.astype(object),
    "decimals": lambda t: np.array([[Decimal(repr(v)) for v in row] for row in t.tolist()]),
    "matrix": lambda t: t.view(np.matrix),
    "nothing masked": lambda t: _masked(t, False),
    "pandas": _frame,
    "pandas, mixed": lambda t: _frame(t).assign(c0=t[:, 0] > 0),
    "pandas, nullable": lambda t: _frame(t).astype("Float64"),
    "pandas, numbers as names": lambda t: pd.DataFrame(t),
    "pandas, sparse": lambda t: _frame(t).astype(pd.SparseDtype(float)),
    "pandas, strange names": lambda t: _frame(
        t, ["ä\n", "", " ", "\x00", "c'4\"", "名", "a,b"][: len(t.T)]
    ),
    "polars": _polars,
    "polars, float32": lambda t: _polars(t.astype(np.float32)),
    "polars, whole": lambda t: _polars(_whole(t)),
    "csr": sp.csr_matrix,
    "csc": sp.csc_array,
    "coo": lambda t: sp.coo_array(t * (t > 0)),
    "csr, whole": lambda t: sp.csr_array(_whole(t)),
}
BAD_TABLES: dict[str, Maker] = {
    "nan": lambda t: _spoil(t, math.nan),
    "infinite": lambda t: _spoil(t, -math.inf),
    "huge": lambda t: _spoil(t, -1e308),
    "tiny": lambda t: _spoil(t, 5e-324),
    "None": lambda t: _spoil(t, None),
    "text among numbers": lambda t: _spoil(t, SECRET),
    "a number of 400 digits": lambda t: _spoil(t, 735194 * 10**400),
    "long and huge": lambda t: t.astype(np.longdouble) * np.longdouble("1e4000"),
    "complex": lambda t: t + 1j,
    "complex objects": lambda t: _spoil(t, 7.3519422j),
    "fractions": lambda t: _spoil(t, Fraction(7351942211, 3)),
    "text": lambda t: np.array([[f"{SECRET}{v}" for v in row] for row in t]),
    "numbers as text": lambda t: t.astype(str),
    "bytes": lambda t: t.astype("S"),
    "dates": lambda t: np.full(t.shape, np.datetime64("1973-05-19")),
    "structured": lambda t: np.zeros(len(t), dtype=[("a", float), ("b", int)]),
    "ragged": lambda t: [*t.tolist(), [7.3519422]],
    "ragged deeper": lambda t: [[[7.3519422], 7.3519422], *t.tolist()],
    "lists with text": lambda t: [*t.tolist(), [SECRET] * t.shape[1]],
    "one dimension": lambda t: t.ravel(),
    "three dimensions": lambda t: t[:, :, None],
    "no columns": lambda t: t[:, :0],
    "no rows": lambda t: t[:0],
    "a scalar": lambda t: 7.3519422,
    "a text": lambda t: SECRET,
    "a mapping": lambda t: {"c0": t.tolist()},
    "None itself": lambda t: None,
    "a generator": lambda t: (row for row in t),
    "a set": lambda t: set(t.ravel().tolist()),
    "masked": lambda t: _masked(t, True),
    "turned": lambda t: t.T,
    "pandas, one name": lambda t: _frame(t, ["c"] * t.shape[1]),
    "pandas, text": lambda t: _frame(t).assign(c0=SECRET),
    "pandas, text objects": lambda t: _frame(t).assign(
        c0=pd.Series([SECRET] * len(t), dtype=object)
    ),
    "pandas, categories": lambda t: _frame(t).assign(c0=pd.Categorical([SECRET] * len(t))),
    "pandas, dates": lambda t: _frame(t).assign(c0=datetime(1973, 5, 19)),
    "pandas, missing": lambda t: _frame(t).astype("Float64").assign(c0=pd.NA),
    "pandas, complex": lambda t: _frame(t + 1j),
    "pandas, lists": lambda t: _frame(t).assign(c0=[[7.3519422]] * len(t)),
    "pandas, two levels": lambda t: pd.DataFrame(
        t, columns=pd.MultiIndex.from_tuples([("a", str(j)) for j in range(t.shape[1])])
    ),
    "a series": lambda t: pd.Series(t.ravel()),
    "arrow": lambda t: pa.table({f"c{j}": t[:, j] for j in range(t.shape[1])}),
    "polars, text": lambda t: _with(_polars(t), pl.lit(SECRET)),
    "polars, numbers as text": lambda t: _with(_polars(t), pl.col("c0").cast(pl.String)),
    "polars, nulls": lambda t: _with(_polars(t), pl.lit(None)),
    "polars, lists": lambda t: _with(_polars(t), pl.lit([7.3519422])),
    "polars, dates": lambda t: _with(_polars(t), pl.lit(datetime(1973, 5, 19))),
    "polars, categories": lambda t: _with(_polars(t), pl.lit(SECRET).cast(pl.Categorical)),
    "polars, decimals": lambda t: _with(_polars(t), pl.lit(Decimal("7.3519422"))),
    "polars, wide whole": lambda t: _with(_polars(t), pl.lit(735194, pl.Int128) ** 6),
    "polars, objects": lambda t: pl.DataFrame(
        {"c0": pl.Series([object()] * len(t), dtype=pl.Object)}
    ),
    "polars, lazy": lambda t: _polars(t).lazy(),
    "sparse, nan": lambda t: sp.csr_array(_spoil(t, math.nan)),
    "sparse, complex": lambda t: sp.csr_array(t + 1j),
    "sparse, objects": lambda t: sp.coo_matrix(t) * np.longdouble(1),
    "sparse, one dimension": lambda t: sp.coo_array(t.ravel()),
    "sparse, doubled": lambda t: sp.coo_matrix(
        (np.full(2, 7.3519422), ([0, 0], [0, 0])), shape=(max(len(t), 1), t.shape[1])
    ),
    "sparse, no columns": lambda t: sp.csc_array((len(t), 0)),
    "sparse, lists": lambda t: sp.lil_matrix(t),
    "sparse, keys": lambda t: sp.dok_array(t),
}
GOOD_TARGETS: dict[str, Maker] = {
    "floats": lambda v: v,
    "list": lambda v: v.tolist(),
    "whole": _whole,
    "booleans": lambda v: v > 0,
    "objects": lambda v: v.astype(object),
    "one column": lambda v: v[:, None],
    "pandas": pd.Series,
    "polars": pl.Series,
    "float32": lambda v: v.astype(np.float32),
}
GOOD_LABELS: dict[str, Maker] = {
    "signs": lambda v: np.where(v > 0, 1, -1),
    "truth values": lambda v: v > 0,
    "marked numbers": lambda v: np.where(v > 0, 7.3519422, -735.19422),
    "marked texts": lambda v: np.where(v > 0, SECRET + "a", SECRET + "b"),
    "list of texts": lambda v: [SECRET + ("a" if x > 0 else "b") for x in v],
    "pandas": lambda v: pd.Series(np.where(v > 0, SECRET + "a", SECRET + "b"), dtype="str"),
    "categories": lambda v: pd.Series(
        pd.Categorical.from_codes((v > 0).astype(int), ["SECRETa", "b"])
    ),
    "polars": lambda v: pl.Series(np.where(v > 0, SECRET + "a", SECRET + "b").tolist()),
}
BAD_TARGETS: dict[str, Maker] = {
    "nan": lambda v: _spoil(v, math.nan),
    "infinite": lambda v: _spoil(v, math.inf),
    "huge": lambda v: _spoil(v, 1e308),
    "None": lambda v: _spoil(v, None),
    "text among numbers": lambda v: _spoil(v, SECRET),
    "text in a list": lambda v: [*v.tolist()[1:], SECRET],
    "a number of 400 digits": lambda v: _spoil(v, 735194 * 10**400),
    "long and huge": lambda v: v.astype(np.longdouble) * np.longdouble("1e4000"),
    "complex": lambda v: v + 1j,
    "complex objects": lambda v: _spoil(v, 7.3519422j),
    "text": lambda v: [SECRET + str(x) for x in v],
    "numbers as text": lambda v: v.astype(str),
    "bytes": lambda v: v.astype("S"),
    "dates": lambda v: np.full(v.shape, np.datetime64("1973-05-19")),
    "not a time": lambda v: pd.Series([pd.NaT] * len(v)),
    "ragged": lambda v: [*v.tolist(), [7.3519422, 7.3519422]],
    "too short": lambda v: v[1:],
    "too long": lambda v: np.append(v, v),
    "two columns": lambda v: np.column_stack([v, v]),
    "three dimensions": lambda v: v[:, None, None],
    "a scalar": lambda v: 7.3519422,
    "a text": lambda v: SECRET,
    "None itself": lambda v: None,
    "a mapping": lambda v: {"y": v},
    "a generator": lambda v: (x for x in v),
    "a set": lambda v: set(v.tolist()),
    "masked": lambda v: _masked(v, True),
    "sparse": lambda v: sp.csr_array(v[:, None]),
    "a frame": lambda v: _frame(v[:, None]),
    "polars frame": lambda v: _polars(v[:, None]),
    "pandas, missing": lambda v: pd.Series([pd.NA] * len(v), dtype="Float64"),
    "pandas, missing text": lambda v: pd.Series([SECRET, None] * len(v), dtype="string")[: len(v)],
    "polars, nulls": lambda v: pl.Series([None, *v.tolist()])[: len(v)],
    "polars, lists": lambda v: pl.Series([[7.3519422]] * len(v)),
    "one class": lambda v: np.full(v.shape, SECRET),
    "three classes": lambda v: [f"{SECRET}{i % 3}" for i in range(len(v))],
    "numbers and text": lambda v: [(SECRET, 7.3519422)[i % 2] for i in range(len(v))],
    "numbers and truth": lambda v: [(True, 7.3519422)[i % 2] for i in range(len(v))],
    "labels and nan": lambda v: [(SECRET, math.nan)[i % 2] for i in range(len(v))],
    "nul texts": lambda v: [(SECRET, SECRET + "\x00")[i % 2] for i in range(len(v))],
    "tuples": lambda v: [(SECRET, i % 2) for i in range(len(v))],
}


def table(kind: str, n: int, p: int, seed: int) -> Any:
    return (GOOD_TABLES | BAD_TABLES)[kind](cells(np.random.default_rng(seed), n, p))


def target(kind: str, n: int, seed: int) -> Any:
    group, name = kind.split(": ")
    made = {"numbers": GOOD_TARGETS, "labels": GOOD_LABELS, "bad": BAD_TARGETS}[group]
    return made[name](cells(np.random.default_rng(seed + 1), n))


# Ledgers ----------------------------------------------------------------------------------------

PROMISE = Guarantee("a mechanism", 1.0, "replace-one", 1.0)


def _changed(statement: str) -> Callable[[Path], None]:
    """Change a sound ledger behind its back."""

    def change(path: Path) -> None:
        _used(path)
        with closing(sqlite3.connect(path)) as connection, connection:
            for (trigger,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f"DROP TRIGGER {trigger}")
            connection.execute(statement)

    return change


def _used(path: Path) -> None:
    with Ledger(path, epsilon=1e20, delta=0.5).charge(PROMISE, {"a": 1}) as record:
        record({"support": [1]})


def _damaged(path: Path) -> None:
    _used(path)
    raw = bytearray(path.read_bytes())
    for place in range(100, len(raw), 61):
        raw[place] ^= 0xA5
    path.write_bytes(raw)


LEDGERS: dict[str, Callable[[Path], Any]] = {
    "ledger: with room": _used,
    "ledger: nearly spent": lambda path: Ledger(path, epsilon=1e-20),
    "ledger: for add-remove": lambda path: Ledger(path, epsilon=1e20, neighbours="add-remove"),
    "ledger: missing": lambda path: None,
    "ledger: a folder": lambda path: path.mkdir(),
    "ledger: text": lambda path: path.write_text(SECRET),
    "ledger: empty": lambda path: path.write_bytes(b""),
    "ledger: another database": lambda path: sqlite3.connect(path).close(),
    "ledger: damaged": _damaged,
    "ledger: cut off": lambda path: (_used(path), path.write_bytes(path.read_bytes()[:5000])),
    "ledger: without a budget": _changed("DELETE FROM budget"),
    "ledger: a budget of text": _changed("UPDATE budget SET epsilon = 'much'"),
    "ledger: an entry of text": _changed("UPDATE entries SET guarantee = 'much', epsilon = 'x'"),
    "ledger: an entry without": _changed("UPDATE entries SET guarantee = '{}', asked = '[]'"),
    "ledger: tables gone": _changed("DROP TABLE entries"),
}


def placed(folder: str, kind: Any) -> Any:
    """Make a ledger of that kind, and return its path; anything else stays as it is."""
    if not (isinstance(kind, str) and kind in LEDGERS):
        return kind
    path = Path(folder) / "budget.db"
    LEDGERS[kind](path)
    return path


# Parameters -------------------------------------------------------------------------------------

STRANGE = [
    *(
        10**18,
        -(10**18),
        10**400,
        1e308,
        5e-324,
        -0.0,
        0.5,
        2j,
        "",
        b"x",
        "nan",
        math.nan,
        math.inf,
    ),
    *((), {}, {"a": 1}, {1, 2}, range(3), slice(2), int, len, Ellipsis, NotImplemented),
    *(Decimal("0.5"), Decimal("NaN"), Fraction(1, 2), Fraction(10**400), pd.NA, pd.NaT),
    *(np.float32(0.5), np.longdouble("1e4000"), np.int8(2), np.uint64(2), np.bool_(True)),
    *(np.array(0.5), np.array([0.5, 0.5]), np.array([]), np.array(["a", "b"])),
    *(np.str_("squared"), np.datetime64("NaT"), pd.Series([0.5, 1]), pl.Series([1, 2])),
    *([[0], [1]], [None], [True], ["c0"], [0.5], (1, 0), (0, 0), (math.nan, 1), ("a", "b")),
    *((-1, 1), (-1e308, 1e308), (0, 5e-324), (1, 2, 3), {"c0": (0, 1)}, {"c0": (1, 0)}),
    *(Limits(nodes=1), Limits(seconds=1e-9), np.random.default_rng(0), as_loss("hinge")),
    *(None, True, -1, 0, 1, 7, 1.5, "abc", "ü\x00\n名", [], [1, 1], [-1], object()),
]
NONSENSE = st.one_of(
    st.sampled_from(STRANGE),
    st.sampled_from(STRANGE),
    st.integers(-2, 7) | st.floats() | st.text("abc:ü\x00\n名 ", max_size=4),
    st.lists(st.integers(-2, 7), max_size=3) | st.builds(iter, st.just([0, 1])),
)


def often(*usual: Any, seldom: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    """Take a usual value nine times of ten."""
    return st.sampled_from([*usual] * math.ceil(9 * max(1, len(seldom)) / len(usual)) + [*seldom])


NUMBER = often(0.5, 1.0, 10.0, seldom=(1e-20, 1e-6, 1e3, 1e6, 1e20, np.float32(2), Fraction(1, 2)))
EPSILON = often(0.5, 1.0, 20.0, seldom=(1e-20, 1e-3, 1e3, 1e20))
RIDGE = often(0.0, 1.0, 10.0, seldom=(1e-20, 1e6, 1e20))
NUMBERS = ("squared", "absolute", "huber", "quantile:0.9", "huber:0.1")
LABELS = ("hinge", "logistic", "huber_hinge")
LOSS_TEXTS = (
    *NUMBERS,
    *LABELS,
    "huber:1e400",
    "huber:nan",
    "quantile:1",
    "squared:1",
    "huber:",
    ":",
)
LIMITS = st.just(Limits(nodes=2000, seconds=0.5))
NEIGHBOURS = st.sampled_from(["replace-one", "add-remove"])
SEED = st.none() | st.integers(0, 3)
WRONG: dict[str, st.SearchStrategy[Any]] = {
    "X": st.sampled_from(sorted(BAD_TABLES)),
    "y": st.sampled_from([f"bad: {name}" for name in BAD_TARGETS]),
    "loss": st.sampled_from(LOSS_TEXTS) | NONSENSE,
    "coefficient_loss": st.sampled_from(LOSS_TEXTS) | NONSENSE,
    "ledger": st.sampled_from(sorted(LEDGERS)) | NONSENSE,
    "file": st.sampled_from(sorted(LEDGERS)),
}


def spoiled(valid: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw all parameters, and for up to two of them something else."""

    def again(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
        wrong = {name: WRONG.get(name, NONSENSE) for name in names}
        return st.fixed_dictionaries(valid | wrong)

    names = st.sampled_from([*sorted(valid), *(["X", "y"] * 5 if "X" in valid else [])])
    counts = st.sampled_from([0, 0, 1, 1, 2])
    return counts.flatmap(lambda k: st.lists(names, min_size=k, max_size=k, unique=True)).flatmap(
        again
    )


def posed(*, labels: bool) -> dict[str, st.SearchStrategy[Any]]:
    """Return the strategies of a problem's parts."""
    kinds = [f"labels: {name}" for name in GOOD_LABELS]
    return {
        "X": often("floats", *sorted(GOOD_TABLES)),
        "y": often(*(kinds if labels else [f"numbers: {name}" for name in GOOD_TARGETS])),
        "n": often(17, 19, 23, 29, seldom=(0, 1, 2)),
        "p": often(3, 4, 6, seldom=(1, 2)),
        "seed": st.integers(0, 999),
        "size": often(1, 2, seldom=(3,)),
        "x_bound": NUMBER,
        "y_bound": NUMBER,
        "radius": NUMBER,
        "ridge": RIDGE,
        "loss": st.sampled_from(LABELS if labels else NUMBERS),
        "include": often((), seldom=([0], [5])),
        "exclude": often((), seldom=([1], [0])),
        "groups": often(None),
        "false_columns": often(None, 0.05, seldom=(1e-20, 1)),
        "classes": often(None),
    }


PROBLEMS = st.booleans().flatmap(lambda labels: spoiled(posed(labels=labels)))
SOUND = st.booleans().flatmap(
    lambda labels: st.fixed_dictionaries(
        posed(labels=labels) | {"X": often("floats"), "p": st.integers(3, 6)}
    )
)


def make_problem(given: dict[str, Any]) -> Problem:
    rest = dict(given)
    n, p, seed = _measures(rest)
    X, y = table(rest.pop("X"), n, p, seed), target(rest.pop("y"), n, seed)
    return Problem(X, y, **rest)


def _measures(given: dict[str, Any]) -> list[int]:
    """Take out a table's own measures; they are not the API's: nonsense for them is a 3."""
    drawn = [given.pop(name) for name in ("n", "p", "seed")]
    good = [
        type(value) is int and least <= value < 1000
        for value, least in zip(drawn, (0, 1, 0), strict=True)
    ]
    return [value if fine else 3 for value, fine in zip(drawn, good, strict=True)]


# The properties ---------------------------------------------------------------------------------

SOLVERS = often("branch-and-bound", seldom=("outer-approximation", "mip", "x"))
SEARCHES = spoiled(
    {
        "ask": st.sampled_from(["best", "top", "best_by_mistakes", "score", "sensitivity"]),
        "count": st.integers(1, 4),
        "solver": SOLVERS,
        "limits": LIMITS,
        "support": st.sampled_from([(0, 1), [0], [2, 1, 0]]),
        "rule": st.sampled_from(["tight", "largest", "paper"]),
    }
)


def problems(given: dict[str, Any], asked: dict[str, Any]) -> None:
    problem = attempt(lambda: make_problem(given))
    if problem is None:
        return
    options = {"solver": asked["solver"], "limits": asked["limits"]}
    calls: dict[Any, Callable[[], Any]] = {
        "top": lambda: search.top(problem, asked["count"], **options),
        "best_by_mistakes": lambda: search.best_by_mistakes(problem, **options),
        "score": lambda: problem.score(asked["support"]),
        "sensitivity": lambda: problem.sensitivity(asked["rule"]),
    }
    asks = asked["ask"] if isinstance(asked["ask"], str) else "best"
    attempt(calls.get(asks, lambda: search.best(problem, **options)))


def _telling(X: Any, y: Any, t: int) -> list[int]:
    """A selector that fails, and says of the data what it can."""
    warnings.warn(f"{X}", UserWarning, stacklevel=1)
    raise ValueError(f"{X.tolist()} {y}")


LEDGER = often(None, seldom=("ledger: with room",))
COMMON = {"epsilon": EPSILON, "neighbours": NEIGHBOURS, "limits": LIMITS, "ledger": LEDGER}
SCORED = COMMON | {"sensitivity": st.sampled_from(["tight", "largest", "paper"])}
SEARCHED = SCORED | {"solver": SOLVERS, "accept_gap": st.booleans()}
SELECTOR = often(None, "lasso", seldom=("l1-svm", _telling, lambda X, y, t: [0, "a", 1.5, 99]))
MECHANISMS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "Exponential": SCORED,
    "PermuteAndFlip": SCORED,
    "TopR": SEARCHED
    | {
        "count": often(None, 2, seldom=(5, 10**7, 10**9)),
        "trials": often(math.inf, 1, seldom=(50, 10**15)),
        "accounting": st.sampled_from(["paper", "sharp"]),
    },
    "Mistakes": SEARCHED,
    "Mistakes, tested": SCORED
    | {
        "delta": often(1e-3, 0.1, seldom=(1e-20,)),
        "test_share": often(0.5, seldom=(1e-20, 1 - 1e-16)),
        "otherwise": st.sampled_from(["refuse", "exponential"]),
    },
    "MarkovChain": SCORED
    | {
        "steps": often(0, 30, seldom=(1,)),
        "start": st.sampled_from(["random", "marginal", "lasso", "greedy"]),
        "ball": often("l2", seldom=("l1",)),
    },
    "SampleAggregate": COMMON | {"blocks": often(None, 3, 1), "selector": SELECTOR},
    "LassoStability": COMMON
    | {
        "delta": often(1e-3, 0.1, seldom=(1e-20, 0.4)),
        "blocks": often(None, 3),
        "repeats": often(1),
        "selector": SELECTOR,
    },
    "LassoStability, of margins": COMMON
    | {
        "neighbours": often("replace-one"),
        "method": often("perturbation"),
        "penalty": often(None, seldom=(1.0, 1e20)),
        "l1_bound": often(None, seldom=(1.0, 1e-20)),
        "curvature": often(None, seldom=(0.5, 1.0)),
    },
}
CALLS = st.lists(
    spoiled(
        {
            "name": st.sampled_from(
                ["release", "draw", "experiment", "probabilities", "guarantee"]
            ),
            "count": often(1, 3, 0),
            "random_state": SEED,
            "problem": st.just("the problem"),
        }
    ),
    min_size=1,
    max_size=2,
)
RELEASES = st.sampled_from(sorted(MECHANISMS)).flatmap(
    lambda name: st.tuples(st.just(name), spoiled(MECHANISMS[name]))
)


def mechanisms(given: dict[str, Any], made: tuple[str, dict[str, Any]], calls: list[Any]) -> None:
    problem = attempt(lambda: make_problem(given))
    kind, options = getattr(dpsubset, made[0].split(",")[0]), made[1]
    with tempfile.TemporaryDirectory() as folder:
        ledger = placed(folder, options["ledger"])
        mechanism = attempt(lambda: kind(**(options | {"ledger": ledger})))
        if problem is not None and mechanism is not None:
            for call in calls:
                _call(mechanism, problem, call)
        if isinstance(ledger, Path) and ledger.is_file() and options["ledger"] != "ledger: text":
            check(ledger.read_bytes().decode("latin-1"))


def _call(mechanism: Any, problem: Problem, call: dict[str, Any]) -> None:
    of = problem if isinstance(call["problem"], str) else call["problem"]
    name = call["name"] if isinstance(call["name"], str) else "release"
    more = {"draw": ("count", "random_state"), "experiment": ("random_state",)}.get(name, ())
    ask = getattr(mechanism, name, mechanism.release)
    result = attempt(lambda: ask(of, *(call[m] for m in more)))
    if result is not None and name in ("release", "experiment", "guarantee"):
        check(f"{result} {result.to_dict()} {mechanism!r}")


COEFFICIENTS = spoiled(
    {
        "epsilon": EPSILON,
        "neighbours": NEIGHBOURS,
        "delta": often(0.0, 1e-6, seldom=(0.1,)),
        "row_bound": often(None, 0.5, seldom=(1e20, 1e-20)),
        "curvature_share": often(None, seldom=(0.5, 1e-20)),
        "support": st.just("a support"),
        "random_state": SEED,
        "ledger": LEDGER,
    }
)


def coefficients(given: dict[str, Any], noisy: bool, asked: dict[str, Any]) -> None:
    smooth = {"absolute": "huber", "hinge": "logistic", "quantile:0.9": "squared"}
    loss = smooth.get(given["loss"], given["loss"])
    problem = attempt(lambda: make_problem(given | {"loss": loss}))
    if problem is None:
        return
    kind: Any = NoisyStatistics if noisy else ObjectivePerturbation
    names = ("epsilon", "neighbours", *(() if noisy else ("delta", "row_bound", "curvature_share")))
    with tempfile.TemporaryDirectory() as folder:
        options = {name: asked[name] for name in names}
        options["ledger"] = placed(folder, asked["ledger"])
        method = attempt(lambda: kind(**options))
        if method is not None:
            usual = list(range(problem.size))
            support = usual if isinstance(asked["support"], str) else asked["support"]
            attempt(lambda: method.release(problem, support, asked["random_state"]))
            check(repr(method))


OBJECTS = often(
    *("permute-and-flip", "exponential", "top-r", "mistakes", "sample-aggregate"),
    *("markov-chain", "lasso-stability"),
    seldom=(dpsubset.MarkovChain(0.5, steps=20), dpsubset.TopR(0.5, trials=3)),
)
FITS: dict[str, st.SearchStrategy[Any]] = {
    "n_features_to_select": often(1, 2, "auto"),
    "max_features": often(2, 10),
    "false_columns": often(0.05, seldom=(1e-20, 1)),
    "epsilon": EPSILON,
    "bounds_X": often((-10, 10), (-1e3, 1e3), seldom=((0, 1), (-1e308, 1e308), (0, 1e-300))),
    "bounds_y": often((-10, 10), seldom=((0, 1), (-1e308, 1e308))),
    "mechanism": OBJECTS,
    "neighbours": NEIGHBOURS,
    "clip": often(1.0, 0.5, seldom=(1e-6,)),
    "radius": NUMBER,
    "ridge": RIDGE,
    "always_include": often((), seldom=([0], ["c0"])),
    "fit_intercept": st.booleans(),
    "max_seconds": often(0.5),
    "random_state": SEED,
    "selection_share": often(0.5, seldom=(1e-20, 1 - 1e-16)),
    "coefficients": often("objective-perturbation", seldom=("noisy-statistics",)),
    "coefficient_loss": often(None),
    "coefficient_radius": often(None, seldom=(1e-20, 1e20)),
    "coefficient_ridge": often(0.0, seldom=(1e-20, 1e20)),
    "delta": often(0.0, seldom=(1e-6,)),
    "classes": often(None, seldom=((-1, 1), (False, True))),
    "ledger": LEDGER,
}
ESTIMATORS = st.tuples(
    st.sampled_from(["SubsetSelector", "SubsetRegressor", "SubsetClassifier"]), st.booleans()
).flatmap(
    lambda kind: st.tuples(
        st.just(kind[0]),
        spoiled(
            FITS
            | posed(
                labels=kind[0] == "SubsetClassifier" or (kind[0] == "SubsetSelector" and kind[1])
            )
            | {"classes": FITS["classes"], "fitted": st.just(True)}
        ),
    )
)
AFTER = st.tuples(
    st.sampled_from(sorted(GOOD_TABLES)) | st.sampled_from(sorted(BAD_TABLES)),
    st.sampled_from([3, 0]),
    st.booleans(),
)
_METHODS = ("transform", "predict", "predict_proba", "decision_function")
_SAME = re.compile(r"X has \d+ features, but|feature names should match|NotFitted")


def estimators(made: tuple[str, dict[str, Any]], after: tuple[str, int, bool]) -> None:
    name, given = made
    kind = getattr(dpsubset, name)
    names = kind().get_params()
    options = {key: value for key, value in given.items() if key in names}
    if given["loss"] in LABELS:
        options.pop("bounds_y", None)
    if isinstance(options["mechanism"], Mechanism):
        options.pop("max_seconds", None)
    n, p, seed = _measures(dict(given))
    X, y = table(given["X"], n, p, seed), target(given["y"], n, seed)
    with tempfile.TemporaryDirectory() as folder:
        options["ledger"] = placed(folder, options["ledger"])
        model = attempt(lambda: kind(**options))
        if given["fitted"] is True:
            attempt(lambda: model.fit(X, y))
    other = table(after[0], after[1], p if after[2] else p + 1, seed)
    if name == "SubsetSelector":
        attempt(lambda: model.get_support(indices=True), NotFittedError)
    for method in (m for m in _METHODS if hasattr(model, m)):
        ask = getattr(model, method)
        attempt(lambda ask=ask: _as_of_sklearn(lambda: ask(other)), NotFittedError)


def _as_of_sklearn(call: Callable[[], Any]) -> Any:
    """Let pass what scikit-learn demands of a table with other columns."""
    try:
        return call()
    except ValueError as error:
        if type(error) is ValueError and _SAME.search(str(error)):
            check(shown(error), rows=True)
            return None
        raise


SMALL = st.tuples(
    st.sampled_from(["Guarantee", "compose", "as_loss", "Limits", "as_solver"]),
    spoiled(
        {
            "mechanism": st.just("a mechanism"),
            "epsilon": EPSILON,
            "neighbours": NEIGHBOURS,
            "sensitivity": often(None, 1.0),
            "precision": often(0.0, 1e-12),
            "delta": often(0.0, 1e-6),
            "condition": often(None, "it rains"),
            "randomness": often("operating system", "seeded"),
        }
    ),
    NONSENSE | st.sampled_from(LOSS_TEXTS),
    st.booleans(),
)


def small_things(drawn: tuple[str, dict[str, Any], Any, bool]) -> None:
    name, options, other, valid = drawn
    if name in ("Guarantee", "compose"):
        promise = attempt(lambda: Guarantee(**options))
        if promise is not None:
            attempt(lambda: (str(promise), promise.to_dict()))
            attempt(lambda: compose([promise, promise] if valid else other))
    elif name == "Limits":
        attempt(lambda: Limits(**{"nodes" if valid else "seconds": other}))
    else:
        attempt(lambda: {"as_loss": as_loss, "as_solver": search.as_solver}[name](other))


KEEPING = spoiled(
    {
        "file": st.sampled_from(["ledger: missing", "ledger: with room"]),
        "epsilon": often(None, 3.0, seldom=(1e20, 1e-20)),
        "delta": often(None, seldom=(0.1, 0.0)),
        "neighbours": often(None, "replace-one"),
        "guarantee": often(PROMISE),
        "asked": often({"a": 1}),
        "released": often({"support": [1, 2]}),
    }
)


def ledgers(asked: dict[str, Any]) -> None:
    def charge() -> None:
        with ledger.charge(asked["guarantee"], asked["asked"]) as record:
            record(asked["released"])

    with tempfile.TemporaryDirectory() as folder:
        path = placed(folder, asked["file"])
        options = {name: asked[name] for name in ("epsilon", "delta", "neighbours")}
        ledger = attempt(lambda: Ledger(path, **options))
        if ledger is not None:
            attempt(charge)
            attempt(lambda: (str(ledger), ledger.spent, ledger.remaining, ledger.history()))


Properties = dict[str, tuple[float, Callable[..., None], tuple[st.SearchStrategy[Any], ...]]]
PROPERTIES: Properties = {
    "problems": (0.15, problems, (PROBLEMS, SEARCHES)),
    "mechanisms": (0.2, mechanisms, (SOUND, RELEASES, CALLS)),
    "coefficients": (0.07, coefficients, (SOUND, st.booleans(), COEFFICIENTS)),
    "estimators": (0.16, estimators, (ESTIMATORS, AFTER)),
    "small things": (0.04, small_things, (SMALL,)),
    "ledgers": (0.05, ledgers, (KEEPING,)),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_an_answer_or_words_of_ours_without_data(name: str) -> None:
    share, law, drawn = PROPERTIES[name]
    examples(share)(given(*drawn)(law))()


# Twins: the same properties on broken code ------------------------------------------------------

PLACES = {
    "problems": "dpsubset.problem.as_design",
    "mechanisms": "dpsubset.mechanisms.base.as_randomness",
    "coefficients": "dpsubset.coefficients.base.as_randomness",
    "estimators": "dpsubset.estimators.asking.plan_target",
    "small things": "dpsubset.privacy.guarantee.rounded_up",
    "ledgers": "dpsubset.privacy.ledger.positive",
}
ENTRY = float(cells(np.random.default_rng(0), 1)[0])


def _chained() -> None:
    try:
        float(SECRET)
    except ValueError:
        raise InputError("an entry is no number")  # noqa: B904


def _fail(error: Exception) -> None:
    raise error


BREAKS: dict[str, tuple[type[BaseException], Callable[[], Any]]] = {
    "an error of another kind": (ValueError, lambda: _fail(ValueError(f"entry {ENTRY}"))),
    "a refusal that quotes": (Leak, lambda: _fail(InputError(f"entry {ENTRY:.6g}"))),
    "a refusal that quotes before": (Leak, _chained),
    "a refusal that counts": (Leak, lambda: _fail(InputError("there are 23 rows"))),
    "a print": (Leak, lambda: print(SECRET)),
    "a print past Python": (Leak, lambda: os.write(2, f"{ENTRY}".encode())),
    "a warning": (Leak, lambda: warnings.warn(f"entry {ENTRY:e}", UserWarning, stacklevel=2)),
    "numpy's warning": (Leak, lambda: np.float64(1e308) * np.float64(10)),
}


def break_at(monkeypatch: pytest.MonkeyPatch, place: str, act: Callable[[], Any]) -> None:
    """Let a function do something else first."""
    path, _, name = place.rpartition(".")
    module = import_module(path)
    before = getattr(module, name)

    def broken(*given: Any, **options: Any) -> Any:
        act()
        return before(*given, **options)

    monkeypatch.setattr(module, name, broken)


QUOTED = r"7\.?35194|SECRET|23 rows|overflow"


def caught(
    kind: type[BaseException], name: str, properties: Properties = PROPERTIES, text: str = QUOTED
) -> None:
    """Run a property that must fail; the first failure is enough."""
    _, law, drawn = properties[name]
    few = settings(examples(0.1), max_examples=100, phases=(Phase.generate,))
    with pytest.raises(kind, match=text):
        settings(few, derandomize=True, print_blob=False, report_multiple_bugs=False)(
            given(*drawn)(law)
        )()


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("name", PLACES)
def test_what_is_broken_is_caught(name: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, act = BREAKS[how]
    break_at(monkeypatch, PLACES[name], act)
    caught(kind, name)


def test_the_cells_are_marked() -> None:
    for form in ("floats", "float32", "whole", "decimals"):
        for entry in np.asarray(table(form, 5, 3, 0)).ravel():
            with pytest.raises(Leak):
                check(f"the entry {entry} is wrong")
            with pytest.raises(Leak):
                check(f"the entry {float(entry):.6g} is wrong")
