"""What a release leaves behind depends on the data by what was released, and by nothing else.

Two tables of the same public shape differ in every value, and under add-remove in their number of
rows. Where both release the same, all that can be reached, read, printed or logged must be the
same, value by value. Each kind of trace has a twin that leaves it, and must be caught.
"""

from __future__ import annotations

import copy
import functools
import json
import logging
import math
import pickle
import re
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from carried import carried
from sklearn.base import clone
from typer.testing import CliRunner

from dpsubset import (
    Exponential,
    LassoStability,
    Ledger,
    MarkovChain,
    Mistakes,
    PermuteAndFlip,
    Problem,
    SampleAggregate,
    SubsetClassifier,
    SubsetRegressor,
    SubsetSelector,
    TopR,
)
from dpsubset.cli import app, asked, selecting
from dpsubset.coefficients import NoisyStatistics, ObjectivePerturbation
from dpsubset.designs import Design
from dpsubset.errors import DpsubsetError, InputError, RefusedError, UnprovenError
from dpsubset.limits import Limits
from dpsubset.losses import as_loss
from dpsubset.mechanisms import Mechanism, base
from dpsubset.question import default_loss

ROWS = {"replace-one": (317, 317), "add-remove": (317, 431)}  # numbers that nothing else equals
NAMES = [f"x{j}" for j in range(6)]
BOTH = pytest.mark.parametrize("neighbours", list(ROWS))


def tables(neighbours: str = "replace-one") -> list[tuple[np.ndarray, np.ndarray]]:
    """Return two tables; entries lie in (0, 10), columns 1 and 4 explain a target in (-10, 10)."""
    out = []
    for seed, slopes in enumerate([(1.0, -1.0), (-0.7, 0.9)]):
        n = ROWS[neighbours][seed]
        X = np.random.default_rng(seed).uniform(0, 10, (n, 6))
        out.append((X, X[:, [1, 4]] @ slopes + 0.1 * X[:, 0]))
    return out


def test_the_two_tables_share_no_value() -> None:
    (X, y), (Z, z) = tables()
    assert X.shape == Z.shape
    assert not set(np.r_[X.ravel(), y]) & set(np.r_[Z.ravel(), z])


def problems(neighbours: str, loss: str = "squared", **changes: Any) -> list[Problem]:
    options = {"size": 2, "loss": loss, "x_bound": 1.0, "radius": 2.0, "ridge": 0.1} | changes
    if loss == "hinge":
        options["classes"] = (-1, 1)
        return [
            Problem(X / 5 - 1, np.where(y > 0, 1, -1), **options) for X, y in tables(neighbours)
        ]
    return [Problem(X / 5 - 1, y / 10, y_bound=1.0, **options) for X, y in tables(neighbours)]


# A walk over all that can be reached ------------------------------------------------------------


def reached(thing: Any) -> dict[str, Any]:
    """Return every value that can be reached from an object, by the way to it."""
    found: dict[str, Any] = {}
    _walk(thing, "it", found, {})
    return found


def _walk(thing: Any, way: str, found: dict[str, Any], met: dict[int, tuple[str, Any]]) -> None:
    found[way] = _named(type(thing))
    atom = _atom(thing)
    if atom is not None:
        found[way] += f" {atom}"
        return
    if id(thing) in met:
        found[way] = f"the same as {met[id(thing)][0]}"
        return
    met[id(thing)] = way, thing  # held, so that no other object gets its number
    foreign = type(thing).__module__.startswith(("polars", "pandas"))
    parts = {} if foreign else dict(_parts(thing))
    if not parts:  # empty, or closed to us: its pickle tells
        found[way] += f" {pickled(thing)!r}"
    for name, part in parts.items():
        _walk(part, f"{way}{name}", found, met)


def _named(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _atom(thing: Any) -> str | None:
    """Return a text that holds the whole value of what has no parts."""
    if isinstance(thing, (np.ndarray, np.generic)) and thing.dtype != object:
        return f"{thing.dtype} {thing.shape} {thing.tobytes().hex()}"
    if isinstance(thing, (type, types.BuiltinFunctionType)):
        return _named(thing)
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    plain = (type(None), bool, int, float, complex, str, bytes, range, slice, Path, np.dtype)
    return repr(thing) if isinstance(thing, plain) else None


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """Go into containers, attributes, slots, and what functions carry along."""
    if isinstance(thing, Mapping):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
    if isinstance(thing, (set, frozenset)):
        thing = sorted(thing, key=repr)
    if isinstance(thing, np.ndarray):
        thing = thing.ravel().tolist()
    if isinstance(thing, (list, tuple)):
        yield from ((f"[{i}]", value) for i, value in enumerate(thing))
    if isinstance(thing, np.random.Generator):
        yield ".state", thing.bit_generator.state
    if isinstance(thing, types.FunctionType):
        cells = zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True)
        yield from ((f".closure[{name}]", cell.cell_contents) for name, cell in cells)
        yield ".defaults", (thing.__defaults__, thing.__kwdefaults__)
    if isinstance(thing, types.MethodType):
        yield from ((".self", thing.__self__), (".function", thing.__func__))
    if isinstance(thing, functools.partial):
        yield ".partial", (thing.func, thing.args, thing.keywords)
    yield from ((f".{name}", value) for name, value in getattr(thing, "__dict__", {}).items())
    slots = {name for kind in type(thing).__mro__ for name in vars(kind).get("__slots__", ())}
    yield from (
        (f".{name}", getattr(thing, name)) for name in sorted(slots) if hasattr(thing, name)
    )


def pickled(thing: Any) -> bytes | str:
    try:
        return pickle.dumps(thing)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        return f"no pickle: {type(error).__name__}"


def rows_kept(found: dict[str, Any], rows: int) -> list[str]:
    """Return the ways to tables, problems, and arrays or lists as long as the table."""
    kinds = (Problem, pl.DataFrame, pl.Series, pd.DataFrame, pd.Series, *Design.__subclasses__())
    tabular = tuple(map(_named, kinds))
    long = re.compile(rf"numpy.* \((\d+, )*{rows}[,)]")
    return [
        way
        for way, value in found.items()
        if value.startswith(tabular) or long.match(value) or way.endswith(f"[{rows - 1}]")
    ]


def difference(one: dict[str, Any], other: dict[str, Any], released: tuple[str, ...] = ()) -> Any:
    """Return the ways to what differs, those to released numbers left out."""
    ways = {way for way in one.keys() | other.keys() if one.get(way) != other.get(way)}
    return sorted(way for way in ways if not any(re.search(name, way) for name in released))


# What was said meanwhile ------------------------------------------------------------------------


@dataclass
class Said:
    """Warnings, log records, the text of both streams, and how it ended."""

    warnings: list[Any]
    logs: list[Any]
    streams: tuple[str, str]
    error: Any


class _Keeper(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=0)
        self.kept: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append((record.name, record.levelname, record.getMessage(), record.args))


@contextmanager
def logged() -> Iterator[list[Any]]:
    """Collect the records of all loggers at all levels."""
    root, keeper = logging.getLogger(), _Keeper()
    level = root.level
    root.addHandler(keeper)
    root.setLevel(1)
    try:
        yield keeper.kept
    finally:
        root.removeHandler(keeper)
        root.setLevel(level)


def facts(error: BaseException) -> dict[str, Any]:
    """Return all that an error shows: text, arguments, notes, all errors before it; its pickle.

    And the lines that it came by: some libraries pickle them, too, once they are imported.
    """
    return {
        "lines": [tuple(line) for line in traceback.extract_tb(error.__traceback__)],
        "text": str(error),
        "shown": traceback.format_exception_only(error),
        "arguments": error.args,
        "attributes": vars(error),
        "carried": carried(error),
        "pickle": pickle.dumps(error),
    }


def watched(act: Callable[[], Any], capfd: pytest.CaptureFixture[str]) -> tuple[Any, Said]:
    """Do something and return its result, and all that was said."""
    result = error = None
    capfd.readouterr()
    with warnings.catch_warnings(record=True) as given, logged() as logs:
        warnings.simplefilter("always")
        try:
            result = act()
        except DpsubsetError as raised:
            error = facts(raised)
    shown = [(w.category, str(w.message), w.filename, w.lineno) for w in given]
    return result, Said(shown, logs, tuple(capfd.readouterr()), error)


@pytest.fixture
def both(capfd: pytest.CaptureFixture[str]) -> Any:
    """Do the same on two things; once before, so that compilers have said their words."""

    def compare(act: Callable[[Any], Any], pair: list[Any]) -> tuple[list[Any], list[str]]:
        watched(lambda: act(pair[0]), capfd)
        done = [watched(lambda thing=thing: act(thing), capfd) for thing in pair]
        results, said = [result for result, _ in done], [said for _, said in done]
        return results, difference(reached(said[0]), reached(said[1]))

    return compare


# Mechanisms -------------------------------------------------------------------------------------

SURE = 1e4  # an epsilon that leaves no doubt: another release has a chance below 1e-6, all told


def mechanisms(neighbours: str, epsilon: float = SURE, **more: Any) -> dict[str, tuple[Any, str]]:
    """Return mechanisms and the loss to try them on."""
    given: Any = {"neighbours": neighbours, **more}
    found = {
        "exponential": (Exponential(epsilon, **given), "squared"),
        "exponential, absolute": (Exponential(epsilon, **given), "absolute"),
        "permute-and-flip": (PermuteAndFlip(epsilon, **given), "squared"),
        "permute-and-flip, hinge": (PermuteAndFlip(epsilon, **given), "hinge"),
        "top-r": (TopR(epsilon, count=3, **given), "squared"),
        "top-r, trials": (TopR(epsilon, count=3, trials=5, accounting="sharp", **given), "squared"),
        "mistakes": (Mistakes(epsilon, **given), "absolute"),
        "mistakes, tested": (Mistakes(epsilon, delta=1e-3, **given), "absolute"),
        "mistakes, else": (
            Mistakes(epsilon, delta=1e-3, otherwise="exponential", **given),
            "absolute",
        ),
        "chain": (MarkovChain(epsilon, steps=400, **given), "squared"),
        "chain, greedy": (MarkovChain(epsilon, steps=9, start="greedy", **given), "absolute"),
        "chain, lasso": (MarkovChain(epsilon, steps=9, start="lasso", **given), "squared"),
        "chain, l1": (MarkovChain(epsilon, steps=400, ball="l1", **given), "squared"),
        "aggregate": (SampleAggregate(epsilon, blocks=9, **given), "squared"),
        "aggregate, hinge": (SampleAggregate(epsilon, blocks=5, **given), "hinge"),
        "stability": (LassoStability(epsilon, blocks=9, **given), "squared"),
    }
    if neighbours == "replace-one":
        of_margins = LassoStability(
            epsilon, method="perturbation", penalty=30, l1_bound=0.5, **given
        )
        found["stability, margins"] = (of_margins, "squared")
    return found


EVERY = list(mechanisms("replace-one"))


def traces(mechanism: Mechanism, loss: str, seed: int | None, both: Any) -> list[str]:
    """Release from both tables, and return what differs, and what the mechanism kept."""
    before = reached(mechanism), repr(mechanism), pickled(mechanism)
    pair = problems(mechanism.neighbours, loss)

    def act(problem: Problem) -> Any:
        released = (
            mechanism.release(problem) if seed is None else mechanism.experiment(problem, seed)
        )
        return {
            "release": released,
            "texts": (repr(released), str(released), str(released.guarantee)),
            "plain": json.dumps(released.to_dict()),
            "pickle": pickled(released),
        }

    results, different = both(act, pair)
    one, other = map(reached, results)
    assert results[0]["release"].support == results[1]["release"].support, "not comparable"
    different += difference(one, other) + rows_kept(one, pair[0].n_rows)
    after = reached(mechanism), repr(mechanism), pickled(mechanism)
    return different + [f"kept: {b}" for b, a in zip(before, after, strict=True) if b != a]


@BOTH
@pytest.mark.parametrize("name", EVERY)
def test_a_release_is_all_that_a_mechanism_leaves(name: str, neighbours: str, both: Any) -> None:
    known = mechanisms(neighbours)
    if name in known:
        assert traces(*known[name], None, both) == []


@pytest.mark.parametrize(
    "name", [name for name in EVERY if not name.endswith(("tested", "stability", "margins"))]
)
def test_so_it_is_where_chance_has_a_say(name: str, both: Any) -> None:
    """A small epsilon goes other ways through the samplers: the seeds are such that both agree."""
    mechanism, loss = mechanisms("replace-one", 2.0)[name]
    pair = problems("replace-one", loss)
    agreed = (s for s in range(60) if len({tuple(mechanism.draw(q, 1, s)[0]) for q in pair}) == 1)
    assert traces(mechanism, loss, next(agreed), both) == []


def test_a_real_promise_is_the_one_made_before() -> None:
    for mechanism, loss in mechanisms("replace-one").values():
        for problem in problems("replace-one", loss):
            before = mechanism.guarantee(problem)
            assert mechanism.release(problem).guarantee == before == mechanism.guarantee(problem)


@BOTH
@pytest.mark.parametrize("kind", [ObjectivePerturbation, NoisyStatistics])
def test_coefficients_are_all_that_a_fit_leaves(kind: Any, neighbours: str, both: Any) -> None:
    method = kind(5.0, neighbours=neighbours)
    before = reached(method), repr(method)
    for seed in (None, 3):
        results, different = both(
            lambda problem, seed=seed: method.release(problem, [1, 4], seed), problems(neighbours)
        )
        one, other = map(reached, results)
        values = difference(one, other)
        assert set(values) <= {"it.values[0]", "it.values[1]"}
        assert values  # the twin: numbers that differ are seen
        assert different == rows_kept(one, ROWS[neighbours][0]) == []
    assert (reached(method), repr(method)) == before


def plant(monkeypatch: pytest.MonkeyPatch, how: Callable[[Any, Problem, Any], Any]) -> None:
    """Let every release leave a trace: a function of mechanism, problem and release."""
    clean = Mechanism.release

    def release(self: Mechanism, problem: Problem) -> Any:
        released = clean(self, problem)
        return how(self, problem, released) or released

    monkeypatch.setattr(Mechanism, "release", release)


def score(problem: Problem) -> float:
    return problem.score([1, 4])


def remember(value: float) -> Callable[..., float]:
    return lambda kept=value: kept


class _Slotted:
    __slots__ = ("best",)

    def __init__(self, best: float) -> None:
        self.best = best


TRACES: dict[str, tuple[Callable[[Any, Problem, Any], Any], str]] = {
    "score": (lambda m, q, r: vars(r).update(score=score(q)), "it['release'].score"),
    "slot": (lambda m, q, r: vars(r).update(a={"b": [_Slotted(score(q))]}), ".a['b'][0].best"),
    "closure": (lambda m, q, r: vars(r).update(a=lambda: q), ".a.closure[q].y"),
    "default": (lambda m, q, r: vars(r).update(a=remember(score(q))), ".a.defaults[0][0]"),
    "partial": (
        lambda m, q, r: vars(r).update(a=functools.partial(max, score(q))),
        ".a.partial[1]",
    ),
    "method": (lambda m, q, r: vars(r).update(a=q.score), ".a.self.y"),
    "mechanism": (lambda m, q, r: vars(m).update(nodes=score(q)), "kept: "),
    "warning": (lambda m, q, r: warnings.warn(f"{score(q)}", stacklevel=1), "it.warnings[0][1]"),
    "log": (lambda m, q, r: logging.getLogger("a.b").debug("%s", score(q)), "it.logs[0][2]"),
    "print": (lambda m, q, r: print(score(q)), "it.streams[0]"),
}


@pytest.mark.parametrize("trace", list(TRACES))
def test_a_trace_is_noticed(trace: str, monkeypatch: pytest.MonkeyPatch, both: Any) -> None:
    how, where = TRACES[trace]
    plant(monkeypatch, how)
    assert any(where in way for way in traces(Exponential(SURE), "squared", None, both))


def test_the_last_bit_is_noticed() -> None:
    for one, other in [
        (1.0, math.nextafter(1.0, 2.0)),
        (0.0, -0.0),
        (np.ones(3), np.array([1.0, 1.0, 1.0 + 2**-52])),
        (np.ones(3), np.ones(3, dtype=np.float32)),
        ({1: {2, 3}}, {1: {2, 4}}),
        (np.array([1, "a"], dtype=object), np.array([1, "b"], dtype=object)),
        (np.random.default_rng(0), np.random.default_rng(1)),
        (pl.Series([1.0]), pl.Series([2.0])),
    ]:
        assert difference(reached([one]), reached([other]))
        assert not difference(reached([one]), reached([copy.deepcopy(one)]))


@pytest.mark.parametrize("kept", ["problem", "design", "target", "list", "series", "frame"])
def test_rows_that_are_kept_are_noticed(kept: str) -> None:
    X, y = tables()[0]
    problem = problems("replace-one")[0]
    held = {
        "problem": problem,
        "design": problem.design,
        "target": y,
        "list": X[:, 0].tolist(),
        "series": pl.Series(y),
        "frame": pd.DataFrame(X),
    }[kept]
    assert rows_kept(reached({"a": (1, held)}), len(y))
    assert rows_kept(reached({"a": (1, len(y), problem.size)}), len(y)) == []


# Estimators -------------------------------------------------------------------------------------

LABELS = ("no", "yes")
COEFFICIENTS = (r"\.coef_\b", r"\.intercept_\b")


def estimators(neighbours: str) -> dict[str, Any]:
    """Return estimators that select columns 1 and 4 for sure."""
    given: Any = {"n_features_to_select": 2, "neighbours": neighbours, "bounds_X": (0, 10)}
    # A window would be released, too, and differ.
    number: Any = {**given, "bounds_y": (-10, 10), "epsilon": SURE, "window_share": 0}
    label: Any = {**given, "classes": LABELS, "epsilon": SURE}
    found: dict[str, Any] = {
        name: SubsetSelector(**number, mechanism=name)
        for name in ("permute-and-flip", "exponential", "top-r", "mistakes")
    }
    found["seeded"] = SubsetSelector(**number, random_state=5)
    for kind in (SampleAggregate, LassoStability):
        blocks = kind(SURE, blocks=9, neighbours=neighbours)
        found[kind.__name__] = SubsetSelector(**number, mechanism=blocks)
    found["labels"] = SubsetSelector(**label, loss="hinge")
    found["labels that are found"] = SubsetSelector(**label | {"classes": None}, loss="logistic")
    found["regressor"] = SubsetRegressor(**number)
    found["statistics"] = SubsetRegressor(**number, coefficients="noisy-statistics")
    found["conditional"] = SubsetRegressor(**number, mechanism="mistakes", delta=1e-6)
    found["classifier"] = SubsetClassifier(**label, random_state=1)
    return found


def frames(neighbours: str, labels: bool) -> list[tuple[pd.DataFrame, Any]]:
    return [
        (pd.DataFrame(X, columns=NAMES), np.where(y > 0, *LABELS[::-1]) if labels else y)
        for X, y in tables(neighbours)
    ]


def views(fitted: Any) -> dict[str, Any]:
    """Return a fitted estimator and all that can be read off it; coefficients are set to 0."""
    bare = copy.deepcopy(fitted)
    for name in ("coef_", "intercept_"):
        if hasattr(bare, name):
            setattr(bare, name, np.zeros_like(getattr(bare, name)))
    public = pd.DataFrame(np.arange(12.0).reshape(2, 6), columns=NAMES)
    use = bare.transform if hasattr(bare, "transform") else bare.predict
    return {
        "object": fitted,
        "bare": bare,
        "texts": (repr(bare), str(bare), str(bare.guarantee_), bare.guarantee_.to_dict()),
        "html": re.sub(r"id-\d+", "id", bare._repr_html_()),
        "parameters": bare.get_params(),
        "pickle": pickled(bare),
        "clone": clone(fitted),
        "tags": bare.__sklearn_tags__(),
        "state": bare.__getstate__(),
        "use": np.asarray(use(public)),
        "used": bare,
        "release": bare.release_.to_dict() if hasattr(bare, "release_") else None,
    }


def kept(name: str, neighbours: str, both: Any) -> list[str]:
    """Fit an estimator on both tables, and return what differs beside coefficients."""
    estimator = estimators(neighbours)[name]
    named = getattr(estimator, "classes", None) is not None
    loss = default_loss(named) if estimator.loss is None else estimator.loss
    pair = frames(neighbours, as_loss(loss).classification)
    # Made anew for each table: a copy would tell that it is the second one.
    results, different = both(lambda t: views(estimators(neighbours)[name].fit(*t)), pair)
    one, other = map(reached, results)
    assert results[0]["object"].support_.tolist() == [False, True, False, False, True, False]
    numbers = difference(one, other, ()) != difference(one, other, COEFFICIENTS)
    assert numbers == hasattr(results[0]["object"], "coef_")  # twin: what is left out is there
    return different + difference(one, other, COEFFICIENTS) + rows_kept(one, len(pair[0][1]))


@pytest.mark.grid(every=5)
@BOTH
@pytest.mark.parametrize("name", list(estimators("replace-one")))
def test_a_fit_keeps_what_was_released(name: str, neighbours: str, both: Any) -> None:
    assert kept(name, neighbours, both) == []


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("name", ["exponential", "regressor", "classifier"])
@pytest.mark.parametrize("trace", ["score", "rows", "problem", "warning"])
def test_a_fit_that_keeps_more_is_noticed(
    name: str, trace: str, both: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(estimators("replace-one")[name])
    clean = kind.fit

    def fit(self: Any, X: Any, y: Any) -> Any:
        total = float(X["x0"].sum())
        if trace == "warning":
            warnings.warn(f"clipped {total}", stacklevel=1)
        else:
            held = {"score": total, "rows": X["x0"].to_numpy(), "problem": problems("replace-one")}
            self.kept_ = held[trace]
        return clean(self, X, y)

    monkeypatch.setattr(kind, "fit", fit)
    assert kept(name, "replace-one", both) != []


# Errors -----------------------------------------------------------------------------------------


def wide() -> list[Problem]:
    """Two problems that take some work: 36 columns, thirty million supports."""
    out = []
    for seed in range(2):
        X = np.random.default_rng(seed).uniform(-1, 1, (40, 36))
        target = X @ np.random.default_rng(seed + 9).uniform(-1, 1, 36) / 9
        out.append(Problem(X, target, size=8, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=0.01))
    return out


@pytest.mark.parametrize("limits", [Limits(nodes=1), Limits(seconds=1e-9)], ids=["nodes", "time"])
@pytest.mark.parametrize("name", [n for n in EVERY if "," not in n])
def test_a_stop_at_a_limit_says_the_same_for_all_data(name: str, limits: Limits, both: Any) -> None:
    mechanism, _ = mechanisms("replace-one", 1e5, limits=limits)[name]
    before = reached(mechanism)
    results, different = both(mechanism.release, wide())
    assert results == [None, None]
    assert different == []
    assert reached(mechanism) == before
    with pytest.raises(UnprovenError, match="count the budget as spent"):
        mechanism.release(wide()[0])


def test_a_refusal_comes_by_the_same_lines_wherever_the_work_ended(
    both: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A race ends at a limit in one of two places, each half the time, by chance and by the data.

    The twin, which tells where, goes unnoticed with a chance of 2^-20.
    """
    mechanism, _ = mechanisms("replace-one", 1e5, limits=Limits(nodes=1))["permute-and-flip"]
    pair = wide()
    tries = range(20)
    assert all(both(mechanism.release, pair) == ([None, None], []) for _ in tries)
    monkeypatch.setattr(base, "refusing", nullcontext)
    assert any("it.error['lines']" in str(both(mechanism.release, pair)) for _ in tries)


REFUSING = {
    "subsampling": LassoStability(0.01, blocks=5),
    "perturbation": LassoStability(0.01, method="perturbation"),
    "mistakes": Mistakes(0.01, delta=1e-6),
}


@pytest.mark.parametrize("name", list(REFUSING))
def test_a_refusal_says_the_same_for_all_data(name: str, both: Any) -> None:
    pair = problems("replace-one")
    for act in (REFUSING[name].release, lambda problem: REFUSING[name].experiment(problem, 0)):
        assert both(act, pair) == ([None, None], [])
    with pytest.raises(RefusedError, match="the budget is spent"):
        REFUSING[name].release(pair[0])


def test_a_fit_that_fails_leaves_the_same_behind() -> None:
    for settings, error in [
        ({"max_seconds": 1e-9, "epsilon": 1e5, "ridge": 0.0}, UnprovenError),
        ({"mechanism": REFUSING["subsampling"]}, RefusedError),
    ]:
        left = []
        for problem in wide():
            X, y = problem.design.take(np.arange(36)), problem.y
            selector = SubsetSelector(
                n_features_to_select=8, bounds_X=(-1, 1), bounds_y=(-1, 1), **settings
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with pytest.raises(error) as raised:
                    selector.fit(X, y)
            assert carried(raised.value) == {}
            left.append(reached([vars(selector), facts(raised.value)]))
        assert left[0] == left[1]


SECRET = "s7351"


def spoilt(how: str, place: int) -> tuple[Any, Any, dict[str, Any]]:
    """Return a table with something wrong in row and column `place`, and options."""
    X, y = tables()[0]
    options: dict[str, Any] = {"bounds_y": (-10, 10)}
    if how in ("nan", "inf"):
        X[place, place % 6] = float(how)
    elif how == "target":
        y[place] = np.nan
    else:
        words = np.where(y > 0, *LABELS).astype(object)
        words[place] = f"{SECRET}{place}"
        options = {"loss": "hinge", "classes": LABELS if how == "label" else None}
        return X, words, options
    return X, y, options


@pytest.mark.parametrize("how", ["nan", "inf", "target", "label", "third label"])
def test_a_table_that_is_refused_shows_nothing_of_itself(how: str) -> None:
    shown = []
    for place in (17, 158):
        X, y, options = spoilt(how, place)
        selector = SubsetSelector(n_features_to_select=2, bounds_X=(0, 10), **options)
        with pytest.raises(InputError) as raised:
            selector.fit(X, y)
        text = "".join(traceback.format_exception(raised.value))
        assert SECRET not in text
        assert carried(raised.value) == {}
        shown.append(reached([facts(raised.value), vars(selector)]))
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    "trace", ["text", "note", "attribute", "cause", "context", "hidden", "line"]
)
def test_an_error_that_tells_is_noticed(
    trace: str, both: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def release(self: Mechanism, problem: Problem) -> None:
        error = UnprovenError(f"gap {score(problem)}" if trace == "text" else "a gap")
        if trace == "note":
            error.add_note(f"{score(problem)}")
        if trace == "attribute":
            error.gap = score(problem)  # type: ignore[attr-defined]
        if trace == "line" and score(problem) == score(problems("replace-one")[0]):
            raise error
        if trace in ("context", "hidden"):
            error.__context__ = ValueError(score(problem))
            error.__suppress_context__ = trace == "hidden"
            raise error
        raise error from (ValueError(score(problem)) if trace == "cause" else None)

    monkeypatch.setattr(Mechanism, "release", release)
    assert both(Exponential(1.0).release, problems("replace-one"))[1] != []


# Ledgers ----------------------------------------------------------------------------------------

# The clock, and before it the random token that a ledger knows a spend by.
CLOCK = re.compile(rb"([0-9a-f]{32})?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def written(path: Path) -> dict[str, Any]:
    """Return what a ledger shows and the bytes of its file, but for clock and token."""
    ledger = Ledger(path)
    content = CLOCK.sub(b"", path.read_bytes())
    shown = CliRunner().invoke(app, ["ledger", str(path), "--json"]).stdout.encode()
    return {
        "texts": (repr(ledger), str(ledger), CLOCK.sub(b"", shown)),
        "object": ledger,
        "content": content,
        "files": sorted(p.name for p in path.parent.iterdir()),
    }


def charged(name: str, neighbours: str, path: Path) -> list[dict[str, Any]]:
    """Release from both tables, each charged to a new ledger at the same place."""
    out = []
    for problem in problems(neighbours, mechanisms(neighbours)[name][1]):
        path.unlink(missing_ok=True)
        ledger = Ledger(path, epsilon=2 * SURE, delta=0.1, neighbours=neighbours)
        mechanisms(neighbours, ledger=ledger)[name][0].release(problem)
        with suppress(RefusedError):
            LassoStability(0.01, blocks=5, neighbours=neighbours, ledger=ledger).release(problem)
        assert [entry.outcome for entry in ledger.history()] == ["released", "refused"]
        out.append(reached(written(path)))
    return out


@BOTH
@pytest.mark.parametrize("name", ["exponential", "top-r", "mistakes, tested", "aggregate"])
def test_a_ledger_holds_what_was_released(name: str, neighbours: str, tmp_path: Path) -> None:
    assert difference(*charged(name, neighbours, tmp_path / "a.db")) == []


def test_a_ledger_that_holds_more_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = Mechanism.asked

    def asked(self: Mechanism, problem: Problem) -> Any:
        return {**clean(self, problem), "energy": round(problem.energy, 6)}

    monkeypatch.setattr(Mechanism, "asked", asked)
    found = difference(*charged("exponential", "replace-one", tmp_path / "a.db"))
    assert "it['content']" in found


# The command ------------------------------------------------------------------------------------

FILLED = [
    *("t.csv", "--target", "y", "--size", "2", "--epsilon", str(SURE), "--bounds", "b.toml"),
    *("--window-share", "0"),  # a window would be released, too, and differ
]
SHOWN = {
    "plain": ["select", *FILLED],
    "json": ["select", *FILLED, "--json"],
    "quiet": ["select", *FILLED, "--quiet"],
    "file": ["select", *FILLED, "--output", "r.json"],
    "all": ["select", *FILLED, "--mechanism", "all", "--json", "--output", "r.json"],
    "seeded": ["select", *FILLED, "--json", "--seed", "4"],
    "labels": ["select", *FILLED, "--json", "--loss", "hinge"],
    "limit": ["select", *FILLED, "--max-seconds", "1e-9", "--size", "8", "--output", "r.json"],
    "refused": ["select", *FILLED, "--mechanism", "lasso-stability", "--epsilon", "0.1"],
    "ledger": ["select", *FILLED, "--ledger", "l.db"],
    "report": ["select", *FILLED, "--quiet", "--report", "r.html", "--ledger", "l.db"],
    "fit": ["fit", *FILLED, "--output", "m.json"],
    "statistics": ["fit", *FILLED, "--output", "m.json", "--coefficients", "noisy-statistics"],
}


def outcome(words: list[str], folder: Path) -> dict[str, Any]:
    """Run the command in a folder and return its streams and its files."""
    for path in [*folder.glob("*.json"), *folder.glob("*.db")]:
        path.unlink()
    if "--ledger" in words:
        Ledger("l.db", epsilon=2 * SURE, neighbours=words[-1])
    result = CliRunner().invoke(app, words)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    files = {p.name: (p.stat().st_mode, CLOCK.sub(b"", p.read_bytes())) for p in folder.iterdir()}
    return {
        "code": result.exit_code,
        "streams": (result.stdout, result.stderr),
        "files": {name: files[name] for name in sorted(files) if name != "t.csv"},
    }


def without_coefficients(found: Any) -> Any:
    """Leave out released numbers: from the model's file, and from the lines that show them."""
    shown, words = found["streams"]
    line = re.compile(r"^(  (?:x\d|intercept) +)-?[\d.e+-]+$", re.MULTILINE)
    assert len(line.findall(shown)) == 3
    mode, text = found["files"]["m.json"]
    model = json.loads(text)
    for name in ("coefficients", "intercept", "offset"):
        model["released"].pop(name, None)
    del model["sha256"]
    files = {**found["files"], "m.json": (mode, model)}
    return {**found, "streams": (line.sub(r"\1", shown), words), "files": files}


def told(name: str, neighbours: str, folder: Path, both: Any) -> list[str]:
    """Run the command on both tables and return what differs."""
    (folder / "b.toml").write_text("[default]\nbounds = [-10, 10]\n")
    pair = [pl.DataFrame(X, schema=NAMES).with_columns(y=y) for X, y in tables(neighbours)]
    if name == "labels":
        pair = [frame.with_columns(y=frame["y"] > 0) for frame in pair]
    if name == "limit":
        names = [f"x{j}" for j in range(36)]
        pair = [
            pl.DataFrame(q.design.take(np.arange(36)), names).with_columns(y=q.y) for q in wide()
        ]

    def act(frame: pl.DataFrame) -> Any:
        frame.write_csv(folder / "t.csv")
        found = outcome([*SHOWN[name], "--neighbours", neighbours], folder)
        assert found["code"] == (name in ("limit", "refused")), found
        return without_coefficients(found) if SHOWN[name][0] == "fit" else found

    results, different = both(act, pair)
    one, other = map(reached, results)
    return different + difference(one, other)


@pytest.mark.grid(every=7)
@BOTH
@pytest.mark.parametrize("name", list(SHOWN))
def test_the_command_tells_what_was_released(
    name: str, neighbours: str, tmp_path: Path, both: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert told(name, neighbours, tmp_path, both) == []


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("name", ["json", "file", "fit", "plain", "report"])
def test_a_command_that_tells_more_is_noticed(
    name: str, tmp_path: Path, both: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clean = asked.read_table
    total: list[float] = []

    def read(*arguments: Any, **options: Any) -> Any:
        table = clean(*arguments, **options)
        total[:] = [float(table.y.sum())]
        return table

    plain, warn = Mechanism.asked, selecting.seeded_warning
    monkeypatch.setattr(asked, "read_table", read)
    if name == "plain":
        monkeypatch.setattr(selecting, "seeded_warning", lambda seed: f"sum {total[0]}")
    else:
        monkeypatch.setattr(Mechanism, "asked", lambda *a: {**plain(*a), "sum": total[0]})
    assert warn(None) is None
    assert told(name, "replace-one", tmp_path, both) != []
