"""An error of ours carries nothing but its own words: no error before it, no note.

`raise ... from None` hides the error before from print only. Sources are looked at by their
syntax, and errors are provoked at every door, by tables and files that differ in what is private.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from carried import carried
from typer.testing import CliRunner

import dpsubset
from dpsubset import (
    Guarantee,
    Ledger,
    PermuteAndFlip,
    Problem,
    SubsetClassifier,
    SubsetRegressor,
    SubsetSelector,
    TopR,
    errors,
)
from dpsubset.cli import app
from dpsubset.coefficients import ObjectivePerturbation
from dpsubset.data import read_bounds, read_columns, read_names, read_table
from dpsubset.designs import as_design
from dpsubset.errors import (
    DpsubsetError,
    InputError,
    OutOfMemoryError,
    UnprovenError,
    without_context,
)
from dpsubset.labels import as_labels
from dpsubset.model_file import read_model
from dpsubset.search.backends.highs import HighsMaster

# The sources, by their syntax -------------------------------------------------------------------

# Where the error before is shown on purpose: it tells of the user's own loss, on made-up numbers.
SHOWN = {("losses/checking.py", "_compiles")}


def careless(source: str) -> list[str]:
    """Return the functions that raise a new error in a handler and are not decorated."""
    found: list[str] = []
    _look(ast.parse(source), None, False, found)
    return found


def _look(node: ast.AST, function: ast.FunctionDef | None, handling: bool, out: list[str]) -> None:
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.FunctionDef):
            _look(part, part, False, out)
            continue
        ending = isinstance(node, ast.Try) and part in node.finalbody  # an error may be under way
        now = handling or ending or isinstance(part, ast.ExceptHandler)
        if isinstance(part, ast.Raise) and part.exc is not None and now:
            above = [ast.unparse(line) for line in function.decorator_list] if function else []
            if above[-1:] != ["without_context"]:
                out.append(function.name if function else "the module")
        _look(part, function, now, out)


def test_every_error_raised_in_a_handler_forgets_what_came_before() -> None:
    root = Path(dpsubset.__file__).parent
    found = {
        (path.relative_to(root).as_posix(), name)
        for path in root.rglob("*.py")
        for name in careless(path.read_text(encoding="utf-8"))
    }
    assert found == SHOWN


HANDLER = "try:\n  pass\nexcept ValueError as error:\n  "


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f"{HANDLER}raise InputError('a') from None", ["the module"]),
        ("def f():\n {}\n  if a:\n   raise E from None", ["f"]),
        ("def f():\n {}\n  raise E('a')", ["f"]),
        ("def f():\n {}\n  raise E from error", ["f"]),
        ("def f():\n {}\n  pass\n finally:\n  raise E", ["f"]),
        ("def f():\n {}\n  pass\n finally:\n  if a:\n   raise E", ["f"]),
        ("@without_context\n@contextmanager\ndef f():\n {}\n  raise E from None", ["f"]),
        ("@without_context\ndef f():\n def g():\n  {}\n   raise E from None", ["g"]),
        ("@contextmanager\n@without_context\ndef f():\n {}\n  raise E from None", []),
        ("def f():\n {}\n  raise", []),
        ("def f():\n {}\n  def g():\n   raise E", []),
        ("def f():\n raise E", []),
    ],
)
def test_a_careless_function_is_noticed(source: str, expected: list[str]) -> None:
    deep = "  " if "def g():\n  {}" in source else " "
    handler = f"try:\n{deep} pass\n{deep}except ValueError as error:"
    assert careless(source.replace("{}", handler)) == expected


# The decorator ----------------------------------------------------------------------------------


def caught(act: Callable[[], Any], kind: type[BaseException] = DpsubsetError) -> BaseException:
    with pytest.raises(kind) as raised:
        act()
    return raised.value


def failing(error: BaseException) -> Any:
    """Raise an error in a handler, as it stands, with a note."""
    try:
        raise ValueError("317 rows")
    except ValueError:
        error.add_note("317 rows")
        raise error  # noqa: B904 - so that it has a context


def hidden(error: BaseException) -> Any:
    try:
        raise ValueError("317 rows")
    except ValueError:
        raise error from None


ENDS = [
    InputError("a"),
    UnprovenError("a"),
    OutOfMemoryError("a"),
    MemoryError(),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
def test_what_a_user_may_see_forgets_what_came_before(error: BaseException) -> None:
    for work in (failing, hidden):
        assert carried(caught(lambda work=work: work(error), BaseException))  # the twin
        found = caught(lambda work=work: without_context(work)(error), BaseException)
        assert found is error
        assert carried(error) == {}


def test_a_fault_of_a_program_keeps_what_came_before() -> None:
    fault = caught(lambda: without_context(failing)(TypeError("a")), TypeError)
    assert isinstance(fault.__context__, ValueError)
    assert carried(caught(lambda: without_context(hidden)(TypeError("a")), TypeError)) == {}


def test_a_block_is_guarded_too() -> None:
    @contextmanager
    def plain() -> Iterator[None]:
        try:
            yield
        except ValueError:
            raise InputError("a") from None

    guarded = contextmanager(without_context(plain.__wrapped__))  # type: ignore[attr-defined]

    def act(block: Any) -> None:
        with block():
            raise ValueError("317 rows")

    assert carried(caught(lambda: act(plain)))  # the twin
    assert carried(caught(lambda: act(guarded))) == {}
    with guarded():
        pass


def test_what_the_caller_handles_is_left_as_it_was() -> None:
    """Errors of the caller's are neither changed nor taken along."""
    before = KeyError("b")
    before.__context__ = cause = IndexError("c")
    try:
        raise before
    except KeyError:
        found = caught(lambda: without_context(hidden)(InputError("a")))
    assert carried(found) == {}
    assert before.__context__ is cause


def test_signature_and_words_survive() -> None:
    def work(X: Any, *, size: int = 3) -> float:
        """Do something."""
        return size + X

    same = without_context(work)
    assert inspect.signature(same) == inspect.signature(work)
    assert (same.__doc__, same.__name__, same(1, size=2)) == (work.__doc__, "work", 3)
    assert list(inspect.signature(SubsetSelector.transform).parameters) == ["self", "X"]
    assert "Parameters" in (SubsetSelector.transform.__doc__ or "")


@pytest.mark.parametrize("way", ["context", "cause", "note", "group", "deep", "argument", "hidden"])
def test_the_walker_sees_every_way(way: str) -> None:
    class Hiding(InputError):
        __context__ = None  # type: ignore[assignment]

    error, before = Hiding("a") if way == "hidden" else InputError("a"), ValueError("317 rows")
    if way in ("context", "hidden"):
        BaseException.__context__.__set__(error, before)  # type: ignore[attr-defined]
    elif way == "cause":
        error.__cause__ = before
    elif way == "note":
        error.add_note("317 rows")
    elif way == "group":
        error.__context__ = ExceptionGroup("several", [KeyError(), before])
    elif way == "deep":
        error.__cause__ = KeyError()
        error.__cause__.__context__ = KeyError()
        error.__cause__.__context__.__cause__ = before
    else:
        error.args = ("a", before)
    assert "317 rows" in "".join(carried(error).values())
    before.__context__ = error  # a ring ends
    assert "317 rows" in "".join(carried(error).values())


# Doors for tables -------------------------------------------------------------------------------

ROWS = {"replace-one": (61, 61), "add-remove": (61, 83)}
BOTH = pytest.mark.parametrize("neighbours", list(ROWS))
PLACES = (17, 29)  # the row that is spoilt
SECRETS = ("s7351", "t9402")


def frames(neighbours: str) -> list[tuple[np.ndarray, np.ndarray, int, str]]:
    """Return two tables, with a place and a word to spoil them."""
    out = []
    for seed, n in enumerate(ROWS[neighbours]):
        X = np.random.default_rng(seed).uniform(-1, 1, (n, 4))
        out.append((X, X[:, 1] / 2, PLACES[seed], SECRETS[seed]))
    return out


class Talking:
    """A table of another library, whose errors quote it."""

    def __init__(self, kind: type[Exception], word: str) -> None:
        self.kind, self.word = kind, word

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise self.kind(self.word)


def put(X: np.ndarray, place: int, value: Any, dtype: Any = float) -> np.ndarray:
    out = X.astype(dtype)
    out[(place, 2) if X.ndim == 2 else place] = value
    return out


def ragged(X: np.ndarray, place: int) -> Any:
    rows = X.reshape(len(X), -1).tolist()
    rows[place] += [0.5]
    return rows


Spoil = Callable[[np.ndarray, int, str], Any]
TABLES: dict[str, Spoil] = {
    "ragged": lambda X, i, word: ragged(X, i),
    "text": lambda X, i, word: put(X, i, word, object),
    "text, list": lambda X, i, word: put(X, i, word, object).tolist(),
    "text alone": lambda X, i, word: X.astype(str),
    "nan": lambda X, i, word: put(X, i, np.nan),
    "inf": lambda X, i, word: put(X, i, np.inf),
    "none": lambda X, i, word: put(X, i, None, object),
    "large": lambda X, i, word: put(X, i, 10**400 + i, object),
    "one dimension": lambda X, i, word: X[:, 0],
    "short": lambda X, i, word: X[:i],
    "pandas": lambda X, i, word: pd.DataFrame(put(X, i, word, object)),
    "polars": lambda X, i, word: pl.DataFrame(
        {f"x{j}": [word if j == 2 else str(v) for v in X[:, j]] for j in range(4)}
    ),
    "arrow": lambda X, i, word: pa.table({f"x{j}": [word] * len(X) for j in range(4)}),
    "sparse, text": lambda X, i, word: _sparse_text(X, word),
    "sparse, nan": lambda X, i, word: sp.csr_array(put(X, i, np.nan)),
    "masked": lambda X, i, word: np.ma.masked_less(X, 0),
    "talking": lambda X, i, word: Talking(ValueError, word),
    "talking, other": lambda X, i, word: Talking(KeyError, word),
    "talking, type": lambda X, i, word: Talking(TypeError, word),
}
TARGETS: dict[str, Spoil] = {
    name: TABLES[name]
    for name in ("ragged", "text", "text, list", "nan", "inf", "none", "large", "short", "masked")
} | {
    "pandas": lambda y, i, word: pd.Series(put(y, i, word, object)),
    "polars": lambda y, i, word: pl.Series([word] * len(y)),
    "two columns": lambda y, i, word: np.c_[y, y],
    "talking": TABLES["talking"],
    "talking, other": TABLES["talking, other"],
}
LABELS: dict[str, Spoil] = {
    "third": lambda y, i, word: put(y, i, word, object),
    "third, list": lambda y, i, word: put(y, i, word, object).tolist(),
    "third number": lambda y, i, word: put((y == "yes").astype(float), i, i),
    "nan": lambda y, i, word: put(y, i, np.nan, object),
    "ragged": lambda y, i, word: [*y[:i].tolist(), [word, word], *y[i:].tolist()],
    "short": lambda y, i, word: y[:i],
    "talking": TABLES["talking"],
    "talking, other": TABLES["talking, other"],
}


def _sparse_text(X: np.ndarray, word: str) -> Any:
    table = sp.csr_matrix(X)
    table.data = np.full(table.nnz, word, dtype=object)
    return table


def problem(X: Any, y: Any, **options: Any) -> Problem:
    given: Any = {"size": 2, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "ridge": 1.0} | options
    return Problem(X, y, **given)


def estimator(kind: Any, neighbours: str) -> Any:
    more: Any = {"classes": ("no", "yes")} if kind is SubsetClassifier else {"bounds_y": (-1, 1)}
    given: Any = {"n_features_to_select": 2, "bounds_X": (-1, 1), "neighbours": neighbours}
    return kind(**given, **more)


@functools.cache
def fitted(kind: Any, neighbours: str) -> Any:
    X, y, _, _ = frames(neighbours)[0]
    labels = np.where(y > 0, "yes", "no")
    return estimator(kind, neighbours).fit(X, labels if kind is SubsetClassifier else y)


KINDS: tuple[Any, ...] = (SubsetSelector, SubsetRegressor, SubsetClassifier)
Door = Callable[[Any, Any, str], Any]
DOORS: dict[str, tuple[Door, dict[str, Spoil], str]] = {  # the door, and what is spoilt
    "design": (lambda X, y, near: as_design(X, bound=1.0, partner=y), TABLES, "X"),
    "problem": (lambda X, y, near: problem(X, y), TABLES, "X"),
    "problem, target": (lambda X, y, near: problem(X, y), TARGETS, "y"),
    "problem, labels": (
        lambda X, y, near: problem(X, y, loss="hinge", classes=("no", "yes")),
        LABELS,
        "labels",
    ),
    "labels": (lambda X, y, near: as_labels(y), LABELS, "labels"),
    "found labels": (
        lambda X, y, near: (
            estimator(SubsetSelector, near).set_params(loss="logistic", bounds_y=None).fit(X, y)
        ),
        LABELS,
        "labels",
    ),
    "fit labels": (
        lambda X, y, near: estimator(SubsetClassifier, near).fit(X, y),
        LABELS,
        "labels",
    ),
}
for _kind in KINDS:
    _name, _words = _kind.__name__, _kind is SubsetClassifier
    DOORS[f"{_name}.fit"] = (
        lambda X, y, near, kind=_kind, words=_words: estimator(kind, near).fit(
            X, np.where(y > 0, "yes", "no") if words else y
        ),
        TABLES,
        "X",
    )
    if not _words:
        DOORS[f"{_name}.fit, target"] = (
            lambda X, y, near, kind=_kind: estimator(kind, near).fit(X, y),
            TARGETS,
            "y",
        )
    for _method in ("transform", "predict", "predict_proba", "decision_function"):
        if hasattr(_kind, _method):
            DOORS[f"{_name}.{_method}"] = (
                lambda X, y, near, kind=_kind, method=_method: getattr(fitted(kind, near), method)(
                    X
                ),
                {name: spoil for name, spoil in TABLES.items() if name != "short"},
                "X",
            )

# A number of labels does not fit, but labels alone have nothing to fit to.
FINE = {("labels", "short")}
CASES = [(door, how) for door, (_, ways, _) in DOORS.items() for how in ways]
CASES = [case for case in CASES if case not in FINE]


def provoke(door: str, how: str, neighbours: str) -> list[BaseException]:
    """Return the errors that two tables end in, spoilt in the same way."""
    enter, ways, which = DOORS[door]
    out = []
    for X, y, place, word in frames(neighbours):
        labels = np.where(y > 0, "yes", "no")
        rest = labels if which == "labels" else y
        given = (
            (ways[how](X, place, word), rest) if which == "X" else (X, ways[how](rest, place, word))
        )
        out.append(caught(lambda given=given: enter(*given, neighbours)))
    return out


@pytest.mark.grid(every=7)
@BOTH
@pytest.mark.parametrize(("door", "how"), CASES)
def test_a_table_that_is_refused_is_not_carried(door: str, how: str, neighbours: str) -> None:
    one, other = provoke(door, how, neighbours)
    assert carried(one) == carried(other) == {}
    assert (type(one), one.args) == (type(other), other.args)


# Doors for files --------------------------------------------------------------------------------

GOOD = "x0,x1,y\n0.5,0.25,0.125\n0.25,0.5,0.5\n"
CSV: dict[str, Callable[[str], bytes]] = {
    "text": lambda word: f"{GOOD}{word},1,1\n".encode(),
    "text target": lambda word: f"{GOOD}1,1,{word}\n".encode(),
    "ragged": lambda word: f"{GOOD}1,1,{word},1\n".encode(),
    "quote": lambda word: f'{GOOD}1,1,"{word}\n'.encode(),
    "missing": lambda word: f"{GOOD}{word[1:]},1,\n".encode(),
    "infinite": lambda word: f"{GOOD}{word[1:]},1,inf\n".encode(),
    "no text": lambda word: f"{GOOD}{word[1:]},1,".encode() + b"\xff\xfe\n",
    "no text, first": lambda word: word.encode() + b"\xff,y\n",
    "quote, first": lambda word: f'x0,"x1,y\n{word},1,1\n'.encode(),
    "empty": lambda word: b"",
}


def named(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def as_parquet(path: Path, word: str, how: str) -> None:
    columns = {"x0": [0.5, 0.25], "x1": [word, word] if how == "text" else [0.5, 1.0]}
    frame = pl.DataFrame({**columns, "y": ["no", word] if how == "words" else [0.5, 0.5]})
    frame.write_parquet(path)
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-9] + word.encode())


def files(how: str, word: str, folder: Path) -> Callable[[], Any]:
    """Return a reader of a file with a fault."""
    kind, _, fault = how.partition(": ")
    if kind == "csv":
        path = named(folder, "t.csv", CSV[fault](word))
        return lambda: read_table(path, "y")
    if kind == "columns":
        path = named(folder, "t.csv", CSV[fault](word))
        return lambda: read_columns(path, ["x0"])
    if kind == "labels":
        path = named(folder, "t.csv", f"x0,y\n1,no\n1,yes\n1,{word}\n".encode())
        classes = ("no", "yes") if fault == "named" else None
        return lambda: read_table(path, "y", labels=True, classes=classes)
    if kind == "parquet":
        as_parquet(folder / "t.parquet", word, fault)
        return lambda: read_table(folder / "t.parquet", "y")
    if kind == "bounds":
        content = b"\xff" if fault == "no text" else f"[default]\nbounds = {word}".encode()
        path = named(folder, "b.toml", content)
        return lambda: read_bounds(path, ["x0"], "y")
    if kind == "model":
        text = f'{{"a": "{word}' if fault == "cut" else f'{{"a": "{word}"}}'
        path = named(folder, "m.json", b"\xff" if fault == "no text" else text.encode())
        return lambda: read_model(path)
    assert kind == "nowhere"
    readers: dict[str, Callable[[Path], Any]] = {
        "names": read_names,
        "bounds": lambda path: read_bounds(path, ["x0"], "y"),
        "model": read_model,
    }
    return lambda: readers[fault](folder / "nowhere.csv")


FILES = [
    *(f"csv: {fault}" for fault in CSV),
    *(f"columns: {fault}" for fault in ("text", "ragged", "quote", "no text", "empty")),
    *("labels: named", "labels: found", "parquet: text", "parquet: words", "parquet: cut"),
    *("bounds: no text", "bounds: word", "model: no text", "model: cut", "model: foreign"),
    *("nowhere: names", "nowhere: bounds", "nowhere: model"),
]


@pytest.mark.parametrize("how", FILES)
def test_a_file_that_is_refused_is_not_carried(how: str, tmp_path: Path) -> None:
    one, other = (caught(files(how, word, tmp_path)) for word in SECRETS)
    assert carried(one) == carried(other) == {}
    assert one.args == other.args


@pytest.mark.parametrize("fault", list(CSV))
@BOTH
def test_the_command_ends_in_an_error_that_carries_nothing(
    fault: str, neighbours: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own end of a command has the command's before it, and nothing before that."""
    monkeypatch.chdir(tmp_path)
    Path("b.toml").write_text("[default]\nbounds = [-1, 1]\n")
    Path("t.csv").write_bytes(CSV[fault](SECRETS[0]))
    words = ["select", "t.csv", "--target", "y", "--size", "1", "--epsilon", "1"]
    result = CliRunner().invoke(app, [*words, "--bounds", "b.toml", "--neighbours", neighbours])
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    kinds = {text.split()[0] for text in carried(result.exception).values()}
    assert kinds <= {"Exit"}
    assert SECRETS[0][1:] not in "".join(carried(result.exception).values())


# Doors for releases -----------------------------------------------------------------------------

ONE = Guarantee("exponential mechanism", 1.0, "replace-one", 4.0)


def breaking(kind: type[BaseException], word: str) -> Callable[..., Any]:
    def act(*given: Any, **options: Any) -> Any:
        raise kind(word)

    return act


def memory_ends(patch: pytest.MonkeyPatch, word: str, folder: Path) -> Callable[[], Any]:
    patch.setattr(PermuteAndFlip, "_sampler", breaking(MemoryError, word))
    given = problem(*frames("replace-one")[0][:2])
    return lambda: PermuteAndFlip(1.0).release(given)


def memory_ends_with_a_ledger(
    patch: pytest.MonkeyPatch, word: str, folder: Path
) -> Callable[[], Any]:
    patch.setattr(PermuteAndFlip, "_sampler", breaking(MemoryError, word))
    given = problem(*frames("replace-one")[0][:2])
    ledger = Ledger(folder / "l.db", epsilon=10.0)
    return lambda: PermuteAndFlip(1.0, ledger=ledger).release(given)


def memory_ends_in_a_fit(patch: pytest.MonkeyPatch, word: str, folder: Path) -> Callable[[], Any]:
    patch.setattr(PermuteAndFlip, "_sampler", breaking(MemoryError, word))
    X, y, _, _ = frames("replace-one")[0]
    return lambda: estimator(SubsetRegressor, "add-remove").fit(X, y)


def memory_ends_in_coefficients(
    patch: pytest.MonkeyPatch, word: str, folder: Path
) -> Callable[[], Any]:
    patch.setattr(ObjectivePerturbation, "_fit", breaking(MemoryError, word))
    given = problem(*frames("replace-one")[0][:2])
    return lambda: ObjectivePerturbation(1.0).release(given, [0, 1])


def solver_breaks(patch: pytest.MonkeyPatch, word: str, folder: Path) -> Callable[[], Any]:
    patch.setattr(HighsMaster, "solve", breaking(ZeroDivisionError, word))
    patch.setattr(HighsMaster, "relaxed", breaking(ZeroDivisionError, word))
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (60, 10)) + 0.8 * rng.uniform(-1, 1, (60, 1))
    y = np.clip(X @ rng.normal(size=10) / 4 + rng.normal(size=60) / 3, -1, 1)
    given = Problem(X, y, size=4, x_bound=2.0, y_bound=1.0, radius=3.0, ridge=0.5)
    mechanism = TopR(1.0, count=60, solver="outer-approximation", accept_gap=True)
    return lambda: mechanism.release(given)


def damaged_ledger(patch: pytest.MonkeyPatch, word: str, folder: Path) -> Callable[[], Any]:
    path = named(folder, "l.db", f"{word} is no ledger".encode() * 99)
    return lambda: Ledger(path).spent


def strange_release(patch: pytest.MonkeyPatch, word: str, folder: Path) -> Callable[[], Any]:
    ledger = Ledger(folder / "l.db", epsilon=10.0)

    def act() -> None:
        with ledger.charge(ONE, {"a": 1}) as record:
            record({"a": float("nan"), "b": word})

    return act


def strange_question(patch: pytest.MonkeyPatch, word: str, folder: Path) -> Callable[[], Any]:
    ledger = Ledger(folder / "l.db", epsilon=10.0)

    def act() -> None:
        with ledger.charge(ONE, {"a": {word}}):
            pass

    return act


def strange_support(patch: pytest.MonkeyPatch, word: str, folder: Path) -> Callable[[], Any]:
    given = problem(*frames("replace-one")[0][:2])
    return lambda: given.score(17 if word == SECRETS[0] else 29)  # type: ignore[arg-type]


def strange_guarantee(patch: pytest.MonkeyPatch, word: str, folder: Path) -> Callable[[], Any]:
    return lambda: Guarantee.from_dict({word: 1})


RELEASES = {
    act.__name__: act
    for act in (
        *(memory_ends, memory_ends_with_a_ledger, memory_ends_in_a_fit),
        *(memory_ends_in_coefficients, solver_breaks, damaged_ledger, strange_release),
        *(strange_question, strange_support, strange_guarantee),
    )
}


@pytest.mark.parametrize("how", list(RELEASES))
def test_a_release_that_fails_carries_nothing(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [caught(RELEASES[how](monkeypatch, word, tmp_path)) for word in SECRETS]
    assert [carried(error) for error in found] == [{}, {}]
    assert found[0].args == found[1].args
    if how.startswith("memory"):
        assert isinstance(found[0], OutOfMemoryError)


# The twin of them all ---------------------------------------------------------------------------


def told(errors: list[BaseException]) -> bool:
    """Whether something private is in what errors carry along."""
    one, other = map(carried, errors)
    return one != other


@pytest.mark.grid(every=2)
@BOTH
def test_doors_that_do_not_forget_are_noticed(
    neighbours: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the one line that forgets, doors of every kind carry private words or numbers."""
    monkeypatch.setattr(errors, "_forget", lambda error: None)
    telling = {(door, how) for door, how in CASES if told(provoke(door, how, neighbours))}
    assert {door for door, _ in telling} == set(DOORS)
    ragged_shapes = {("problem", "ragged"), ("design", "ragged")}
    assert neighbours == "replace-one" or ragged_shapes <= telling
    read = {how for how in FILES if told([caught(files(how, w, tmp_path)) for w in SECRETS])}
    assert read >= {"csv: no text", "csv: no text, first", "columns: no text", "model: cut"}
    for how, prepare in RELEASES.items():
        folder = tmp_path / how
        folder.mkdir()
        with monkeypatch.context() as patch:
            found = [caught(prepare(patch, word, folder)) for word in SECRETS]
        assert any(map(carried, found)), how
