"""The ledger under real processes, real deaths and a disk that is really full.

Never overspent, nothing lost, and a spend is on the disk before the mechanism runs. The work is
done by `ledger_child.py`, in processes of their own. Every check is run on broken twins as well.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone

from dpsubset import Ledger, SubsetSelector
from dpsubset.errors import BudgetError

pytestmark = pytest.mark.slow

CHILD = Path(__file__).with_name("ledger_child.py")
SHARED = Path("/dev/shm")
LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="stops at system calls by Linux's ptrace"
)
KILLS = {"budget": 0.4, "earlier": 2}  # of a ledger whose process is killed
LEAST_POINTS = 200


def run(job: str, path: Path, **options: Any) -> Any:
    """Do a job in a process that has imported the ledger and nothing heavy."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    env |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(CHILD), job, str(path), json.dumps(options)],
        capture_output=True,
        text=True,
        timeout=120,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory where forcing to disk costs nothing: a killed process loses no file's bytes."""
    with tempfile.TemporaryDirectory(dir=SHARED if SHARED.is_dir() else None) as name:
        yield Path(name)


def crowd(path: Path, budget: float, **options: Any) -> tuple[Counter[str], list[str]]:
    """Return how often which mark was left, and the names of the charges that were released."""
    marks = run("crowd", path, **options, **({} if "create" in options else {"budget": budget}))
    released = [line.split()[1] for line in marks if line.startswith("released")]
    return Counter(line.split()[0] for line in marks), released


def test_fifty_processes_spend_what_fits_and_no_more(tmp_path: Path) -> None:
    """Between what they read and what they write there is a pause, for others to come between."""
    options = {"processes": 50, "tries": 2, "epsilon": 0.1, "broken": "slow"}
    counts, released = crowd(tmp_path / "a", 3.0, **options)
    assert counts == {"running": 30, "released": 30, "BudgetError": 70}
    ledger = Ledger(tmp_path / "a")
    assert ledger.spent == (3.0, 0.0)
    assert ledger.remaining == (0.0, 0.0)
    assert sorted(entry.asked["name"] for entry in ledger.history()) == sorted(released)
    assert {entry.outcome for entry in ledger.history()} == {"released"}


def test_what_does_not_fit_evenly(memory: Path) -> None:
    counts, released = crowd(memory / "a", 3.0, processes=50, tries=3, epsilon=0.7)
    assert counts == {"running": 4, "released": 4, "BudgetError": 146}
    assert Ledger(memory / "a").spent == (2.8, 0.0)
    assert len(Ledger(memory / "a").history()) == len(released)


def test_threads_of_several_processes(tmp_path: Path) -> None:
    """Locks on files belong to processes: a thread that opens and closes the file must not lose
    those of another."""
    counts, _ = crowd(tmp_path / "a", 2.0, processes=4, threads=4, tries=2, epsilon=0.1)
    assert counts == {"running": 20, "released": 20, "BudgetError": 12}
    assert len(Ledger(tmp_path / "a").history()) == 20


def test_processes_that_create_the_same_ledger(tmp_path: Path) -> None:
    for place in range(3):
        path = tmp_path / str(place)
        counts, _ = crowd(path, 1.0, processes=15, tries=1, epsilon=0.1, create=1.0)
        assert counts == {"running": 10, "released": 10, "BudgetError": 5}
        assert len(Ledger(path).history()) == 10
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "2"]  # and no other file is left


@pytest.mark.parametrize("broken", ["slow", "any table"])
def test_the_first_of_many_names_the_table(memory: Path, broken: str) -> None:
    """Processes race with two tables: one name wins, and all charges for the other are refused."""
    options = {"processes": 20, "tries": 2, "epsilon": 0.1, "tables": 2, "broken": broken}
    counts, released = crowd(memory / "a", 9.0, **options)
    ledger = Ledger(memory / "a")
    tables = {entry.table for entry in ledger.history()}
    if broken == "any table":  # a twin that does not check is seen
        assert tables == {"table 0", "table 1"}
        assert counts["InputError"] == 0
        return
    assert tables == {ledger.table} < {"table 0", "table 1"}
    assert counts == {"running": 20, "released": 20, "InputError": 20}
    assert len({int(name.split(".")[0]) % 2 for name in released}) == 1
    assert ledger.spent == (2.0, 0.0)


def test_one_spend_is_one_release(memory: Path) -> None:
    """A block that ends in two processes releases in one of them."""
    marks = run("fork", memory / "a", budget=1.0)
    assert sorted(marks) == ["LedgerError", "released"]
    assert [entry.outcome for entry in Ledger(memory / "a").history()] == ["released"]


def test_estimators_in_processes_of_joblib(memory: Path) -> None:
    """Five fits share a budget for three."""
    X = np.random.default_rng(0).uniform(-1, 1, (60, 4))
    ledger = Ledger(memory / "a", epsilon=0.3)
    selector = SubsetSelector(
        n_features_to_select=1,
        epsilon=0.1,
        bounds_X=(-1, 1),
        bounds_y=(-1, 1),
        loss="squared",
        mechanism="exponential",
        ledger=ledger,
    )

    def fitted(selector: SubsetSelector) -> str:
        try:
            selector.fit(X, X[:, 0])
        except BudgetError:
            return "BudgetError"
        return "released"

    fits = Parallel(n_jobs=2)(delayed(fitted)(clone(selector)) for _ in range(5))
    get_reusable_executor().shutdown(wait=True)  # its processes would outlive the test
    assert sorted(fits) == ["BudgetError"] * 2 + ["released"] * 3
    assert [entry.outcome for entry in ledger.history()] == ["released"] * 3


@pytest.mark.parametrize("broken", ["late", "deferred", "in pieces", "no commit"])
def test_broken_twins_of_the_crowd(tmp_path: Path, broken: str) -> None:
    """They run without budget, fail in another way, overspend, and forget."""
    options = {"processes": 50, "tries": 2, "epsilon": 0.1, "broken": broken}
    counts, _ = crowd(tmp_path / "a", 3.0, **options)
    entries = len(Ledger(tmp_path / "a").history())
    caught = {
        "late": counts["running"] > 30,
        "deferred": counts["LedgerError:"] > 0,
        "in pieces": entries > 30,
        "no commit": entries < counts["running"],
    }
    assert caught[broken]


@LINUX
def test_a_killed_process_loses_nothing_and_hinders_nobody(
    memory: Path, tmp_path: Path, record_property: Any
) -> None:
    """At every line of the ledger, at every system call, and at random moments."""
    lines = run("kills", memory / "lines", kind="line", **KILLS)
    calls = run("kills", memory / "calls", kind="call", **KILLS)
    chance = run("random", tmp_path / "chance", count=40, seed=0, longest=0.08, budget=1000.0)
    for kind, found in {"lines": lines, "calls": calls, "chance": chance}.items():
        record_property(kind, found["falls"])
        assert found["wrong"] == [], kind
    if calls["points"] == 0:
        pytest.skip("this system does not let a process be stopped at its system calls")
    assert (
        lines["last"] == calls["last"] == ["running last", "released last"]
    )  # then it runs through
    # Points of every kind are there: with and without a spend on the disk before the block, in it,
    # and while the outcome is written.
    for found in (lines, calls):
        for where in ("before, unspent", "before, spent", "inside, spent"):
            assert found["falls"][where] >= 5
        assert set(found["falls"]) <= {"before, unspent", "before, spent", "inside, spent"} | {
            "after, spent"
        }
    assert min(lines["points"], calls["points"]) >= 50
    assert lines["points"] + calls["points"] + chance["points"] >= LEAST_POINTS
    assert chance["entries"] >= chance["points"]


@LINUX
@pytest.mark.parametrize(
    ("broken", "complaint"),
    [("late", "running but not spent"), ("no commit", "running but not spent")],
)
def test_broken_twins_of_the_kills(memory: Path, broken: str, complaint: str) -> None:
    for kind, stride in (("line", 5), ("call", 11)):
        found = run("kills", memory / kind, kind=kind, stride=stride, broken=broken, **KILLS)
        assert any(complaint in line for line in found["wrong"])


@LINUX
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("kind", ["line", "call"])
def test_a_process_killed_while_it_names_the_table(memory: Path, old: bool, kind: str) -> None:
    """The name, the new version of an old file and the spend are there together or not at all."""
    found = run("kills", memory / "a", kind=kind, table="study", old=old, **KILLS)
    assert found["wrong"] == []
    if kind == "call" and found["points"] == 0:
        pytest.skip("this system does not let a process be stopped at its system calls")
    assert found["last"] == ["running last", "released last"]
    for where in ("before, unspent", "before, spent", "inside, spent"):
        assert found["falls"][where] >= 5


@LINUX
@pytest.mark.parametrize("old", [False, True])
def test_broken_twin_of_the_name(memory: Path, old: bool) -> None:
    twin = {"broken": "named apart", "table": "study", "old": old}
    found = run("kills", memory / "a", kind="line", stride=5, **twin, **KILLS)
    assert any("named study" in line for line in found["wrong"])


@LINUX
def test_a_process_killed_while_it_creates_a_ledger(memory: Path) -> None:
    """The next one that does the same has a whole ledger, with all its budget."""
    found = run("creation", memory / "a")
    assert list(found["found"]) == ["0.1 (0.0, 0.0)"]
    assert found["points"] >= 50


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls")
@LINUX
@pytest.mark.parametrize("broken", ["", "unlinked", "unsynced"])
def test_a_spend_is_forced_to_disk_before_its_block(tmp_path: Path, broken: str) -> None:
    """Power may fail: writes, and the removal of SQLite's journal, are followed by a sync.

    A journal that comes back would undo the spend. Nobody sees that by killing processes.
    """
    seen = run("synced", tmp_path / "a", budget=1.0, broken=broken)["seen"]
    assert "change" in seen
    assert (seen[-1] == "sync") == (broken == "")


@pytest.mark.parametrize(
    ("mode", "folder", "reads"),
    [(0o000, 0o755, False), (0o644, 0o700, False), (0o444, 0o755, True), (0o666, 0o555, True)],
    ids=["file", "folder", "read only", "no room for a journal"],
)
def test_a_ledger_without_rights(memory: Path, mode: int, folder: int, reads: bool) -> None:
    """In a folder of another user: what may be read is read, and a spend is an error."""
    memory.chmod(0o755)
    home = memory / "home"
    home.mkdir()
    if os.geteuid() != 0:  # the owner is who is barred
        mode, folder = (mode & 7) << 6, (folder & 7) << 6
    marks = run("barred", home / "a", budget=1.0, mode=mode, folder=folder)
    outcomes = dict(line.split() for line in marks)
    assert outcomes["spend"] == "LedgerError"
    assert outcomes["read"] == ("done" if reads else "LedgerError")
    assert set(outcomes.values()) <= {"done", "LedgerError", "InputError"}
    assert Ledger(home / "a").history() == []


LARGE = "x" * 20_000  # does not fit in the pages that the file has
PLENTY = 10**9


@pytest.mark.parametrize("text", ["", LARGE], ids=["small", "large"])
def test_a_full_disk_before_the_spend(tmp_path: Path, text: str) -> None:
    """Whatever the limit on files, either all is well or nothing ran and nothing was spent."""
    path = tmp_path / "a"
    Ledger(path, epsilon=5.0)
    size = path.stat().st_size
    limits = [0, 1, 100, 512, 513, 2000, 4096, 4097, 8192, size - 1, size, size + 1, PLENTY]
    tries = run("full", path, limits=limits, inside=False, text=text)
    for seen in tries:
        if seen["marks"] == ["running", "released"]:
            assert seen["after"] == [*seen["before"], [len(seen["after"]), "released"]]
            continue
        assert [mark.split(":")[0] for mark in seen["marks"]] == ["LedgerError"]
        assert seen["after"] == seen["before"]
    assert [len(seen["marks"]) for seen in tries[:5]] == [1] * 5  # these are full
    assert tries[-1]["marks"] == ["running", "released"]  # and all is well again
    assert Ledger(path).spent[0] == len(Ledger(path).history()) / 10


def test_a_full_disk_before_the_outcome(tmp_path: Path) -> None:
    """The block has run, so the budget is spent; the caller gets an error, not the release."""
    path = tmp_path / "a"
    *tries, last = run("full", path, limits=[0, 100, 513, PLENTY], inside=True, budget=1.0)
    for seen in tries:
        assert [mark.split(":")[0] for mark in seen["marks"]] == ["running", "LedgerError"]
        assert seen["after"] == [*seen["before"], [len(seen["after"]), "spent"]]
    assert last["marks"] == ["running", "released"]
    assert Ledger(path).spent == (0.4, 0.0)
    assert [entry.released for entry in Ledger(path).history()][:3] == [None] * 3


def test_broken_twin_of_the_full_disk(tmp_path: Path) -> None:
    """Charged late, the block runs on a full disk."""
    (seen,) = run("full", tmp_path / "a", limits=[0], inside=False, budget=1.0, broken="late")
    assert seen["marks"][0] == "running"
