"""Run trials in processes, and write results as they come: a killed run goes on where it was."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dpsubset.checks import whole
from dpsubset.errors import InputError, without_context
from dpsubset.reproduction.settings import Figure, Panel, settings
from dpsubset.reproduction.trial import Job, Row, run_trial

__all__ = ["Results", "jobs_of", "run_jobs"]


def jobs_of(
    figures: Iterable[Figure], *, trials: int, draws: int, quick: bool = False
) -> list[Job]:
    """Return what has to be done for some figures; panels that they share are done once.

    >>> jobs = jobs_of(settings().chosen("hinge"), trials=2, draws=50, quick=True)
    >>> len(jobs), jobs[0]
    (2, Job(panel='p100-hinge', value=4000, trial=0, draws=50))
    """
    trials, draws = whole(trials, "trials", 1), whole(draws, "draws", 1)
    panels = dict.fromkeys(name for figure in figures for name in figure.panels)
    return [
        Job(name, value, trial, draws)
        for trial in range(trials)  # first: a run that is ended early has all points
        for name in panels
        for value in _values(settings().panels[name], quick)
    ]


def _values(panel: Panel, quick: bool) -> Iterable[float | None]:
    values = panel.quick if quick else panel.values
    return values if panel.axis != "count" else ([None] if values else [])


class Results:
    """A file of JSON lines: one a trial, whole or not there.

    A trial is known by its panel, value, number and draws; methods that it lacks may follow in a
    line of their own. A line that a killed run left unfinished is cut off.
    """

    @without_context
    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[Job, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = 0
        for line, end in _lines(path):
            try:
                entry = json.loads(line)
                if not isinstance(entry.get("rows", entry.get("failed")), (list, str)):
                    raise ValueError
                self._remember(Job(**entry["job"]), entry)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise _foreign(path) from None
            kept = end
        rest = path.read_bytes()[kept:] if path.exists() else b""
        if rest and not rest.startswith(_BEGINNING[: len(rest)]):
            raise _foreign(path)
        if rest:
            os.truncate(path, kept)

    def _remember(self, job: Job, entry: dict[str, Any]) -> None:
        earlier = self._known.get(job, {}).get("rows", [])
        self._known[job] = entry | {"rows": [*earlier, *entry.get("rows", ())]}

    def lacking(self, job: Job) -> tuple[str, ...]:
        """Return the methods of a trial's panel that it does not have; none if it failed."""
        entry = self._known.get(job, {})
        there = {row["method"] for row in entry.get("rows", ())}
        methods = () if "failed" in entry else settings().panels[job.panel].methods
        return tuple(name for name in methods if name not in there)

    def __contains__(self, job: Job) -> bool:
        return not self.lacking(job)

    def add(self, job: Job, entry: dict[str, Any]) -> None:
        """Append a trial's entry, so that it survives whatever comes next."""
        entry = {"job": vars(job).copy()} | entry
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, sort_keys=True) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._remember(job, entry)

    def rows(self, jobs: Iterable[Job]) -> list[Row]:
        """Return the rows of trials that succeeded, with panel, value and trial, in their order."""
        return [
            {"panel": job.panel, "value": job.value, "trial": job.trial} | row
            for job in jobs
            for row in self._known.get(job, {}).get("rows", ())
        ]

    def all_rows(self) -> list[Row]:
        """Return the rows of all trials in the file."""
        return self.rows(self._known)

    def failures(self, jobs: Iterable[Job]) -> list[tuple[Job, str]]:
        """Return the trials that failed, and why."""
        known = ((job, self._known.get(job, {})) for job in jobs)
        return [(job, entry["failed"]) for job, entry in known if "failed" in entry]


_BEGINNING = b'{"'  # of every line


def _foreign(path: Path) -> InputError:
    return InputError(
        f"{path} holds a line that is no result of `dpsubset reproduce`: move the file away, or "
        "name another folder"
    )


def _lines(path: Path) -> Iterator[tuple[bytes, int]]:
    """Return the finished lines of a file and where each ends."""
    end = 0
    for line in io.BytesIO(path.read_bytes() if path.exists() else b""):
        if not line.endswith(b"\n"):
            return
        end += len(line)
        yield line, end


def run_jobs(jobs: Iterable[Job], results: Results, *, workers: int = 1) -> Iterator[Job]:
    """Do what is not known yet, each trial in a process of its own; return jobs as they are done.

    Any backend of joblib serves: set it by `joblib.parallel_config`.
    """
    from joblib import Parallel, delayed

    missing = [job for job in jobs if job not in results]
    parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
    work = (delayed(_attempt)(job, results.lacking(job)) for job in missing)
    for job, entry in parallel(work):
        results.add(job, entry)
        yield job


def _attempt(job: Job, methods: Sequence[str] | None = None) -> tuple[Job, dict[str, Any]]:
    """Run a trial; a failure is a result, too, and never replaced by another table."""
    try:
        return job, {"rows": run_trial(job, methods)}
    except Exception as error:
        return job, {"failed": f"{type(error).__name__}: {error}"}
