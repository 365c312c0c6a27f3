"""The bench: ratios measured in one run on one core, against plain products on the data.

`python -m benchmarks.bench --output benchmarks/results.json` measures the table in
docs/benchmarks.md; `--quick` shrinks everything.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.lossbench import loss_rows
from benchmarks.measured import Row, clipped_table, problem_of, time_best
from benchmarks.real_draws import real_rows
from benchmarks.rivals import rival_rows
from benchmarks.solvers import solver_rows
from benchmarks.wide import wide_rows
from dpsubset import sampling, search
from dpsubset.errors import InputError
from dpsubset.mechanisms import Exponential, PermuteAndFlip
from dpsubset.warm import warm_up

__all__ = ["command", "main"]


def main(*, quick: bool = False, output: Path | None = None) -> list[Row]:
    """Measure everything, print a table, and write it as JSON if asked.

    `quick` shrinks the tables, to see that all works; its ratios mean little.
    """
    if output is not None:
        _check(output)
    console = Console(stderr=True)
    rows: list[Row] = []
    with threadpool_limits(1), console.status("compiling") as status:
        warm_up()
        for title, measure in _MEASURES.items():
            status.update(title)
            for row in measure(quick):
                rows.append(row)
                console.print(f"{row.case}: {row.shown()}", highlight=False)
    Console().print(_table(rows))
    if output is not None:
        _write(output, rows, quick)
    return rows


def _table(rows: list[Row]) -> Table:
    table = Table(title="one core, one run; a ratio is seconds over the unit's seconds")
    for heading in ("case", "seconds", "unit", "ratio", "wanted"):
        table.add_column(heading, justify="right" if heading in ("seconds", "ratio") else "left")
    for row in rows:
        colour = "" if row.met is None else ("green" if row.met else "red")
        table.add_row(row.case, f"{row.seconds:.3g}", row.unit, f"{row.ratio:.3g}", row.wanted)
        if colour:
            table.rows[-1].style = colour
    return table


def _check(output: Path) -> None:
    """Refuse a file that cannot be written, before any work; what it holds stays."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.open("a").close()
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror}") from error


def _write(output: Path, rows: list[Row], quick: bool) -> None:
    document = {
        "quick": quick,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "versions": {name: version(name) for name in ("dpsubset", "numpy", "scipy", "numba")},
        "rows": [row.to_dict() for row in rows],
    }
    output.write_text(json.dumps(document, indent=1) + "\n")


def _searches(quick: bool) -> Iterator[Row]:
    """Everything that top-R and mistakes need, proven, in Gram matrices."""
    n, p = (500, 100) if quick else (5000, 1000)
    for rho, most in ((0.1, 8.0), (0.5, 30.0), (0.9, 100.0)):
        X, y = clipped_table(n, p, rho=rho)
        gram = time_best(partial(np.matmul, X.T, X))
        seconds = time_best(partial(_all_questions, X, y))
        case = f"search: best, top 2+(p-s)s, best at every k; p={p}, n={n}, rho {rho}"
        yield Row(case, seconds, "one Gram matrix", gram, at_most=most)


def _all_questions(X: Any, y: Any) -> None:
    problem = problem_of(X, y, 5, 250.0)
    found = [
        search.best(problem),
        *search.top(problem, 2 + (problem.n_columns - 5) * 5),
        *search.best_by_mistakes(problem),
    ]
    if not all(f.proven for f in found):
        raise RuntimeError("a search was not proven")


def _releases(quick: bool) -> Iterator[Row]:
    """The first permute-and-flip release, in passes X'y."""
    n, p = (600, 1000) if quick else (6000, 10_000)
    X, y = clipped_table(n, p)
    unit = time_best(lambda: X.T @ y)
    for ridge in (600.0, 50.0):
        seconds = time_best(partial(_release, X, y, 5, ridge, 1.0))
        case = f"first permute-and-flip release; p={p}, n={n}, ridge {ridge:g}"
        yield Row(case, seconds, "one pass X'y", unit, at_most=15.0)


def _release(X: Any, y: Any, size: int, ridge: float, epsilon: float) -> None:
    PermuteAndFlip(epsilon=epsilon).release(problem_of(X, y, size, ridge))


def _many_columns_chosen(quick: bool) -> Iterator[Row]:
    n, p, size = (1000, 60, 6) if quick else (20_000, 500, 12)
    X, y = clipped_table(n, p, size=size)
    gram = time_best(lambda: X.T @ X)
    seconds = time_best(lambda: _release(X, y, size, 250.0, 3.0))
    case = f"first permute-and-flip release; s={size}, p={p}, n={n}, epsilon 3"
    yield Row(case, seconds, "one Gram matrix", gram, at_most=100.0)
    n, p = (400, 60) if quick else (8000, 1000)
    X, y = clipped_table(n, p, size=8)
    unit = time_best(lambda: X.T @ y)
    seconds = time_best(lambda: _release(X, y, 8, 600.0, 1.0))
    count = math.comb(p, 8)
    case = f"first permute-and-flip release; s=8, p={p}, n={n}, {count:.1e} supports"
    yield Row(case, seconds, "one pass X'y", unit)
    problem = problem_of(X, y, 8, 600.0)
    hundred = time_best(lambda: Exponential(epsilon=1.0).draw(problem, 100, random_state=1), 1)
    yield Row(f"100 exact draws, exponential; s=8, p={p}, n={n}", hundred, "one pass X'y", unit)


def _against_abess(quick: bool) -> Iterator[Row]:
    """What a user without privacy would run, on the same tables."""
    try:
        from abess.linear import LinearRegression
    except ImportError:
        Console(stderr=True).print("abess is not installed: pip install 'dpsubset[bench]'")
        return
    for n, p, ridge in (
        ((500, 100, 250.0),) if quick else ((5000, 1000, 250.0), (6000, 10_000, 600.0))
    ):
        X, y = clipped_table(n, p)
        ours = time_best(partial(_release, X, y, 5, ridge, 1.0))
        given = time_best(partial(LinearRegression(support_size=5).fit, X, y), 2)
        case = f"p={p}, n={n}"
        unit = "one private release"
        yield Row(f"abess, told the size; {case}", given, unit, ours, at_least=15.0)
        tuned = time_best(partial(LinearRegression().fit, X, y), 1)
        yield Row(f"abess, as it comes (tunes the size); {case}", tuned, unit, ours, at_least=15.0)


def _real(quick: bool) -> Iterator[Row]:
    kept = sampling.ENUMERATION_LIMIT
    try:
        yield from real_rows(quick)
    finally:
        sampling.ENUMERATION_LIMIT = kept


def command(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench",
        description="Measure search and release against plain matrix products on the same data.",
    )
    parser.add_argument("--quick", action="store_true", help="smaller tables, fewer runs")
    parser.add_argument("--output", type=Path, help="write the results to this file as JSON")
    given = parser.parse_args(arguments)
    try:
        main(quick=given.quick, output=given.output)
    except InputError as error:
        parser.error(str(error))


_MEASURES: dict[str, Callable[[bool], Iterator[Row]]] = {
    "searching": _searches,
    "releasing": _releases,
    "choosing many columns": _many_columns_chosen,
    "the paper's solvers": solver_rows,
    "the baselines": rival_rows,
    "other losses": loss_rows,
    "a very wide table": wide_rows,
    "real tables": _real,
    "abess": _against_abess,
}

if __name__ == "__main__":
    command()
