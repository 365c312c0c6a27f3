"""Measure one cell of the map of hardness, in a process of its own that outlives the cell.

A process that works for longer than a cell may take is ended by a clock of its processor time;
what it had found until then was sent before.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from functools import partial, wraps
from multiprocessing.connection import Connection
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.hardness_cells import Cell
from benchmarks.hardness_real import TABLES
from benchmarks.hardness_tables import BoundedTable, synthetic
from dpsubset.data import Schema, Table
from dpsubset.data.target import Target
from dpsubset.designs import Design
from dpsubset.errors import UnprovenError
from dpsubset.losses import as_loss
from dpsubset.privacy import as_randomness
from dpsubset.selection import Selection
from dpsubset.warm import warm_up
from dpsubset.wording import loss_name

__all__ = ["MORE", "Passes", "Worker", "measure", "selection_of"]

MORE = 20  # draws after the first
_STARTING = 900.0  # seconds in which a worker must have compiled everything
_WAITING = 10.0  # times the limit: a worker that sleeps so long is ended, too

Found = dict[str, Any]
Tell = Callable[[Found], None]


class Passes:
    """Counts how often a design is read: a product with k vectors counts k, k of p columns k/p."""

    def __init__(self, design: Design) -> None:
        self.count = 1.0  # the pass that checked the table when it was read
        self._design = design
        self._inside = False  # one product may be made of others
        for name in dir(type(design)):
            method = getattr(design, name)
            if callable(method) and not name.startswith("_") and name != "with_ones":
                setattr(design, name, self._counted(method))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def counted(*given: Any, **named: Any) -> Any:
            outermost, self._inside = not self._inside, True
            try:
                out = method(*given, **named)
            finally:
                self._inside = not outermost
            if outermost and isinstance(out, np.ndarray) and method.__name__ != "square_norms":
                n, p = self._design.n_rows, self._design.n_columns
                self.count += out.size / p / (n if method.__name__ == "take" else 1)
            return out

        return counted


def table_of(cell: Cell) -> BoundedTable:
    """Draw or load the cell's table."""
    if cell.real:
        return TABLES[cell.table].read()
    return synthetic(cell.table, cell.n, cell.p, cell.size, cell.labels, seed=1)


def selection_of(cell: Cell, table: BoundedTable) -> Selection:
    """Return the cell's question; what the cell does not say is a user's default."""
    target = Target(None, (-1.0, 1.0)) if table.target is None else Target(table.target)
    given: dict[str, Any] = {} if cell.loss == "default" else {"loss": cell.loss}
    return Selection(
        schema=Schema.of(None, table.X.shape[1], (table.lower, table.upper), target),
        size=cell.size,
        epsilon=cell.epsilon,
        neighbours=cell.neighbours,
        mechanism=cell.mechanism,
        **given,
    )


def measure(cell: Cell, tell: Tell, begin: Callable[[], None] = lambda: None) -> None:
    """Measure a cell and tell of it in parts: about the table, the first release, the others."""
    table = table_of(cell)
    selection = selection_of(cell, table).settled(len(table.y))
    asked = selection.asked()
    rows, columns = table.X.shape
    defaults = {name: asked[name] for name in ("clip", "radius", "ridge", "intercept")}
    about = {"rows": rows, "columns": columns, "asked_loss": loss_name(as_loss(selection.loss))}
    one = _pass_seconds(selection.problem(Table(table.X, table.y)).design)
    tell({**about, "defaults": defaults, "pass_seconds": one})
    begin()
    watch = _Watch()
    try:
        problem = selection.problem(Table(table.X, table.y))
        passes = Passes(problem.design)
        randomness = as_randomness(1)
        sampler = selection.made._sampler(selection.scored(problem, randomness))
        sampler(randomness)
        tell({"first": watch.seconds(), "first_passes": passes.count, "first_wall": watch.wall()})
        watch, before = _Watch(), passes.count
        for _ in range(MORE):
            sampler(randomness)
        tell({"more": watch.seconds(), "more_passes": passes.count - before})
    except UnprovenError as error:
        tell({"refused": str(error), "seconds": watch.seconds()})


def _pass_seconds(design: Design) -> float:
    """Return the processor's seconds of one product X'u, the least of a few."""
    vector = np.random.default_rng(0).standard_normal(design.n_rows)
    best, spent = np.inf, 0.0
    while spent < 0.02 or best == np.inf:
        began = process_time()
        design.correlate(vector)
        best = min(best, process_time() - began)
        spent += process_time() - began
    return float(best)


class _Watch:
    """Seconds of the processor, in this process and those it waited for, without compiling."""

    def __init__(self) -> None:
        self._cpu, self._wall, self._compiled = _cpu(), perf_counter(), _compiling.seconds

    def seconds(self) -> float:
        return _cpu() - self._cpu - (_compiling.seconds - self._compiled)

    def wall(self) -> float:
        return perf_counter() - self._wall


def _cpu() -> float:
    children = os.times()
    return process_time() + children.children_user + children.children_system


class _Compiling:
    """Adds up the seconds that numba compiles: a user meets them once, not at every table."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._began = 0.0

    def listen(self) -> None:
        from numba.core import event

        owner = self

        class Listener(event.Listener):
            def on_start(self, _: Any) -> None:
                if owner._depth == 0:
                    owner._began = process_time()
                owner._depth += 1

            def on_end(self, _: Any) -> None:
                owner._depth -= 1
                if owner._depth == 0:
                    owner.seconds += process_time() - owner._began

        event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]


_compiling = _Compiling()


def _serve(pipe: Connection, warm: bool) -> None:
    """Measure the cells that come through a pipe, until there are no more."""
    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    _compiling.listen()
    with threadpool_limits(1):
        if warm:
            warm_up()
        pipe.send({})
        while (task := pipe.recv()) is not None:
            cell, limit = task
            measure(cell, pipe.send, partial(_end_after, limit))
            _end_after(0.0)
            pipe.send(None)


def _end_after(seconds: float) -> None:
    """End this process when it has worked so long; 0 takes that back."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


class Worker:
    """A process that measures cells one after the other; a new one takes its place if it ends."""

    def __init__(self, limit: float, warm: bool = True) -> None:
        self.limit = limit
        self._warm = warm
        self._process: Any = None
        self._pipe: Any = None

    def run(self, cell: Cell) -> Found:
        """Return what was found about a cell; a cell beyond its limit is refused."""
        if self._process is None:
            self._start()
        self._pipe.send((cell, self.limit))
        found: Found = {}
        try:
            while (part := self._next()) is not None:
                found |= part
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            self.stop()
            if code != -signal.SIGPROF and "pass_seconds" not in found:
                raise RuntimeError(f"a worker ended with code {code} at {cell}") from None
            why = "limit" if code == -signal.SIGPROF else f"ended with code {code}"
            found |= {"refused": why, "seconds": self.limit}
        return found

    def _next(self) -> Found | None:
        if not self._pipe.poll(_STARTING + _WAITING * self.limit):
            self._process.kill()
            raise EOFError
        part: Found | None = self._pipe.recv()
        return part

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs, self._warm), daemon=True)
        self._process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        self._next()

    def stop(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None
