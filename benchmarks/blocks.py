"""Features of several columns: how much longer do they take than single columns?

`python -m benchmarks.blocks` measures what `benchmarks/blocks.jsonl` lacks, one line of JSON a
case, and writes the tables of docs/blocks.md. It can be stopped and started again; a line that is
taken away is measured anew; `--draw-only` measures nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.kept import go_on, read_lines, write_below
from dpsubset import search
from dpsubset.arrays import Floats
from dpsubset.coefficients import noisy_statistics, objective_perturbation
from dpsubset.data.category import Category
from dpsubset.errors import UnprovenError
from dpsubset.limits import Limits
from dpsubset.mechanisms import (
    Exponential,
    LassoStability,
    MarkovChain,
    Mechanism,
    Mistakes,
    PermuteAndFlip,
    SampleAggregate,
    Stepwise,
    TopR,
)
from dpsubset.problem import Problem

__all__ = ["Line", "cases", "main", "measure", "page"]

HERE = Path(__file__).parent
LINES, PAGE = HERE / "blocks.jsonl", HERE.parent / "docs" / "blocks.md"
MARK = "<!-- measured: written by python -m benchmarks.blocks -->"

SHAPES = ((2000, 40, 3), (2000, 40, 8))  # rows, features, columns of each
SIZE, REPEATS, SECONDS = 4, 2, 30.0
LOSSES = ("squared", "huber:0.2", "absolute", "logistic", "hinge")
LABELLED, CURVED = ("logistic", "hinge"), ("squared", "huber:0.2", "logistic")
SMALL = SHAPES[:1]  # the only shape for what takes long

Work = Callable[[Problem], Any]


@dataclass(frozen=True)
class Case:
    """What is done, with which loss, on a table of which shape."""

    what: str
    loss: str
    rows: int
    features: int
    width: int
    table: str = ""  # how it differs, one of TABLES


@dataclass(frozen=True)
class Table:
    """What may differ from the tables that everything is measured on."""

    size: int = SIZE
    radius: float = 1.0
    ridge: float = 10.0
    repeats: float = 0.0  # share of the rows in which a category is the one before


TABLES = {
    "": Table(),
    "radius 0.3": Table(radius=0.3),
    "no ridge": Table(ridge=0.0),
    "8 features are chosen": Table(size=8),
    "each repeats the one before in 7 of 10 rows": Table(repeats=0.7),
    "and the radius is 0.3": Table(repeats=0.7, radius=0.3),
    "and 8 features are chosen": Table(repeats=0.7, size=8),
}


@dataclass(frozen=True)
class Line:
    """CPU seconds: by blocks, by as many single columns, by a single column for each feature.

    None where the work was not done in time. `chosen`, of chains only: by as many single columns,
    of which as many are chosen as the features have, not one for each.
    """

    case: Case
    blocks: float | None
    columns: float | None
    features: float | None
    chosen: float | None = None


def _line(case: dict[str, Any], **seconds: float | None) -> Line:
    return Line(Case(**case), **seconds)


def _drawing(mechanism: Callable[[], Mechanism], count: int) -> Work:
    return lambda problem: mechanism().draw(problem, count, random_state=1)


LIMITS = Limits(seconds=SECONDS)
EVERY: dict[str, Work] = {
    "permute-and-flip, 20 draws": _drawing(lambda: PermuteAndFlip(3.0, limits=LIMITS), 20),
    "exponential, 20 draws": _drawing(lambda: Exponential(3.0, limits=LIMITS), 20),
    "permute-and-flip, epsilon 0.3, 20 draws": _drawing(
        lambda: PermuteAndFlip(0.3, limits=LIMITS), 20
    ),
    "stepwise, 20 draws": _drawing(lambda: Stepwise(3.0, limits=LIMITS), 20),
    "best set": lambda problem: search.best(problem, limits=LIMITS),
    "objective perturbation": lambda problem: [
        objective_perturbation(problem, range(SIZE), epsilon=1.0, random_state=i) for i in range(20)
    ],
}
SQUARED: dict[str, Work] = {
    "top-r, 20 draws": _drawing(lambda: TopR(3.0, limits=LIMITS), 20),
    "mistakes, 20 draws": _drawing(lambda: Mistakes(3.0, limits=LIMITS), 20),
    "Markov chain, 50 of 1000 steps": _drawing(lambda: MarkovChain(3.0), 50),
    "Markov chain, epsilon 0.3, 50 of 1000 steps": _drawing(lambda: MarkovChain(0.3), 50),
    "Markov chain over the l1 ball, 5 of 1000 steps": _drawing(
        lambda: MarkovChain(3.0, ball="l1"), 5
    ),
    "sample and aggregate, 20 draws": _drawing(lambda: SampleAggregate(3.0), 20),
    "lasso stability, 20 draws": _drawing(lambda: LassoStability(3.0, 1e-6), 20),
    "lasso stability by perturbation, 20 draws": _drawing(
        lambda: LassoStability(3.0, 1e-6, method="perturbation"), 20
    ),
    "noisy statistics": lambda problem: [
        noisy_statistics(problem, range(SIZE), epsilon=1.0, random_state=i) for i in range(20)
    ],
    "best at every number of mistakes": lambda problem: search.best_by_mistakes(
        problem, limits=LIMITS
    ),
}
CHAINS = [what for what in SQUARED if what.startswith("Markov chain")]
ONE = {
    "Markov chain, 1 of 1000 steps": _drawing(lambda: MarkovChain(3.0), 1),
    "Markov chain, epsilon 0.3, 1 of 1000 steps": _drawing(lambda: MarkovChain(0.3), 1),
    "Markov chain over the l1 ball, 1 of 1000 steps": _drawing(
        lambda: MarkovChain(3.0, ball="l1"), 1
    ),
}
MANY = 200  # features of a table for one chain
SLOW: dict[str, tuple[str, Work]] = {
    "best set by outer approximation": (
        "squared",
        lambda problem: search.best(problem, solver="outer-approximation", limits=LIMITS),
    ),
    "best set by the integer program": (
        "squared",
        lambda problem: search.best(problem, solver="mip", limits=LIMITS),
    ),
    "Markov chain, 1 of 100 steps": ("logistic", _drawing(lambda: MarkovChain(3.0, steps=100), 1)),
    "sample and aggregate by SVMs": ("hinge", _drawing(lambda: SampleAggregate(3.0), 1)),
}


def chains() -> Iterator[Case]:
    """Return the cases of the Markov chain on other tables."""
    for table, what, (rows, features, width) in product(TABLES, CHAINS, SHAPES):
        if table:
            yield Case(what, "squared", rows, features, width, table)
    for what, (_, features, width) in product(CHAINS, SHAPES):
        yield Case(what, "squared", 300, features, width)
    for table, what, (rows, _, width) in product(("", "no ridge"), ONE, SHAPES):
        yield Case(what, "squared", rows, MANY, width, table)


def cases() -> Iterator[Case]:
    """Return all cases: chains, then every mechanism, then every loss."""
    yield from chains()
    for shape in SHAPES:
        for what in SQUARED:
            yield Case(what, "squared", *shape)
    for loss in LOSSES:
        for shape in SHAPES:
            for what in EVERY:
                if what != "objective perturbation" or loss in CURVED:
                    yield Case(what, loss, *shape)
    for shape in SMALL:
        for what, (loss, _) in SLOW.items():
            yield Case(what, loss, *shape)


def make_tables(case: Case) -> tuple[list[Floats], Floats]:
    """Draw categories, coded as features, as single columns of -1 and 1, and by one level each.

    They have one level more than columns (T33); the first level has no single column. The target
    depends on the second level of each of the first categories.
    """
    rng = np.random.default_rng([case.rows, case.features, case.width])
    K, shape = case.width, (case.rows, case.features)
    table = TABLES[case.table]
    levels = rng.integers(K + 1, size=shape)
    if table.repeats:
        again = rng.random(shape) < table.repeats
        for g in range(1, case.features):
            levels[again[:, g], g] = levels[again[:, g], g - 1]
    corners = Category(levels=tuple(map(str, range(K + 1)))).corners[levels]
    hot = np.eye(K + 1)[levels][:, :, 1:]
    y = hot[:, : table.size, 0].sum(axis=1)
    y = (y - y.mean()) / (3 * y.std()) + 0.1 * rng.standard_normal(case.rows)
    if case.loss in LABELLED:
        y = np.where(y > 0, 1.0, -1.0)
    flat = (case.rows, -1)
    single = 2 * hot - 1
    return [corners.reshape(flat), single.reshape(flat), single[:, :, 0].copy()], y


def measure(case: Case, repeats: int = REPEATS) -> Line:
    """Time one case: categories as features, as single columns, and one column of each.

    >>> line = measure(Case("best set", "squared", 200, 6, 2), repeats=1)
    >>> None in (line.blocks, line.columns, line.features)
    False
    """
    tables, y = make_tables(case)
    work = (EVERY | SQUARED | ONE).get(case.what) or SLOW[case.what][1]
    groups = np.arange(case.features * case.width).reshape(-1, case.width).tolist()
    size = TABLES[case.table].size
    given = [(X, g, size) for X, g in zip(tables, (groups, None, None), strict=True)]
    if case in set(chains()):
        given.append((tables[1], None, size * case.width))
    return Line(case, *(_timed(work, case, X, y, g, k, repeats) for X, g, k in given))


def _timed(
    work: Work, case: Case, X: Floats, y: Floats, groups: Any, size: int, repeats: int
) -> float | None:
    """Return the least CPU time of some runs, after one that compiles; None if it is too long."""
    table = TABLES[case.table]
    given: dict[str, Any] = {"classes": (-1, 1)} if case.loss in LABELLED else {"y_bound": 1.0}
    given |= {"size": size, "radius": table.radius, "ridge": table.ridge}
    given |= {"loss": case.loss, "x_bound": 1.0}
    seconds: list[float] = []
    for _ in range(repeats + 1):
        began = process_time()
        try:
            work(Problem(X, y, groups=groups, **given))
        except UnprovenError:
            if seconds:
                return None
        seconds.append(process_time() - began)
    return round(min(seconds[1:]), 5)


def read(path: Path) -> list[Line]:
    """Read the lines of earlier runs."""
    return read_lines(path, _line)


def page(lines: Sequence[Line]) -> str:
    """Return the tables of docs/blocks.md: the chains', and one for each shape."""
    out = _other_tables({line.case: line for line in lines})
    order = {case: i for i, case in enumerate(cases())}
    for n, p, width in SHAPES:
        own = [x for x in lines if x.case == Case(x.case.what, x.case.loss, n, p, width)]
        out += [
            f"\n### {n:,} rows, {p} features of {width} columns\n",
            "| what | loss | seconds | times as many columns | times a column a feature |",
            "| --- | --- | ---: | ---: | ---: |",
        ]
        for x in sorted(own, key=lambda x: order.get(x.case, 0)):
            ratios = [_ratio(x.blocks, other, width) for other in (x.columns, x.features)]
            seconds = "not in time" if x.blocks is None else f"{x.blocks:.2g}"
            out.append(f"| {x.case.what} | {x.case.loss} | {seconds} | {' | '.join(ratios)} |")
    return "\n".join(out) + "\n"


def _other_tables(known: dict[Case, Line]) -> list[str]:
    """Return the chains' times on other tables: seconds, and times as many columns."""
    head = " | ".join(
        f"{width} columns a feature: seconds | times | a column a feature | as many chosen"
        for _, _, width in SHAPES
    )
    out = [
        "\n### The Markov chain on other tables, times as many columns\n",
        f"| table | what | {head} |",
        "| --- | --- |" + " ---: |" * 4 * len(SHAPES),
    ]
    kinds = dict.fromkeys((c.table, c.rows, c.features, c.what) for c in chains())
    for table, n, p, what in kinds:
        rows, features = (
            f"{many} {what_of}" if many != usual else ""
            for many, usual, what_of in zip((n, p), SHAPES[0], ("rows", "features"), strict=False)
        )
        name = ", ".join(filter(None, (rows, features, table)))
        found = [known.get(Case(what, "squared", n, p, width, table)) for _, _, width in SHAPES]
        if any(found):
            out.append(f"| {name} | {what} | " + " | ".join(map(_both, found)) + " |")
    return out


def _both(line: Line | None) -> str:
    if line is None or line.blocks is None:
        return "| | | "
    others = line.columns, line.features, line.chosen
    times = (_ratio(line.blocks, other, line.case.width) for other in others)
    return f"{line.blocks:.2g} | {' | '.join(times)}"


def _ratio(blocks: float | None, single: float | None, width: int) -> str:
    """Return a ratio, in bold where it is above the number of columns."""
    if blocks is None or single is None:
        return "" if blocks is None else "these not in time"
    ratio = blocks / max(single, 1e-5)
    return f"**{ratio:.2g}**" if ratio > width else f"{ratio:.2g}"


def main(arguments: Sequence[str] = (), output: Path = LINES) -> list[Line]:
    """Measure what is missing, write it down line by line, and write the page."""
    lines = read(output)
    if "--draw-only" not in arguments:
        go_on(lines, output, cases(), attrgetter("case"), measure)
    if PAGE.exists() and output == LINES:
        write_below(PAGE, MARK, page(lines))
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
