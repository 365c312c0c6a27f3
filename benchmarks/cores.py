"""How much quicker two cores are than one, for p = 100,000 columns.

`python -m benchmarks.cores` on a machine with two free cores, some 10 minutes, 4 GB of memory and
30 MB of a temporary folder. Each kind of work is done by one core and by two in turn, several
times; the ratio is that of the shortest times. BLAS is kept to one thread: what is compared is what
the library does itself. A line a kind goes to benchmarks/cores.jsonl, which is written anew, and
their table to docs/scale.md; `--dry` prints the lines only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.kept import written
from benchmarks.scale_files import write_large_bed
from dpsubset import PermuteAndFlip, Problem
from dpsubset.cuts.dual import DualCuts
from dpsubset.data import open_table
from dpsubset.designs import as_design
from dpsubset.privacy import as_randomness
from dpsubset.sampling.ahead import Ahead, Try
from dpsubset.sampling.partition import Partition
from dpsubset.sampling.race import proposals

__all__ = ["main", "ratio", "table"]

PAGE, RESULTS = Path("docs/scale.md"), Path(__file__).with_suffix(".jsonl")
_TIMES = 4
_MORE = 20  # releases after the first
_WEIGHTS = np.array([1.0, 0.8, 0.6, 0.5, 0.4])
_RELEASES = {"squared": (3.0, 300.0), "logistic": (3.0, 300.0), "absolute": (3.0, 300.0)}


def ratio(work: Callable[[], Any], times: int = _TIMES) -> dict[str, float]:
    """Return the least seconds by one core and by two, and how they compare.

    `times` is by the wall's clock. `path` is what CPU seconds say, which other work on the machine
    disturbs less: those of one core over the longest path of two, which is what the main thread
    does by itself and half of what the others do.
    """
    best, spent, path = {1: np.inf, 2: np.inf}, {1: np.inf, 2: np.inf}, np.inf
    asked = os.environ.get("OMP_NUM_THREADS")
    work()  # compiled, and in the cache of files
    for _ in range(times):
        for cores in best:
            os.environ["OMP_NUM_THREADS"] = str(cores)
            began, cpu, own = time.perf_counter(), time.process_time(), time.thread_time()
            work()
            best[cores] = min(best[cores], time.perf_counter() - began)
            all_of_it, alone = time.process_time() - cpu, time.thread_time() - own
            spent[cores] = min(spent[cores], all_of_it)
            path = min(path, alone + (all_of_it - alone) / 2) if cores == 2 else path
    os.environ.pop("OMP_NUM_THREADS")
    if asked is not None:
        os.environ["OMP_NUM_THREADS"] = asked
    return {
        "one": best[1],
        "two": best[2],
        "times": best[1] / best[2],
        "one_cpu": spent[1],
        "path": spent[1] / path,
    }


def _problem(X: Any, loss: str, ridge: float) -> Problem:
    """Pose a question with five true columns, of which the last ones are weak."""
    rng = np.random.default_rng(1)
    y = 0.3 * X[:, : _WEIGHTS.size] @ _WEIGHTS + 0.3 * rng.normal(size=len(X))
    labels: dict[str, Any] = {"classes": (-1.0, 1.0)} if loss == "logistic" else {"y_bound": 1.0}
    target = np.where(y > 0, 1.0, -1.0) if loss == "logistic" else np.clip(y, -1.0, 1.0)
    return Problem(X, target, size=5, loss=loss, x_bound=1.0, radius=1.0, ridge=ridge, **labels)


def _tries(partition: Partition, seed: int, wanted: int) -> None:
    """Decide so many tries, and learn nothing of them."""
    source, made = as_randomness(seed), 0

    def drawn() -> Iterator[Try]:
        while True:  # a single support would end a draw
            yield from proposals(partition, source, None)

    with Ahead(partition, drawn) as ahead:
        while made < wanted:
            one = ahead.next()
            if one.support.size:
                partition.reaches(*one.question)
                made += 1


def kinds(X: Any, bed: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name each kind of work, and how it is done."""
    U, numbers = np.random.default_rng(2).normal(size=(len(X), 8)), count()
    design = as_design(X, bound=1.0, lower=-1.0, upper=1.0)
    packed = as_design(open_table(bed), bound=1.0, lower=0, upper=2)
    yield "products, dense float32, eight vectors", lambda: design.correlate(U)
    yield "products, `.bed`, eight vectors", lambda: packed.correlate(U[: packed.n_rows])
    yield "first look, dense float32", lambda: as_design(X, bound=1.0, lower=-1.0, upper=1.0)
    maker, some = DualCuts(_problem(X, "huber", 10.0)), np.arange(10, 2010)
    yield "2,000 fits of one more column, Huber's loss", lambda: maker.extended((0, 1), some)
    partition = Partition(_problem(X, "absolute", 300.0), kappa=0.05)
    yield "500 tries, absolute loss", lambda: _tries(partition, next(numbers), 500)
    for loss, (epsilon, ridge) in _RELEASES.items():
        mechanism = PermuteAndFlip(epsilon)

        def first(loss: str = loss, ridge: float = ridge, by: Any = mechanism) -> Any:
            return by.experiment(_problem(X, loss, ridge), 0)

        kept = _problem(X, loss, ridge)

        def more(kept: Problem = kept, by: Any = mechanism) -> Any:
            return by.draw(kept, _MORE, random_state=1)

        yield f"a first release, {loss} loss", first
        yield f"{_MORE} more, {loss} loss", more


def table(lines: list[dict[str, Any]]) -> str:
    """Return the lines as a page shows them."""
    rows = [
        "| work | one core, s | two cores, s | times | by the longest path of CPU seconds |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for line in lines:
        seconds = f"{line['one']:.2g} | {line['two']:.2g} | {line['times']:.2f}"
        rows.append(f"| {line['work']} | {seconds} | {line['path']:.2f} |")
    last = lines[-1]
    about = f"n = {last['n']:,}, p = {last['p']:,}, {last['machine']}, {last['when']}."
    return "\n".join([*rows, "", f"The shortest of {last['repeated']}; {about}"])


def main(n: int = 6000, p: int = 100_000, times: int = _TIMES, *, dry: bool = False) -> None:
    """Measure all kinds, and put them on the page."""
    about = {"n": n, "p": p, "repeated": times, "machine": platform.machine()}
    about["when"] = datetime.now(UTC).date().isoformat()
    X = np.random.default_rng(0).random((n, p), dtype=np.float32)
    X *= 2
    X -= 1
    lines = []
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        bed = Path(folder) / "cohort.bed"
        write_large_bed(bed, min(n, 1000), p, seed=1)
        for name, work in kinds(X, bed):
            lines.append({"work": name, **ratio(work, times), **about})
            print(json.dumps(lines[-1]), flush=True)
    if not dry:
        RESULTS.write_text("".join(json.dumps(line) + "\n" for line in lines))
        PAGE.write_text(written(PAGE.read_text(), "cores", table(lines)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--columns", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=_TIMES)
    parser.add_argument("--dry", action="store_true")
    given = parser.parse_args()
    main(given.rows, given.columns, given.times, dry=given.dry)
