"""What the tests of the ledger do in processes of their own: spend, crowd, be killed, fill a disk.

Run as `python ledger_child.py JOB PATH OPTIONS`; it prints JSON. It imports the ledger and nothing
heavy, and forks for every process that it needs, so that hundreds of deaths take seconds.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from dpsubset.errors import BudgetError, InputError
from dpsubset.privacy import Guarantee
from dpsubset.privacy import ledger as module
from dpsubset.privacy.ledger import Ledger

Mark = Callable[[str], object]

STEP = 0.1
ROOM = 4  # how many charges fit in the budget of a ledger whose process is killed


def promise(epsilon: float = STEP) -> Guarantee:
    return Guarantee("exponential mechanism", epsilon, "replace-one", 1.0)


def spend(
    path: str, name: str, mark: Mark = bool, epsilon: float = STEP, table: str | None = None
) -> None:
    """Make one charge; tell when its block is entered and when all is over."""
    asked = {"name": name} | ({} if table is None else {"table": table})
    with Ledger(path).charge(promise(epsilon), asked) as record:
        mark(f"running {name}")
        record({"support": [1]})
    mark(f"released {name}")


class Child:
    """A process whose marks are read when it is dead; an error is its last mark."""

    def __init__(self, work: Callable[[Mark], object]) -> None:
        self.out, self.inside = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                work(self.mark)
            except BaseException as error:
                self.mark(f"{type(error).__name__}: {error}")
            finally:
                os._exit(0)
        os.close(self.inside)

    def mark(self, text: str) -> None:
        os.write(self.inside, f"{text}\n".encode())

    def end(self, *, wait: bool = True) -> list[str]:
        with open(self.out) as marks:
            lines = marks.read().splitlines()
        if wait:
            os.waitpid(self.pid, 0)
        return lines


def crowd(
    path: str,
    processes: int,
    tries: int,
    epsilon: float,
    create: Any = None,
    threads: int = 0,
    tables: int = 0,
) -> list[str]:
    """Let processes start together and spend; return all their marks.

    With `tables` each process charges for one of so many tables.

    With `create` all of them also create the ledger, with that budget. With `threads` each process
    spends in so many threads: locks on files belong to a process, not to a thread.
    """
    gate, opened = os.pipe()

    def tried(name: str, mark: Mark) -> None:
        try:
            for j in range(tries):
                table = f"table {int(name.split('.')[0]) % tables}" if tables else None
                try:
                    spend(path, f"{name}.{j}", mark, epsilon, table)
                except BudgetError:
                    mark("BudgetError")
                except InputError:
                    mark("InputError")
        except Exception as error:
            mark(f"{type(error).__name__}: {error}")

    def work(i: int, mark: Mark) -> None:
        os.close(opened)
        os.read(gate, 1)  # until the last holder closes it
        if create is not None:
            Ledger(path, epsilon=create)
        if not threads:
            return tried(f"{i}", mark)
        started = [Thread(target=tried, args=(f"{i}.{t}", mark)) for t in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        return None

    children = [Child(lambda mark, i=i: work(i, mark)) for i in range(processes)]
    os.close(opened)
    return [line for child in children for line in child.end()]


def names(path: str) -> list[str]:
    return [entry.asked["name"] for entry in Ledger(path).history()]


def place(marks: list[str]) -> str:
    if any(line.startswith("released") for line in marks[-1:]):
        return "after"
    return "inside" if any(line.startswith("running") for line in marks[-1:]) else "before"


def verdict(path: str, marks: list[str], earlier: list[str]) -> Iterator[str]:
    """Say what is wrong with a ledger whose process was killed after these marks."""
    entries = Ledger(path).history()  # the first to open it: what was half done is undone here
    connection = sqlite3.connect(path)
    if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
        yield "not sound"
    connection.close()
    found = {entry.asked["name"]: entry.outcome for entry in entries}
    if [entry.asked["name"] for entry in entries][: len(earlier)] != earlier:
        yield "an earlier entry is lost"
    new = [name for name in found if name not in earlier]
    states = dict(reversed(line.split(" ", 1)) for line in marks)  # the last mark of each charge
    for name, state in states.items():
        if name not in found:
            yield f"{state} but not spent"
        elif state == "released" and found[name] != "released":
            yield f"released but {found[name]}"
        elif found[name] not in ("spent", "released"):
            yield f"{state} but {found[name]}"
    if len(set(new) - set(states)) > 1 or any(
        found[name] != "spent" for name in new[len(states) :]
    ):
        yield "spent without a charge"
    if [entry.number for entry in entries] != list(range(1, len(entries) + 1)):
        yield "numbers are not in order"


def drained(path: str) -> Iterator[str]:
    """Spend what a killed process left, and say if that is not exactly what fits."""
    for i in range(ROOM + 1):
        try:
            spend(path, f"rest {i}")
        except BudgetError:
            break
        except Exception as error:
            yield f"nobody can spend: {error}"
            break
    total = len(names(path))
    if total != ROOM:
        yield f"{total} charges in a budget for {ROOM}"


def killed_by_line(k: int, work: Callable[[Mark], object]) -> tuple[bool, list[str]]:
    """Let a process die at the k-th line that it runs in the ledger's module."""
    count = 0

    def watch(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != module.__file__:
            return None
        count += event == "line"
        if count == k:
            os.kill(os.getpid(), signal.SIGKILL)
        return watch

    def traced(mark: Mark) -> None:
        sys.settrace(watch)
        try:
            work(mark)
        finally:
            sys.settrace(None)
            mark("through")

    marks = Child(traced).end()
    return "through" not in marks, [line for line in marks if line != "through"]


_TRACEME, _GETREGS, _SYSCALL = 0, 12, 24
_ptrace = ctypes.CDLL(None).ptrace
_ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


def _stopping(work: Callable[[Mark], object]) -> Child:
    """Start a process that stops before and after every system call of its work."""

    def traced(mark: Mark) -> None:
        if _ptrace(_TRACEME, 0, None, None) == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            work(mark)

    child = Child(traced)
    os.waitpid(child.pid, 0)
    return child


def _on(pid: int) -> bool:
    """Run on to the next stop; False at the process's end."""
    if _ptrace(_SYSCALL, pid, None, None) != 0:
        return False
    return os.WIFSTOPPED(os.waitpid(pid, 0)[1])


def killed_by_call(k: int, work: Callable[[Mark], object]) -> tuple[bool, list[str]]:
    """Let a process die at the k-th stop: before or after a system call, SQLite's among them."""
    child = _stopping(work)
    alive = all(_on(child.pid) for _ in range(k))
    if alive:
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
    return alive, child.end(wait=False)


KILLS = {"line": killed_by_line, "call": killed_by_call}


def make_old(path: str) -> None:
    """Turn a ledger without a name into one of the version before names."""
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE subject")  # with its triggers
    connection.execute("PRAGMA user_version = 1")
    connection.execute("VACUUM")
    connection.close()


def misnamed(path: str, table: str) -> Iterator[str]:
    """Say if a killed charge left a name without a spend, or a spend without a name."""
    connection = sqlite3.connect(path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    known, spent = Ledger(path).table, "last" in names(path)
    if known != (table if spent else None):
        yield f"named {known}"
    if spent and version != 2:
        yield f"spent in version {version}"


def kills(
    path: str, kind: str, stride: int = 1, table: str | None = None, old: bool = False
) -> dict[str, Any]:
    """Kill one charge at every point; return where the points fell and what was wrong.

    With `table` the charge gives the ledger its name; an `old` ledger is of the version before.
    """
    if old:
        make_old(path)
    earlier = names(path)
    falls: dict[str, int] = {}
    wrong: list[str] = []
    for k in itertools.count(1, stride):
        copy = f"{path}.{k}"
        shutil.copyfile(path, copy)
        killed, marks = KILLS[kind](
            k, lambda mark, copy=copy: spend(copy, "last", mark, table=table)
        )
        found = list(verdict(copy, marks, earlier))
        if table is not None:
            found += misnamed(copy, table)
        found += drained(copy)
        wrong += [f"{kind} {k}: {complaint}" for complaint in found]
        if not killed:
            return {"points": sum(falls.values()), "falls": falls, "wrong": wrong, "last": marks}
        kept = "spent" if "last" in names(copy) else "unspent"
        falls[f"{place(marks)}, {kept}"] = falls.get(f"{place(marks)}, {kept}", 0) + 1
        os.unlink(copy)
    raise AssertionError


def random_kills(path: str, count: int, seed: int, longest: float) -> dict[str, Any]:
    """Kill processes that charge without a pause, at random times; one ledger for all of them."""
    rng = random.Random(seed)
    falls: dict[str, int] = {}
    wrong: list[str] = []

    def work(i: int, mark: Mark) -> None:
        for j in itertools.count():
            spend(path, f"{i}.{j}", mark)

    for i in range(count):
        earlier = names(path)
        child = Child(lambda mark, i=i: work(i, mark))
        time.sleep(longest * rng.random())
        os.kill(child.pid, signal.SIGKILL)
        marks = child.end()
        found = list(verdict(path, marks, earlier))
        spend(path, f"next {i}")  # by another process, at once
        wrong += [f"random {i}: {complaint}" for complaint in found]
        falls[place(marks)] = falls.get(place(marks), 0) + 1
    return {"points": count, "falls": falls, "wrong": wrong, "entries": len(names(path))}


def creation_kills(path: str) -> dict[str, Any]:
    """Kill processes that create a ledger; say what a next one finds that does the same."""
    found: dict[str, int] = {}
    for k in itertools.count(1):
        copy = f"{path}.{k}"
        killed, marks = killed_by_call(k, lambda mark, copy=copy: Ledger(copy, epsilon=STEP) and 0)
        try:
            ledger = Ledger(copy, epsilon=STEP)
            text = f"{ledger.epsilon} {ledger.spent}"
            spend(copy, "first")
        except Exception as error:
            text = f"{type(error).__name__}: {error}".replace(copy, "PATH")
        found[text] = found.get(text, 0) + 1
        if not killed:
            return {"points": k - 1, "found": found, "last": marks}
    raise AssertionError


def synced(path: str) -> dict[str, Any]:
    """Say whether all that a spend changed in files was forced to disk when its block began.

    Numbers of system calls are those of Linux on x86-64.
    """
    child = _stopping(lambda mark: spend(path, "one", mark))
    changing, syncing = (18, 77, 82, 87, 263, 264), (74, 75)  # pwrite, truncate, rename, unlink
    registers = (ctypes.c_ulonglong * 27)()
    seen: list[str] = []
    for entering in itertools.cycle((True, False)):
        if not _on(child.pid):
            break
        _ptrace(_GETREGS, child.pid, None, ctypes.addressof(registers))
        number, first = registers[15], registers[14]
        if not entering:
            continue
        if number == 1 and first == child.inside:
            break
        seen += ["change"] * (number in changing) + ["sync"] * (number in syncing)
    os.kill(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)
    return {"seen": seen, "marks": child.end(wait=False)}


def full(path: str, limits: list[int], inside: bool, text: str = "") -> list[dict[str, Any]]:
    """Spend on a disk on which no file can grow beyond a limit, from the start or in the block.

    Return the marks of each try, and the ledger before and after it.
    """

    def fill(limit: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    def work(limit: int, mark: Mark) -> None:
        ledger = Ledger(path)
        if not inside:
            fill(limit)
        with ledger.charge(promise(), {"name": "full", "text": text}) as record:
            mark("running")
            if inside:
                fill(limit)
            record({"support": [1]})
        mark("released")

    def state() -> Any:
        return [[entry.number, entry.outcome] for entry in Ledger(path).history()]

    found = []
    for limit in limits:
        before = state()
        marks = Child(lambda mark, limit=limit: work(limit, mark)).end()
        found.append({"marks": marks, "before": before, "after": state()})
    return found


def forked_inside(path: str) -> list[str]:
    """Fork inside a block: two processes hold what one spend has paid for."""
    children = []

    def work(mark: Mark) -> None:
        with Ledger(path).charge(promise(), {"name": "one"}) as record:
            children.append(os.fork())
            record({"support": [1]})
        mark("released")

    def both(mark: Mark) -> None:
        try:
            work(mark)
        except Exception as error:
            mark(type(error).__name__)
        if children[0]:
            os.waitpid(children[0], 0)

    return Child(both).end()


def barred(path: str, mode: int, folder: int) -> list[str]:
    """Use a ledger as a user who may not; return what comes of opening, reading and spending."""
    ledger = Ledger(path)
    uses = {
        "open": lambda: Ledger(path) and None,
        "reopen": lambda: Ledger(path, epsilon=1.0) and None,
        "read": ledger.history,
        "spend": lambda: spend(path, "barred"),
    }

    def work(mark: Mark) -> None:
        if os.geteuid() == 0:
            os.setuid(65534)  # no rights bind the superuser
        for name, use in uses.items():
            try:
                use()
                mark(f"{name} done")
            except Exception as error:
                mark(f"{name} {type(error).__name__}")

    os.chmod(path, mode)
    os.chmod(os.path.dirname(path), folder)
    marks = Child(work).end()
    os.chmod(os.path.dirname(path), 0o755)
    os.chmod(path, 0o644)
    return marks


class _Rewriting(sqlite3.Connection):
    """A connection that says other words than it was told."""

    words: tuple[tuple[str, str], ...] = ()
    pause = 0.0  # between what was read and what is written

    def execute(self, sql: str, *given: Any) -> Any:
        if sql.startswith("INSERT"):
            time.sleep(self.pause)
        for said, instead in self.words:
            if sql.strip().upper().startswith(said):
                return super().execute(instead)
        return super().execute(sql, *given)

    def commit(self) -> None:
        self.execute("COMMIT")

    def __exit__(self, *given: Any) -> Any:
        self.execute("COMMIT" if given[0] is None else "ROLLBACK")
        return False


def rewrite(*words: tuple[str, str], pause: float = 0.0) -> None:
    connect = sqlite3.connect
    kind = type("Rewriting", (_Rewriting,), {"words": words, "pause": pause})
    sqlite3.connect = lambda *given, **options: connect(*given, **{**options, "factory": kind})


def charge_late() -> None:
    charge = Ledger.charge

    @contextmanager
    def late(self: Ledger, guarantee: Guarantee, asked: Any) -> Iterator[Any]:
        kept: list[Any] = []
        yield kept.append
        with charge(self, guarantee, asked) as record:
            record(kept[0])

    Ledger.charge = late


def name_apart() -> None:
    """Give the ledger its name in a transaction of its own, before the spend."""
    spent = Ledger._spend

    def apart(self: Ledger, guarantee: Guarantee, asked: str, table: str | None) -> str:
        with self._open(writing=True) as connection:
            module._name(connection, table, self.path)
        return spent(self, guarantee, asked, table)

    Ledger._spend = apart


def name_nothing() -> None:
    """Do not look at names."""
    spent = Ledger._spend
    Ledger._spend = lambda self, guarantee, asked, table: spent(self, guarantee, asked, None)


BROKEN: dict[str, Callable[[], None]] = {
    "late": charge_late,
    "named apart": name_apart,
    "any table": name_nothing,
    "slow": lambda: rewrite(pause=0.005),  # and not broken
    "deferred": lambda: rewrite(("BEGIN", "BEGIN"), pause=0.005),
    "in pieces": lambda: rewrite(("BEGIN", "SELECT 1"), ("COMMIT", "SELECT 1"), pause=0.005),
    "no commit": lambda: rewrite(("COMMIT", "ROLLBACK")),
    "unlinked": lambda: rewrite(("PRAGMA SYNCHRONOUS", "PRAGMA synchronous = FULL")),
    "unsynced": lambda: rewrite(("PRAGMA SYNCHRONOUS", "PRAGMA synchronous = OFF")),
}
JOBS = {
    "crowd": crowd,
    "kills": kills,
    "random": random_kills,
    "creation": creation_kills,
    "synced": synced,
    "full": full,
    "fork": forked_inside,
    "barred": barred,
}


if __name__ == "__main__":
    given = json.loads(sys.argv[3])
    if "budget" in given:
        Ledger(sys.argv[2], epsilon=given.pop("budget"))
    for entry in range(given.pop("earlier", 0)):
        spend(sys.argv[2], f"earlier {entry}")
    BROKEN.get(given.pop("broken", ""), bool)()
    print(json.dumps(JOBS[sys.argv[1]](sys.argv[2], **given)))
