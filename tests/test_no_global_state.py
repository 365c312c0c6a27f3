"""Releases, draws, fits and searches change nothing that the whole process shares, nor read it.

Sources are looked at by their syntax; a round of calls is run between two pictures of the process.
"""
# ruff: noqa: NPY002 - the old generator is what is watched here

from __future__ import annotations

import ast
import copy
import decimal
import importlib
import locale
import logging
import os
import pkgutil
import random
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import scipy.special
import sklearn
from typer.testing import CliRunner

import dpsubset
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
    audit,
    search,
)
from dpsubset.cli import app
from dpsubset.coefficients import NoisyStatistics, ObjectivePerturbation
from dpsubset.errors import RefusedError
from dpsubset.losses import base
from dpsubset.losses import changed as changed_losses
from dpsubset.privacy import Randomness

SOURCES = Path(dpsubset.__file__).parent


def table(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).uniform(-1, 1, (60, 5))
    return X, (X[:, 1] - X[:, 3]) / 2


def problem(loss: str = "squared", seed: int = 0) -> Problem:
    X, y = table(seed)
    options: Any = {"size": 2, "x_bound": 1.0, "radius": 1.0, "ridge": 0.1, "loss": loss}
    if loss == "hinge":
        return Problem(X, np.where(y > 0, 1, -1), classes=(-1, 1), **options)
    return Problem(X, y, y_bound=1.0, **options)


def _estimate(kind: Any, seed: int | None, **options: Any) -> Any:
    X, y = table()
    target = y if "bounds_y" in options else y > 0
    given = {"n_features_to_select": 2, "bounds_X": (-1, 1), "epsilon": 3.0, "random_state": seed}
    return kind(**given, **options).fit(X, target).support_.tolist()


def _command(seed: int | None) -> str:
    words = ["select", "t.csv", "--target", "y", "--size", "2", "--bounds", "b.toml", "--json"]
    words += [] if seed is None else ["--seed", str(seed)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def _charged(seed: int | None) -> Any:
    mechanism = Exponential(2.0, ledger=Ledger("budget.db", epsilon=1e9))
    return [mechanism.draw(problem(), 1, s).tolist() for s in (seed, seed)]


def _sampled() -> Any:
    (other,) = audit.neighbouring(problem(), 1)
    return audit.sampled(Exponential(1.0), problem(), other, draws=50, random_state=0)


def drawing(mechanism: Any, loss: str = "squared") -> Callable[[int | None], Any]:
    """Return a function of a seed that draws; without a seed from the operating system."""

    def draw(seed: int | None) -> Any:
        with suppress(RefusedError):
            if seed is None:
                mechanism.release(problem(loss))
            else:
                mechanism.experiment(problem(loss), seed)
        return mechanism.draw(problem(loss), 8, seed).tolist()

    return draw


def fitting(method: Any, loss: str) -> Callable[[int | None], Any]:
    return lambda seed: method.release(problem(loss), [1, 3], seed).values


REGRESSION: Any = {"bounds_y": (-1, 1)}
CALLS: dict[str, Callable[[int | None], Any]] = {
    "exponential": drawing(Exponential(2.0)),
    "absolute": drawing(Exponential(2.0), "absolute"),
    "permute-and-flip": drawing(PermuteAndFlip(2.0)),
    "hinge": drawing(PermuteAndFlip(2.0), "hinge"),
    "top-r": drawing(TopR(2.0)),
    "mistakes": drawing(Mistakes(2.0)),
    "mistakes, tested": drawing(Mistakes(2.0, delta=0.1, otherwise="exponential")),
    "chain": drawing(MarkovChain(2.0, steps=20)),
    "lasso chain": drawing(MarkovChain(2.0, steps=20, start="lasso", ball="l1")),
    "aggregate": drawing(SampleAggregate(2.0, blocks=5)),
    "svm": drawing(SampleAggregate(2.0, blocks=5), "hinge"),
    "stability": drawing(LassoStability(2.0, blocks=5)),
    "margins": drawing(LassoStability(2.0, method="perturbation")),
    "objective": fitting(ObjectivePerturbation(1.0), "huber"),
    "gaussian": fitting(ObjectivePerturbation(1.0, delta=1e-6), "huber"),
    "statistics": fitting(NoisyStatistics(1.0), "squared"),
    "selector": lambda seed: _estimate(SubsetSelector, seed, **REGRESSION),
    "regressor": lambda seed: _estimate(SubsetRegressor, seed, **REGRESSION),
    "classifier": lambda seed: _estimate(SubsetClassifier, seed, classes=(False, True)),
    "command": _command,
    "charged": _charged,
}
SEARCHES: dict[str, Callable[[int | None], Any]] = {
    "best": lambda seed: search.best(problem()).support,
    "top": lambda seed: [f.support for f in search.top(problem("absolute"), 3)],
    "buckets": lambda seed: [f.support for f in search.best_by_mistakes(problem())],
    "outer": lambda seed: search.best(problem(), solver="outer-approximation").support,
    "mip": lambda seed: search.best(problem(), solver="mip").support,
    "audit": lambda seed: str(
        audit.exact(Exponential(1.0), problem(), audit.neighbouring(problem(), 1))
    ),
    "replay": lambda seed: str(audit.replay(Exponential(1.0), problem(), [problem(seed=1)])),
    "sampled": lambda seed: str(_sampled()),
    "law": lambda seed: Exponential(2.0).probabilities(problem())[1].tolist(),
    "race": lambda seed: PermuteAndFlip(2.0).probabilities(problem())[1].tolist(),
}
ALL = CALLS | SEARCHES


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a table, for the command."""
    monkeypatch.chdir(tmp_path)
    X, y = table()
    rows = "\n".join(",".join(map(repr, row)) for row in np.column_stack([X, y]).tolist())
    Path("t.csv").write_text(f"a,b,c,d,e,y\n{rows}\n")
    Path("b.toml").write_text("[default]\nbounds = [-1, 1]\n")


# A picture of the process -----------------------------------------------------------------------


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def picture() -> dict[str, Any]:
    """Return what all parts of a process share, and a call of a library should not touch."""
    root = logging.getLogger()
    return {
        "numpy's random state": str(np.random.get_state()),
        "random's state": random.getstate(),
        "numpy's errors": (np.geterr(), np.geterrcall(), np.getbufsize()),
        "numpy's printing": str(np.get_printoptions()),
        "scipy's errors": scipy.special.geterr(),
        "scikit-learn": sklearn.get_config(),
        "threads": (numba.get_num_threads(), numba.config.NUMBA_NUM_THREADS),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "logging": (root.level, list(root.handlers), root.manager.disable, sorted(_levels())),
        "locale": locale.setlocale(locale.LC_ALL),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "umask": _umask(),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "alarm": signal.getitimer(signal.ITIMER_REAL),
        "decimals": str(decimal.getcontext()),
        "limits": (sys.getrecursionlimit(), sys.getswitchinterval(), threading.stack_size()),
        "hooks": (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook),
        "streams": (id(sys.stdout), id(sys.stderr), id(sys.stdin)),
        "path": list(sys.path),
        "files": sorted(path.name for path in Path.cwd().iterdir()),
    }


def _levels() -> Iterator[tuple[str, int]]:
    """Return the loggers that have a level of their own."""
    for name, logger in logging.getLogger().manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and logger.level:
            yield name, logger.level


def changed(act: Callable[[], Any]) -> list[str]:
    """Do something and return the parts of the picture that are different after it."""
    before, alive = picture(), set(threading.enumerate())
    act()
    after, new = picture(), set(threading.enumerate()) - alive
    return [name for name in before if before[name] != after[name]] + [t.name for t in new]


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("name", list(ALL))
def test_a_call_leaves_the_process_as_it_was(name: str, seed: int | None) -> None:
    ALL[name](seed)  # libraries that are imported on first use may set themselves up
    assert changed(lambda: ALL[name](seed)) == []


TOUCHES: dict[str, Callable[[], Any]] = {
    "numpy's random state": lambda: np.random.random_sample(),
    "random's state": random.random,
    "numpy's errors": lambda: np.seterr(over="call"),
    "warnings": lambda: warnings.simplefilter("ignore"),
    "logging": lambda: logging.getLogger("dpsubset").setLevel(logging.DEBUG),
    "environment": lambda: os.environ.update(OMP_NUM_THREADS="7"),
    "folder": lambda: os.chdir(os.sep),
    "umask": lambda: os.umask(0o135),
    "signals": lambda: signal.signal(signal.SIGUSR1, lambda number, frame: None),
    "files": lambda: Path("kept.json").write_text("{}"),
}


@pytest.mark.parametrize("name", list(TOUCHES))
def test_a_touch_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clean, handler, mask = Randomness.uniforms, signal.getsignal(signal.SIGUSR1), _umask()
    environment, errors = dict(os.environ), np.geterr()

    def uniforms(self: Randomness, count: int) -> Any:
        TOUCHES[name]()
        return clean(self, count)

    monkeypatch.setattr(Randomness, "uniforms", uniforms)
    with warnings.catch_warnings():
        try:
            assert name in changed(lambda: ALL["exponential"](3))
        finally:
            signal.signal(signal.SIGUSR1, handler)
            os.umask(mask)
            os.environ.clear()
            os.environ.update(environment)
            np.seterr(**errors)
            logging.getLogger("dpsubset").setLevel(logging.NOTSET)


# The state of others is not read ----------------------------------------------------------------


def after_seeds(act: Callable[[int | None], Any], seed: int | None, given: int) -> Any:
    """Do something after both global generators were seeded, and leave them as they were."""
    kept, plain = np.random.get_state(), random.getstate()
    np.random.seed(given)
    random.seed(given)
    try:
        return act(seed)
    finally:
        np.random.set_state(kept)
        random.setstate(plain)


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("name", list(ALL))
def test_a_seeded_draw_does_not_read_the_global_state(name: str) -> None:
    assert after_seeds(ALL[name], 5, 1) == after_seeds(ALL[name], 5, 2)


@pytest.mark.parametrize("name", ["exponential", "permute-and-flip", "chain", "objective"])
def test_a_real_draw_is_not_steered_by_the_global_state(name: str) -> None:
    """Sixteen draws among ten supports, or real numbers: equal with a chance below 1e-6."""
    act: Any = {"chain": drawing(MarkovChain(0.1, steps=20))}.get(name, CALLS[name])
    if name in ("exponential", "permute-and-flip"):
        kind = {"exponential": Exponential, "permute-and-flip": PermuteAndFlip}[name]
        act = drawing(kind(0.01))

    def twice(seed: int | None) -> Any:
        return act(seed), act(seed)

    assert after_seeds(twice, None, 1) != after_seeds(twice, None, 1)


def test_a_draw_that_reads_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Randomness, "uniforms", lambda self, count: np.random.random_sample(count))
    act = drawing(Exponential(0.01))
    assert after_seeds(act, 5, 1) != after_seeds(act, 5, 2)
    assert after_seeds(act, None, 1) == after_seeds(act, None, 1)


# Modules and classes ----------------------------------------------------------------------------

MUTABLE = (dict, list, set, bytearray, np.ndarray)


def modules() -> list[types.ModuleType]:
    """Return all modules of the package."""
    names = [m.name for m in pkgutil.walk_packages([str(SOURCES)], "dpsubset.")]
    used = [n for n in names if n != "dpsubset.__main__"]
    return [dpsubset, *map(importlib.import_module, used)]


def holders() -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the names that modules, classes and functions of the package bind."""
    for module in modules():
        yield module.__name__, dict(vars(module))
        for name, thing in list(vars(module).items()):
            if getattr(thing, "__module__", None) != module.__name__:
                continue
            if isinstance(thing, type):
                yield f"{module.__name__}.{name}", dict(vars(thing))
            if isinstance(thing, types.FunctionType):
                held = {**vars(thing), "()": thing.__defaults__, "(*)": thing.__kwdefaults__}
                yield f"{module.__name__}.{name}", held


def bound() -> dict[str, Any]:
    """Return for every name what it is bound to, and a copy of what it holds."""
    found = {}
    for holder, names in holders():
        for name, thing in names.items():
            if not name.startswith("__") and not isinstance(thing, types.ModuleType):
                held = copy.copy(thing) if isinstance(thing, MUTABLE) else None
                found[f"{holder}.{name}"] = (id(thing), held)
    return found


def remembered(act: Callable[[], Any]) -> list[str]:
    """Do something and return the names that were bound anew, or whose contents changed."""
    before = bound()
    act()
    after = bound()
    return sorted(
        name
        for name in before.keys() | after.keys()
        if before.get(name, (0, 0))[0] != after.get(name, (0, 0))[0]
        or not same(before[name][1], after[name][1])
    )


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal; a number that is none equals itself."""
    return bool(np.array_equal(one, other)) or repr(one) == repr(other)


def a_round() -> None:
    for name, act in ALL.items():
        if name != "command":
            act(3)


POINTERS = "dpsubset.losses.base._POINTERS"


def test_modules_and_classes_remember_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    a_round()  # names that are imported on first use are there now
    monkeypatch.setattr(base, "_POINTERS", {})
    assert remembered(a_round) == [POINTERS]
    # What is kept there is a loss's function and its compiled form, the same for all tables.
    losses = {kind.rows for kind in _kinds(base.Loss) if "rows" in vars(kind)}
    made = set(changed_losses._MADE.values())
    assert {rows for _, rows in changed_losses._MADE} <= losses | made
    assert {rows for rows, _ in base._POINTERS} <= losses | made
    assert remembered(a_round) == []


def _kinds(kind: type) -> Iterator[Any]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


@pytest.mark.parametrize("where", ["module", "container", "class", "function"])
def test_a_memory_is_noticed(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["dpsubset.sampling.drawing"]
    clean, kept = module.draw_proportional, []
    monkeypatch.setattr(module, "_LAST", kept, raising=False)
    monkeypatch.setattr(module, "_OTHER", None, raising=False)
    monkeypatch.setattr(Exponential, "last", None, raising=False)

    def draw(*given: Any) -> Any:
        support = clean(*given)
        if where == "module":
            module._OTHER = support
        elif where == "container":
            kept.append(support)
        elif where == "class":
            Exponential.last = support
        else:
            clean.last = support
        return support

    monkeypatch.setattr(module, "draw_proportional", draw)
    assert remembered(lambda: ALL["exponential"](3)) != []


# Sources ----------------------------------------------------------------------------------------


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCES.rglob("*.py")):
        yield path.relative_to(SOURCES).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def dotted(node: ast.expr) -> str:
    """Return a name such as np.random.seed, or nothing for what is no name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return dotted(node.func) if isinstance(node, ast.Call) else ""


# Of numpy.random: generators that are given their seed, and types that arguments are compared with.
ALLOWED = {"default_rng", "Generator", "SeedSequence", "RandomState"}
ENTROPY = {"random", "secrets", "uuid", "tempfile"}


def faults(tree: ast.Module) -> list[str]:
    """Return what a source does with state that is shared."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            found.append(f"global {', '.join(node.names)}")
        if isinstance(node, ast.Import):
            found += [f"import {a.name}" for a in node.names if a.name.split(".")[0] in ENTROPY]
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ENTROPY:
            found.append(f"from {node.module}")
        if isinstance(node, ast.ImportFrom) and node.module in ("numpy", "numpy.random"):
            found += [f"import {a.name}" for a in node.names if a.name not in ALLOWED]
        if isinstance(node, ast.Attribute) and dotted(node.value) in ("np.random", "numpy.random"):
            found += [] if node.attr in ALLOWED else [dotted(node)]
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            bare = called.endswith("default_rng") and not (node.args or node.keywords)
            found += [called] if bare or called.endswith("RandomState") else []
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            defaults = [*node.args.defaults, *node.args.kw_defaults]
            made = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
            found += ["a default that can change" for d in defaults if isinstance(d, made)]
    return found


def test_no_source_uses_global_state() -> None:
    found = {(name, fault) for name, tree in trees() for fault in faults(tree)}
    assert found == {
        ("privacy/randomness.py", "import secrets"),  # the one door to the system's randomness
        ("privacy/ledger.py", "import secrets"),  # a spend's name, for which no table matters
        ("audit/replay.py", "import random"),  # an audit looks whether a mechanism touched them
        ("audit/replay.py", "np.random.get_state"),
        ("audit/doors.py", "import tempfile"),  # names of files for synthetic tables
        ("warm.py", "import tempfile"),  # the same, for a table that is only compiled for
        ("designs/dask.py", "import uuid"),  # names of tasks, which tell nothing of the data
    }


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    global kept\n    kept = 1",
        "import random",
        "from random import shuffle",
        "from numpy.random import rand",
        "import numpy as np\nnp.random.seed(0)",
        "import numpy as np\ndef f(): return np.random.normal()",
        "import numpy as np\nrng = np.random.default_rng()",
        "import numpy as np\nrng = np.random.RandomState(0)",
        "def f(kept=[]): kept.append(1)",
        "f = lambda *, kept={}: kept",
    ],
)
def test_a_fault_in_a_source_is_noticed(source: str) -> None:
    assert faults(ast.parse(source))


def caches(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Return the functions that remember what they returned, and how many arguments they take."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            marks = {dotted(mark).split(".")[-1] for mark in node.decorator_list}
            if marks & {"cache", "lru_cache", "memoize", "jit", "njit", "vectorize"}:
                given = node.args
                named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                yield node.name, len(named) + bool(given.vararg) + bool(given.kwarg)


def test_functions_that_remember_take_no_data() -> None:
    """The list is known: whoever adds to it says here that no table reaches the new one."""
    found = {(name, *cache) for name, tree in trees() for cache in caches(tree)}
    assert found == {
        ("reproduction/settings.py", "settings", 0),
        ("mechanisms/permute_and_flip.py", "_legendre", 0),
        ("audit/densities.py", "_nodes", 1),  # nodes of an integral, by their number
    }
    assert list(caches(ast.parse("@functools.lru_cache(9)\ndef f(X): ..."))) == [("f", 1)]


def test_properties_that_remember_belong_to_the_owner_of_the_table() -> None:
    """Problems, designs, cuts and trees hold data anyway; what is released or promised does not.

    Estimators remember nothing, either.
    """
    found = set()
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                marks = {dotted(mark).split(".")[-1] for mark in node.decorator_list}
                found |= {name} if "cached_property" in marks else set()
    # The others are values of public settings, which no table reaches.
    code = {"compiled.py", "dispatching.py"}
    public = {"selection.py", "model.py", "data/schema.py", "designs/features.py", *code}
    cuts = {"cuts/at_hand.py", "cuts/bending.py", "cuts/dual.py", "cuts/dual_at_hand.py"}
    cuts.add("cuts/perspective.py")
    assert found == {"problem.py", "designs/gram.py", "search/bending_tree.py", *cuts, *public}
