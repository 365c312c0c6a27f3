"""Features of several columns: how much longer do they take than single columns?

`python -m benchmarks.blocks` measures what `benchmarks/blocks.jsonl` lacks, one line of JSON a
case, and writes the table of docs/blocks.md. It can be stopped and started again; `--draw-only`
measures nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from dpsubset import search
from dpsubset.arrays import Floats
from dpsubset.coefficients import noisy_statistics, objective_perturbation
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


@dataclass(frozen=True)
class Line:
    """CPU seconds: by blocks, by as many single columns, by a single column for each feature.

    None where the work was not done in time.
    """

    case: Case
    blocks: float | None
    columns: float | None
    features: float | None


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


def cases() -> Iterator[Case]:
    """Return all cases, every mechanism first, then every loss."""
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

    The target depends on the first level of each of the first categories.
    """
    rng = np.random.default_rng([case.rows, case.features, case.width])
    K, shape = case.width, (case.rows, case.features)
    levels = rng.integers(K, size=shape)
    hot = np.eye(K)[levels]
    corners = np.sqrt(K / (K - 1)) * (hot - 1 / K)  # T33: of norm 1
    y = hot[:, :SIZE, 0].sum(axis=1)
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
    work = EVERY.get(case.what) or SQUARED.get(case.what) or SLOW[case.what][1]
    groups = np.arange(case.features * case.width).reshape(-1, case.width).tolist()
    given = zip(tables, (groups, None, None), strict=True)
    return Line(case, *(_timed(work, case.loss, X, y, g, repeats) for X, g in given))


def _timed(work: Work, loss: str, X: Floats, y: Floats, groups: Any, repeats: int) -> float | None:
    """Return the least CPU time of some runs, after one that compiles; None if it is too long."""
    given: dict[str, Any] = {"classes": (-1, 1)} if loss in LABELLED else {"y_bound": 1.0}
    given |= {"size": SIZE, "loss": loss, "x_bound": 1.0, "radius": 1.0, "ridge": 10.0}
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
    if not path.exists():
        return []
    given = [json.loads(text) for text in path.read_text().splitlines()]
    return [Line(**{**line, "case": Case(**line["case"])}) for line in given]


def page(lines: Sequence[Line]) -> str:
    """Return the tables of docs/blocks.md, a shape each."""
    out = []
    for n, p, width in SHAPES:
        own = [x for x in lines if (x.case.rows, x.case.features, x.case.width) == (n, p, width)]
        out += [
            f"\n### {n:,} rows, {p} features of {width} columns\n",
            "| what | loss | seconds | times as many columns | times a column a feature |",
            "| --- | --- | ---: | ---: | ---: |",
        ]
        for x in own:
            ratios = [_ratio(x.blocks, other, width) for other in (x.columns, x.features)]
            seconds = "not in time" if x.blocks is None else f"{x.blocks:.2g}"
            out.append(f"| {x.case.what} | {x.case.loss} | {seconds} | {' | '.join(ratios)} |")
    return "\n".join(out) + "\n"


def _ratio(blocks: float | None, single: float | None, width: int) -> str:
    """Return a ratio, in bold where it is above the number of columns."""
    if blocks is None or single is None:
        return "" if blocks is None else "these not in time"
    ratio = blocks / max(single, 1e-5)
    return f"**{ratio:.2g}**" if ratio > width else f"{ratio:.2g}"


def main(arguments: Sequence[str] = (), output: Path = LINES) -> list[Line]:
    """Measure what is missing, write it down line by line, and write the page."""
    lines = read(output)
    known = {line.case for line in lines}
    todo = [] if "--draw-only" in arguments else [case for case in cases() if case not in known]
    for case in track(todo, "measuring", console=Console(stderr=True)):
        lines.append(measure(case))
        with output.open("a") as file:
            file.write(json.dumps(asdict(lines[-1])) + "\n")
    if PAGE.exists() and output == LINES:
        before = PAGE.read_text().partition(MARK)[0]
        PAGE.write_text(f"{before}{MARK}\n{page(lines)}")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
