"""Faults while a release is under way: limits, memory, signals, dead processes, files and disks.

Each ends in one clear error, the same for all data, with the documented exit code. Nothing of a
release is shown that was not made, and no half of a file stays. With a ledger the budget is spent
if the mechanism had begun, is not spent if the fault came before, and earlier entries are there.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import typer
from carried import carried
from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError
from typer.testing import CliRunner

import dpsubset
from dpsubset import Exponential, Guarantee, Ledger, Problem, SubsetRegressor
from dpsubset.cli import app
from dpsubset.cli.ending import ending
from dpsubset.errors import InputError, OutOfMemoryError, UnprovenError
from dpsubset.mechanisms import Mechanism

LIMIT_SECONDS = 300  # for a child on a slow machine; no test waits so long for anything else
EARLIER = Guarantee("exponential mechanism", 1.0, "replace-one", 4.0)
SOURCES = str(Path(dpsubset.__file__).parent)


def table(seed: int, rows: int = 200, columns: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Return a table in which every column explains a little: the best 15 are hard to tell."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, columns))
    return X, np.clip(X @ rng.uniform(-1, 1, columns) / 5, -1, 1)


def begin(folder: Path, seed: int, **shape: int) -> Path:
    """Fill a folder: a table, its bounds, and a ledger with one entry."""
    folder.mkdir(exist_ok=True)
    X, y = table(seed, **shape)
    frame = pl.DataFrame(X, [f"x{j}" for j in range(X.shape[1])]).with_columns(y=y)
    frame.write_parquet(folder / "t.parquet")
    if len(X) < 1000:
        frame.write_csv(folder / "t.csv")
    (folder / "b.toml").write_text("[default]\nbounds = [-1, 1]\n")
    ledger = Ledger(folder / "budget.db", epsilon=5000.0, delta=0.01)
    with ledger.charge(EARLIER, {"size": 1}) as record:
        record({"columns": ["x1"]})
    return folder


GIVEN = ["--target", "y", "--bounds", "b.toml", "--ledger", "budget.db"]
QUICK = ["--size", "1", "--epsilon", "5"]
SLOW = ["--size", "15", "--epsilon", "1000", "--loss", "absolute", "--ridge", "0"]


def left(folder: Path) -> dict[str, Any]:
    """Return the names of the files in a folder, and what its ledger tells of later spends."""
    first, *later = Ledger(folder / "budget.db").history()
    assert (first.outcome, first.released) == ("released", {"columns": ["x1"]})
    assert first.guarantee == EARLIER
    begun = {"t.csv", "t.parquet", "b.toml", "budget.db"}
    return {
        "files": sorted({path.name for path in folder.iterdir()} - begun),
        "outcomes": [entry.outcome for entry in later],
        "spent": Ledger(folder / "budget.db").spent[0] - 1.0,
    }


def told(words: str) -> str:
    """Leave out what public numbers say beforehand about the time of a draw."""
    lines = words.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("warning: an exact draw"))


# Signals to a command at work ------------------------------------------------------------------

JOBS = {"SIGINT": "select", "SIGTERM": "fit", "SIGKILL": "select"}
INTERRUPTED = "interrupted: count the budget as spent if a release was under way\n"


def start(folder: Path, command: str) -> subprocess.Popen[str]:
    words = [command, "t.csv", *GIVEN, *SLOW, "--output", "r.json"]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "dpsubset", *words], cwd=folder, **pipes)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Start real commands on tables that take them minutes, and end each once it is at work.

    The ledger tells when: the spend is written before the mechanism begins.
    """
    root = tmp_path_factory.mktemp("signals")
    folders = {name: begin(root / name, 0) for name in JOBS}
    running = {name: start(folder, JOBS[name]) for name, folder in folders.items()}
    waiting, deadline = dict(running), time.monotonic() + LIMIT_SECONDS
    try:
        while waiting:
            assert time.monotonic() < deadline
            for name, child in list(waiting.items()):
                assert child.poll() is None, child.communicate()
                if left(folders[name])["outcomes"]:
                    assert any(folders[name].glob(".r.json*"))
                    child.send_signal(signal.Signals[name])
                    del waiting[name]
            time.sleep(0.05)
        shown = {name: child.communicate(timeout=LIMIT_SECONDS) for name, child in running.items()}
    finally:
        for child in running.values():
            child.kill()
            child.communicate()
    return {
        name: (running[name].returncode, shown[name][0], told(shown[name][1]), folders[name])
        for name in JOBS
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_the_command_and_leaves_nothing(name: str, code: int, ended: Any) -> None:
    found, shown, words, folder = ended[name]
    assert (found, shown) == (code, "")
    assert "Traceback" not in words
    assert words.count("\n") <= 1
    assert name != "SIGINT" or words == INTERRUPTED
    assert left(folder) == {"files": [], "outcomes": ["failed"], "spent": 1000.0}


@pytest.mark.slow
def test_a_killed_command_has_spent_and_hinders_nobody(ended: Any) -> None:
    code, shown, words, folder = ended["SIGKILL"]
    assert (code, shown, words) == (-9, "", "")
    found = left(folder)
    assert (found["outcomes"], found["spent"]) == (["spent"], 1000.0)
    assert all(name.endswith(".partial") for name in found["files"])
    again = run(folder, "select", *QUICK, "--output", "r.json")
    assert (again["code"], again["outcomes"]) == (0, ["spent", "released"])
    assert (folder / "r.json").exists()


# Faults inside the process ----------------------------------------------------------------------


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run(folder: Path, command: str, *words: Any, table: str = "t.csv") -> dict[str, Any]:
    """Run the command and return its end, its words, its files and its spends."""
    with inside(folder):
        result = CliRunner().invoke(app, [command, table, *GIVEN, *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    streams = {"code": result.exit_code, "shown": result.stdout, "words": told(result.stderr)}
    return {**streams, **left(folder)}


def fail_with(error: BaseException) -> Callable[..., None]:
    """Let every mechanism fail in the middle of its work."""

    def fault(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Any]:
        def sampler(self: Mechanism, problem: Problem) -> Any:
            problem.score(range(problem.size))

            def draw(randomness: Any) -> Any:
                raise error

            return draw

        monkeypatch.setattr("dpsubset.mechanisms.permute_and_flip.PermuteAndFlip._sampler", sampler)
        return []

    return fault


def option(*words: Any) -> Callable[..., Any]:
    return lambda monkeypatch, folder: list(words)


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """Let files grow to this size and no further, as on a disk that is full."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def full_while(*steps: str) -> Callable[..., Any]:
    """Let the disk be full while functions of the command run."""

    def fault(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Any]:
        for step in steps:
            clean = pkgutil.resolve_name(step)

            def limited(*arguments: Any, clean: Any = clean, **options: Any) -> Any:
                with files_no_larger_than(16):
                    return clean(*arguments, **options)

            monkeypatch.setattr(step, limited)
        return []

    return fault


no_room_for_a_spend = full_while(
    "dpsubset.cli.selecting.select_columns", "dpsubset.model.Model.release"
)


def unreadable(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Any]:
    """A file whose first byte gives an error: permissions do not bind who may do all."""
    (folder / "t.csv").unlink()
    (folder / "t.csv").symlink_to("/proc/self/mem")
    return []


def vanishing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Any]:
    """The table is there when its names are read, and gone when its rows are."""
    clean = importlib.import_module("dpsubset.cli.asked").read_table

    def gone(path: Path, *arguments: Any, **options: Any) -> Any:
        path.unlink()
        return clean(path, *arguments, **options)

    monkeypatch.setattr("dpsubset.cli.asked.read_table", gone)
    return []


def under_a_file(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Any]:
    return ["--output", "b.toml/r.json"]


def on_a_full_device(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Any]:
    (folder / "full").symlink_to("/dev/full")
    return ["--output", "full"]


SPENT: dict[str, tuple[Any, int, str, str]] = {  # the fault, the exit code, words, the outcome
    "memory": (fail_with(MemoryError("317 rows")), 2, "error: the memory", "failed"),
    "interrupt": (fail_with(KeyboardInterrupt()), 130, "interrupted: count the budget", "failed"),
    "seconds": (option(*SLOW, "--max-seconds", "1e-9"), 1, "refused: the work ended", "refused"),
    "own test": (
        option("--mechanism", "lasso-stability", "--epsilon", "0.2"),
        *(1, "refused: the test that comes before", "refused"),
    ),
}
UNSPENT: dict[str, tuple[Any, int, str]] = {
    "unreadable": (unreadable, 2, "error: t.csv cannot be read: Input/output error"),
    "vanishing": (vanishing, 2, "error: t.csv"),
    "no folder": (under_a_file, 2, "error: b.toml: no such folder"),
    "device": (on_a_full_device, 2, "error: full is not an ordinary file"),
    "ledger": (no_room_for_a_spend, 2, "error: the ledger"),
    "budget": (option("--epsilon", "4999.5"), 1, "refused: the release asked for costs"),
}
COMMANDS = pytest.mark.parametrize("command", ["select", "fit"])


def on_both(
    fault: Any, command: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """Run into a fault on two tables, of different sizes too."""
    found = []
    for seed, rows in ((0, 40), (1, 53)):
        folder = begin(root / f"{seed}", seed, rows=rows, columns=25)
        with monkeypatch.context() as patch:
            more = fault(patch, folder)
            found.append(run(folder, command, *QUICK, "--output", "r.json", *more))
            found[-1]["words"] = found[-1]["words"].replace(str(folder), ".")
    return found


@pytest.mark.grid(every=4)
@COMMANDS
@pytest.mark.parametrize("name", list(SPENT))
def test_a_fault_in_the_work_spends_and_shows_nothing(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, code, words, outcome = SPENT[name]
    one, other = on_both(fault, command, tmp_path, monkeypatch)
    assert one == other
    assert one["code"] == code, one
    assert one["words"].startswith(words)
    assert one["words"].count("\n") == 1
    assert "spent" in one["words"]
    assert (one["shown"], one["files"], one["outcomes"]) == ("", [], [outcome])
    assert one["spent"] > 0


@COMMANDS
@pytest.mark.parametrize("name", list(UNSPENT))
def test_a_fault_before_the_work_spends_nothing(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, code, words = UNSPENT[name]
    one, other = on_both(fault, command, tmp_path, monkeypatch)
    assert one == other
    assert one["code"] == code, one
    assert one["words"].startswith(words)
    assert one["words"].count("\n") == 1
    assert (one["shown"], one["outcomes"], one["spent"]) == ("", [], 0)
    assert one["files"] == (["full"] if name == "device" else [])


def full_disk(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the disk be full from the moment on when a release is turned into the text of a file."""
    for step in ("dpsubset.cli.show.to_json", "dpsubset.model_file.write_model"):
        module, _, name = step.rpartition(".")
        clean = getattr(importlib.import_module(module), name)

        def last(*arguments: Any, clean: Any = clean, **options: Any) -> Any:
            resource.setrlimit(resource.RLIMIT_FSIZE, (16, HARD))
            return clean(*arguments, **options)

        monkeypatch.setattr(step, last)


def no_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the folder of the file vanish while the command works."""
    clean = Mechanism.chosen

    def chosen(self: Mechanism, *given: Any) -> Any:
        shutil.rmtree(folder / "out")
        return clean(self, *given)

    monkeypatch.setattr(Mechanism, "chosen", chosen)


HARD = resource.getrlimit(resource.RLIMIT_FSIZE)[1]


@COMMANDS
@pytest.mark.parametrize("fault", [full_disk, no_folder], ids=lambda fault: fault.__name__)
def test_a_release_that_was_made_is_shown_even_if_it_cannot_be_written(
    fault: Any, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paid for: the terminal shows it, the ledger has it, and the file is not there."""
    folder = begin(tmp_path / "0", 0, rows=40, columns=5)
    (folder / "out").mkdir()
    fault(monkeypatch, folder)
    with files_no_larger_than(HARD):  # so that the limit is taken back
        found = run(folder, command, *QUICK, "--epsilon", 4000, "--output", "out/r.json")
    assert found["code"] == 2
    assert found["words"].startswith("error: out/r.json cannot be written: ")
    assert found["words"].count("\n") == 1
    assert found["outcomes"] == ["released"]
    released = Ledger(folder / "budget.db").history()[-1].released
    assert released is not None
    if command == "select":
        assert f"\n  {released['columns'][0]}\n" in found["shown"]
    assert "Guarantee" in found["shown"]
    assert [path.name for path in folder.rglob("*r.json*")] == []


# Memory that really ends ------------------------------------------------------------------------

MEMORY = """
import resource
import numpy as np
from dpsubset import PermuteAndFlip, Problem
from dpsubset.cli import main

X = np.random.default_rng(0).uniform(-1, 1, (50, 6))
given = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "ridge": 10.0, "loss": "absolute"}
PermuteAndFlip(1.0).release(Problem(X, X[:, 0], size=2, include=[5], **given))  # loads the code
clean = PermuteAndFlip._sampler

def sampler(self, problem):
    pages = int(open("/proc/self/statm").read().split()[0])
    most = pages * resource.getpagesize() + (4 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return clean(self, problem)

PermuteAndFlip._sampler = sampler
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_that_ends_in_the_work_is_one_line(tmp_path: Path) -> None:
    folder = begin(tmp_path / "0", 0, rows=200_000, columns=5)
    # OpenBLAS, which squared loss asks for products, ends the process itself.
    words = ["select", "t.parquet", *GIVEN, *QUICK, "--output", "r.json", "--loss", "huber:0.2"]
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.stderr == (
        "error: the memory of this machine is not enough, so nothing is released; count the budget "
        "as spent\n"
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert left(folder) == {"files": [], "outcomes": ["failed"], "spent": 5.0}


# A fault at any line ----------------------------------------------------------------------------


class Fault:
    """Raise an error at the line of the package that comes as the `at`-th; count them all."""

    def __init__(self, at: int = -1, error: BaseException | None = None) -> None:
        self.at, self.error = at, error
        self.lines: list[tuple[str, int]] = []
        self.entered: set[str] = set()

    def __enter__(self) -> Fault:
        self.before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *reason: object) -> None:
        sys.settrace(self.before)

    def _call(self, frame: Any, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        self.entered.add(frame.f_code.co_name)
        return self._line

    def _line(self, frame: Any, event: str, argument: object) -> Any:
        if event == "line":
            self.lines.append((frame.f_code.co_filename, frame.f_lineno))
            if len(self.lines) == self.at and self.error is not None:
                raise self.error
        return self._line


def small_problem() -> Problem:
    X, y = table(0, rows=50, columns=9)
    return Problem(X, y, size=3, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=0.1)


def selecting(ledger: Ledger) -> tuple[Callable[[], Any], str]:
    """Return a release to be disturbed, and the function in which its work begins."""
    mechanism, problem = Exponential(50.0, ledger=ledger), small_problem()
    return lambda: mechanism.experiment(problem, 3).support, "_sampler"


def modelling(ledger: Ledger) -> tuple[Callable[[], Any], str]:
    X, y = table(0, rows=50, columns=9)
    options: Any = {"bounds_X": (-1, 1), "bounds_y": (-1, 1), "loss": "squared", "random_state": 3}
    model = SubsetRegressor(n_features_to_select=2, epsilon=5.0, ledger=ledger, **options)

    return lambda: model.fit(X, y).coef_.tolist(), "_sampler"


def points(lines: list[tuple[str, int]], most: int) -> list[int]:
    """Return where to put faults: the first time of each line, and all lines around the spend."""
    first = {line: i + 1 for i, line in reversed(list(enumerate(lines)))}
    close = ("ledger.py", "mechanisms/base.py", "records.py")
    near = [i for (file, _), i in first.items() if file.endswith(close)]
    far = [i for (file, _), i in first.items() if not file.endswith(close)]
    return sorted([*near, *far[:: max(1, len(far) // most)]])


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("prepare", [selecting, modelling], ids=lambda f: f.__name__)
def test_a_fault_at_any_line_is_spent_from_the_beginning_of_the_work(
    prepare: Any, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "budget.db", epsilon=1e6)
    act, work = prepare(ledger)
    expected = act()
    with Fault() as whole:
        assert act() == expected
    entries = ledger.history()
    outcomes = set()
    for i, at in enumerate(points(whole.lines, 60)):
        error: BaseException = [KeyboardInterrupt(), MemoryError()][i % 2]
        with Fault(at, error) as fault, pytest.raises(type(error)) as raised:
            act()
        assert raised.value is error or isinstance(raised.value, OutOfMemoryError)
        assert carried(raised.value) == {}
        before, entries = entries, ledger.history()
        assert entries[: len(before)] == before
        later = [entry.outcome for entry in entries[len(before) :]]
        assert len(later) <= 1
        if work in fault.entered:
            assert len(later) == 1, fault.lines[-1]
        outcomes |= set(later) or {"nothing"}
    assert outcomes >= {"nothing", "spent", "failed"}  # twin: faults of all kinds were there
    assert act() == expected  # nothing is half done that a later release would see


def test_a_spend_that_comes_too_late_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def late(ledger: Ledger, promise: Guarantee, asked: Any) -> Iterator[Any]:
        kept: list[Any] = []
        yield kept.append
        with ledger.charge(promise, asked) as record:
            record(kept[0])

    monkeypatch.setattr("dpsubset.records.charged", late)
    with pytest.raises(AssertionError):
        test_a_fault_at_any_line_is_spent_from_the_beginning_of_the_work(selecting, tmp_path)


# A worker that dies -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_that_dies_has_spent(tmp_path: Path) -> None:
    """The process ends in the middle of its work, at a block of rows that is being looked at."""
    X, y = table(0, rows=50, columns=4)
    ledger = Ledger(tmp_path / "budget.db", epsilon=10.0)

    def fit(deadly: bool) -> list[int]:
        # imports here: functions of a test's own are sent to workers by value
        from dpsubset import SampleAggregate, SubsetSelector

        def die(X: Any, y: Any, count: int) -> list[int]:
            os.kill(os.getpid(), signal.SIGKILL)
            return []

        mechanism = SampleAggregate(2.0, blocks=3, selector=die if deadly else None)
        options: Any = {"bounds_X": (-1, 1), "bounds_y": (-1, 1), "mechanism": mechanism}
        selector = SubsetSelector(n_features_to_select=1, ledger=ledger, **options)
        return [int(j) for j in selector.fit(X, y).get_support(indices=True)]

    chosen = fit(False)
    with pytest.raises(TerminatedWorkerError) as raised:
        Parallel(n_jobs=2)([delayed(fit)(True)])
    assert not [value for value in (*X.ravel(), *y) if repr(float(value)) in str(raised.value)]
    first, second = ledger.history()
    assert (first.outcome, first.released) == ("released", {"positions": chosen, "columns": None})
    assert (second.outcome, second.released) == ("spent", None)
    assert ledger.spent == (4.0, 0.0)
    assert fit(False)
    assert [entry.outcome for entry in ledger.history()] == ["released", "spent", "released"]


# Twins of the command's faults ------------------------------------------------------------------


def test_words_that_depend_on_the_data_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def talkative(patch: pytest.MonkeyPatch, folder: Path) -> list[Any]:
        def sampler(self: Mechanism, problem: Problem) -> Any:
            raise UnprovenError(f"{problem.score(range(problem.size))} is the score")

        patch.setattr("dpsubset.mechanisms.permute_and_flip.PermuteAndFlip._sampler", sampler)
        return []

    one, other = on_both(talkative, "select", tmp_path, monkeypatch)
    assert one["words"] != other["words"]
    assert one["outcomes"] == other["outcomes"] == ["refused"]


def test_a_file_that_stays_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok=False: None)
    found = on_both(SPENT["interrupt"][0], "select", tmp_path, monkeypatch)
    assert all(one["files"] for one in found)


# Ends of the command where little is left to write to --------------------------------------------


def test_a_killed_process_with_our_number_hinders_nobody(tmp_path: Path) -> None:
    """In a container the first process has the same number every time."""
    folder = begin(tmp_path / "0", 0, rows=40, columns=5)
    (folder / f".r.json.{os.getpid()}.partial").write_text("half of")
    found = run(folder, "select", *QUICK, "--output", "r.json")
    assert found["code"] == 0
    assert "r.json" in found["files"]


def test_a_command_without_a_terminal_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `dpsubset ... >&-` does; the traceback's exit code 1 means a refusal."""
    monkeypatch.setattr(sys, "stdout", None)
    with ending():
        pass


def test_a_mistake_has_its_code_even_if_nobody_can_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with `2>/dev/full`; the traceback's exit code 1 means a refusal."""
    monkeypatch.setattr(sys, "stderr", Path("/dev/full").open("w", buffering=1))  # noqa: SIM115
    with pytest.raises(typer.Exit) as raised, ending():
        raise InputError("a mistake")
    assert raised.value.exit_code == 2
