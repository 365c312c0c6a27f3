"""Run the comparison, seed after seed, and write the page; what is in the file is not run again."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.realtables.methods import CEILINGS, PRIVATE, Answer, Method, Split, refit
from benchmarks.realtables.tables import TABLES
from dpsubset.data import Table
from dpsubset.errors import DpsubsetError
from dpsubset.planning.quality import auc, r_squared
from dpsubset.version import __version__

__all__ = ["RESULTS", "main", "split_of"]

RESULTS = Path(__file__).with_name("results.jsonl")
EPSILONS = (1.0, 3.0, 0.3, 10.0, 0.1)  # the most asked for first
Known = set[tuple[int, float | None, str, str]]
SEEDS = 20
_TRAIN = 0.7


def split_of(name: str, seed: int) -> Split:
    """Return 70 and 30 percent of a table's rows."""
    X, y, schema = TABLES[name].read()
    order = np.random.default_rng([seed, 7]).permutation(len(y))
    cut = round(_TRAIN * len(y))
    first, rest = order[:cut], order[cut:]
    return Split(schema, Table(X[first], y[first]), Table(X[rest], y[rest]))


def judged(split: Split, answer: Answer) -> dict[str, float | None]:
    """Return R^2, or AUC and log loss; the last only of chances."""
    y = split.outcome
    if not split.labels:
        return {"quality": r_squared(y, answer.predicted), "log_loss": None}
    loss = None
    if answer.chances:
        chance = np.clip(answer.predicted, 1e-6, 1.0 - 1e-6)
        loss = float(-np.mean(np.log(np.where(y > 0, chance, 1.0 - chance))))
    return {"quality": auc(y > 0, answer.predicted), "log_loss": loss}


def jobs(
    seeds: int, tables: list[str], epsilons: Sequence[float] = EPSILONS
) -> Iterator[tuple[int, float | None, str]]:
    """Yield seeds, epsilons and tables, in the order in which a run is most useful if stopped."""
    for seed in range(seeds):
        for name in tables:
            yield seed, None, name
        for epsilon in epsilons:
            for name in tables:
                yield seed, epsilon, name


def missing(job: tuple[int, float | None, str], known: Known) -> dict[str, Method]:
    """Return the methods that a job lacks; without an epsilon, those without privacy."""
    methods = CEILINGS if job[1] is None else PRIVATE
    return {name: method for name, method in methods.items() if (*job, name) not in known}


def measure(
    split: Split, epsilon: float | None, seed: int, methods: dict[str, Method]
) -> Iterator[dict[str, Any]]:
    """Run methods on one split."""
    for name, method in methods.items():
        began = time.process_time()
        try:
            answer = method(split, epsilon or 0.0, seed)
        except DpsubsetError as error:
            yield {"method": name, "failed": type(error).__name__}
            continue
        seconds = time.process_time() - began
        row: dict[str, Any] = {"method": name, **judged(split, answer)}
        row["seconds"] = round(seconds, 3)
        if epsilon is not None and answer.features is not None:
            row["features"] = list(answer.features)
            row["refit"] = judged(split, refit(split, answer.features))["quality"]
        yield row


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    if not given.page:
        _run(given.seeds, given.tables, given.epsilons, given.seconds)
    from benchmarks.realtables.page import write_page

    write_page()


def _run(seeds: int, tables: list[str], epsilons: list[float], seconds: float) -> None:
    began = time.monotonic()
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    rows_known = map(json.loads, lines)
    known = {(r["seed"], r["epsilon"], r["table"], r["method"]) for r in rows_known}
    todo = [job for job in jobs(seeds, tables, epsilons) if missing(job, known)]
    kept: dict[str, tuple[int, Split]] = {}
    warnings.simplefilter("ignore")  # of solvers that did not converge
    for seed, epsilon, name in track(todo, "comparing", console=Console(stderr=True)):
        if time.monotonic() - began > seconds:
            break
        if name not in kept or kept[name][0] != seed:
            kept[name] = seed, split_of(name, seed)
        split = kept[name][1]
        common = {
            "table": name,
            "seed": seed,
            "epsilon": epsilon,
            "rows": split.fit[1].size,
            "labels": split.labels,
            "version": __version__,
        }
        methods = missing((seed, epsilon, name), known)
        rows = [common | row for row in measure(split, epsilon, seed, methods)]
        with RESULTS.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
