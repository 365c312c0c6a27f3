"""Functions are compiled once and kept, or run as they are; neither changes an answer."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import config
from numba.core.errors import NumbaError

import dpsubset
from dpsubset import Exponential, PermuteAndFlip, Problem
from dpsubset import compiled as module
from dpsubset.cli.quick import _SMALL, _SMALL_WITH_KINKS
from dpsubset.compiled import compiled, interpreted, is_plain
from dpsubset.limits import Limits

SOURCE = Path(dpsubset.__file__).parents[1]
compiles = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")

PROGRAM = """
import sys
from dpsubset.compiled import compiled, interpreted
from doubling import double
if sys.argv[1:] == ["full"]:
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
if sys.argv[1:] == ["threads"]:
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(8) as pool:
        print(*set(pool.map(double, [4.0] * 8)))
elif sys.argv[1:] == ["plain"]:
    with interpreted():
        print(double(4.0))
else:
    print(double(4.0))
print(len(double.signatures))
"""

DOUBLING = """
from dpsubset.compiled import compiled

@compiled()
def twice(x):
    return x + x

@compiled()
def double(x):
    return twice(x)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "doubling.py").write_text(DOUBLING)
    return tmp_path


def run(folder: Path, *words: str, **environment: str) -> tuple[list[str], str]:
    paths = os.pathsep.join([str(SOURCE), str(folder)])
    done = subprocess.run(
        [sys.executable, str(folder / "program.py"), *words],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout.split(), done.stderr


@pytest.mark.slow
@compiles
def test_the_first_start_says_that_it_compiles_and_the_second_is_silent(folder: Path) -> None:
    answer, told = run(folder, NUMBA_CACHE_DIR=str(folder / "kept"))
    assert answer == ["8.0", "1"]
    assert told.splitlines() == [module.PREPARING]
    assert len(list((folder / "kept").rglob("*.nbi"))) == 2
    again, told = run(folder, NUMBA_CACHE_DIR=str(folder / "kept"))
    assert again == answer
    assert told == ""


@compiles
def test_plain_calls_compile_and_keep_nothing(folder: Path) -> None:
    answer, told = run(folder, "plain", NUMBA_CACHE_DIR=str(folder / "kept"))
    assert answer == ["8.0", "0"]
    assert told == ""
    assert not (folder / "kept").exists()


@compiles
def test_threads_may_call_the_first_function_together(folder: Path) -> None:
    """numba is loaded by one of them, and the others wait."""
    assert run(folder, "threads", NUMBA_CACHE_DIR=str(folder / "kept"))[0] == ["8.0", "1"]


def test_plain_calls_do_not_load_numba(folder: Path) -> None:
    code = (
        "import sys; import doubling; from dpsubset.compiled import interpreted\n"
        "with interpreted(): print(doubling.double(4.0), 'numba' in sys.modules)"
    )
    (folder / "program.py").write_text(code)
    assert run(folder)[0] == ["8.0", "False"]


@pytest.mark.slow
@compiles
def test_where_nothing_can_be_kept_that_is_said(folder: Path) -> None:
    """No folder can be made below a file, not even by root."""
    (folder / "__pycache__").write_text("")
    (folder / "home").write_text("")
    nowhere = {"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "home")}
    answer, told = run(folder, NUMBA_CACHE_DIR="", **nowhere)
    assert answer == ["8.0", "1"]
    first, second = told.splitlines()
    assert first == module.PREPARING
    assert second.startswith("dpsubset: the compiled code cannot be kept (")


@pytest.mark.slow
@compiles
def test_a_full_disk_costs_time_and_nothing_else(folder: Path) -> None:
    """No file may grow beyond 1000 bytes, so that every write of the cache fails in its middle."""
    kept = str(folder / "kept")
    for _ in range(2):  # what is left there does no harm
        answer, told = run(folder, "full", NUMBA_CACHE_DIR=kept)
        assert answer == ["8.0", "1"]
        first, second = told.splitlines()
        assert first == module.PREPARING
        assert second.startswith("dpsubset: the compiled code cannot be kept (")
    assert run(folder, NUMBA_CACHE_DIR=kept) == (["8.0", "1"], module.PREPARING + "\n")
    assert run(folder, NUMBA_CACHE_DIR=kept) == (["8.0", "1"], "")


@pytest.mark.slow
@compiles
def test_code_next_to_the_sources_serves_those_who_cannot_write_there(folder: Path) -> None:
    """What root has prepared is read, and what this user keeps goes elsewhere."""
    run(folder, NUMBA_CACHE_DIR="")
    assert len(list((folder / "__pycache__").glob("*.nbi"))) == 2
    answer, told = run(folder, NUMBA_CACHE_DIR=str(folder / "own"))
    assert answer == ["8.0", "1"]
    assert told == ""
    assert not list((folder / "own").rglob("*.nbi"))


def test_interpreted_ends_with_its_block() -> None:
    before = is_plain()
    with interpreted():
        assert is_plain()
        with interpreted(False):
            assert is_plain() == before
        assert is_plain()
    assert is_plain() == before


@compiles
def test_a_function_that_calls_another_runs_both_ways() -> None:
    @compiled(kept=False)
    def inner(x):
        return x * 3.0

    @compiled(kept=False)
    def outer(x):
        return inner(x) + 1.0

    with interpreted():
        assert outer(2.0) == 7.0
    assert not outer.signatures
    assert outer(2.0) == 7.0
    assert outer.signatures


@compiles
@pytest.mark.parametrize("loss", ["squared", "huber", "absolute", "logistic"])
@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_seeds_give_the_same_draws_both_ways(kind: type, loss: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (60, 6))
    y = X[:, 0] / 2 + 0.3 * rng.normal(size=60)

    def draws() -> list[tuple[int, ...]]:
        problem = Problem(
            *(X, y > 0 if loss == "logistic" else y), size=2, loss=loss,
            x_bound=1.0, y_bound=1.0, radius=1.0,
        )  # fmt: skip
        found = kind(epsilon=20.0, limits=Limits(seconds=600)).draw(problem, 20, random_state=3)
        return [tuple(s) for s in found]

    with interpreted():
        plain = draws()
    assert plain == draws()
    assert len(set(plain)) > 1


def test_what_is_small_is_small_for_every_loss() -> None:
    """A table of 500 rows and 5 columns, of which 2 are chosen and a constant is added."""
    assert 500 * (6 + 10 * 3) <= _SMALL_WITH_KINKS < _SMALL


@compiles
def test_a_function_that_does_not_count_makes_no_arrays() -> None:
    """It reads and writes what its caller holds; numba refuses one that makes more."""

    @compiled(kept=False, counts=False)
    def doubled(rows):  # type: ignore[no-untyped-def]
        for row in range(rows.shape[0]):
            part = rows[row]
            for i in range(part.size):
                part[i] *= 2.0
        return rows[0, 0]

    @compiled(kept=False, counts=False)
    def made(rows):  # type: ignore[no-untyped-def]
        return np.zeros(rows.shape[0])

    rows = np.ones((2, 3))
    assert doubled(rows) == 2.0
    assert (rows == 2.0).all()
    with pytest.raises(NumbaError):
        made(rows)
