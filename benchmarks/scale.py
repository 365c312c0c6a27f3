"""What a release from a large .bed file takes: passes, bytes a second, memory.

`python -m benchmarks.scale 1000000 10000 squared logistic` writes the file (a quarter of a byte an
entry) to a temporary folder, and releases from it, each time in a process of its own that reads the
file once first. It begins with the disk and the memory that it needs, and ends where the folder has
too little: 2.6 GB and 1 GB here, 5.3 GB and 1.5 GB for `10000000 2000 squared --epsilon 10 --ridge
200`. A line a release goes to benchmarks/scale.jsonl; docs/scale.md has the figures.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale_files import CAUSAL, write_large_bed
from dpsubset.data import Schema, Table, open_table
from dpsubset.data.target import Target
from dpsubset.designs.cores import cores
from dpsubset.labels import Labels
from dpsubset.selection import Selection

__all__ = ["measured", "needed"]

RESULTS = Path(__file__).with_name("scale.jsonl")
_READ = 1 << 24
_BOUNDS = (-3.0, 3.0)
_NAMED = 30  # bytes a line of the .bim
_HELD = {"squared": 100, "logistic": 550}  # bytes a column that a release holds, as measured
_BESIDE = 400 << 20  # bytes that anything takes


def needed(p: int, n: int, losses: list[str]) -> tuple[int, int]:
    """Return, roughly, the bytes of disk and of memory that all releases from a file need.

    >>> [f"{size / 1e9:.1f} GB" for size in needed(10**7, 2000, ["squared"])]
    ['5.3 GB', '1.4 GB']
    """
    held = max(_HELD.get(loss, _HELD["logistic"]) for loss in losses)
    return p * -(-n // 4) + _NAMED * (p + n), _BESIDE + held * p


def _plain_read(path: Path) -> dict[str, float]:
    """Read a file from its beginning to its end."""
    began, cpu, size = time.perf_counter(), time.process_time(), 0
    buffer = bytearray(_READ)
    with path.open("rb", buffering=0) as file:
        while got := file.readinto(buffer):
            size += got
    return {
        "bytes": size,
        "read_seconds": time.perf_counter() - began,
        "read_cpu": time.process_time() - cpu,
    }


def _peak_memory() -> int:
    """Return the most bytes that this process held; what its parent held does not count."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    assert found is not None
    return int(found[1]) * 1024


def _selection(store: Any, loss: str, epsilon: float, ridge: float) -> Selection:
    labels = loss == "logistic"
    target = Target(None, ("0", "1")) if labels else Target(_BOUNDS)
    return Selection(
        schema=Schema.of(store.names, store.n_columns, (0, 2), target),
        size=CAUSAL,
        epsilon=epsilon,
        loss=loss,
        ridge=ridge,
        seed=0,
    )


def measured(
    path: Path, trait: Path, loss: str, epsilon: float, ridge: float, memory: str
) -> dict[str, Any]:
    """Release from a file, and return what it took; the plain read comes first."""
    found: dict[str, Any] = _plain_read(path)
    y = np.load(trait)
    began, cpu = time.perf_counter(), time.process_time()
    store = open_table(path, memory=memory)
    opened = time.process_time() - cpu
    selection = _selection(store, loss, epsilon, ridge)
    target = Labels(np.where(y > 0, 1.0, -1.0), True) if loss == "logistic" else y
    problem = selection.problem(Table(store, target))
    first = time.process_time() - cpu
    support = selection.release(problem).support
    passes: Any = getattr(problem.design, "_inner", problem.design)
    seconds = time.perf_counter() - began
    return found | {
        "loss": loss,
        "n": store.n_rows,
        "p": store.n_columns,
        "size": CAUSAL,
        "epsilon": epsilon,
        "ridge": ridge,
        "memory_asked": memory,
        "passes": passes.passes,
        "fetched": passes.fetched,
        "seconds": seconds,
        "cpu": time.process_time() - cpu,
        "open_cpu": opened,
        "first_pass_cpu": first - opened,
        "bytes_a_second": passes.passes * found["bytes"] / seconds,
        "plain_bytes_a_second": found["bytes"] / found["read_seconds"],
        "peak_memory": _peak_memory(),
        "support": list(support),
    }


def _cohort(folder: Path, p: int, n: int) -> tuple[Path, Path, list[int]]:
    """Write a file and its trait, unless they are there; return where, and the causal variants."""
    path = folder / f"cohort-{p}-{n}.bed"
    trait, truth = path.with_suffix(".npy"), path.with_suffix(".json")
    if not truth.exists():
        y, causal = write_large_bed(path, n, p, seed=1)
        np.save(trait, y)
        truth.write_text(json.dumps(causal))
    return path, trait, json.loads(truth.read_text())


def main(
    p: int, n: int, losses: list[str], epsilon: float, ridge: float, folder: Path, memory: str
) -> None:
    """Release from a file by every loss, and keep what that took."""
    disk, held = needed(p, n, losses)
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    told = f"{disk / 1e9:.1f} GB in {folder} ({free / 1e9:.1f} GB free)"
    print(f"needs {told} and some {held / 1e9:.1f} GB of memory", file=sys.stderr, flush=True)
    if free < disk and not (folder / f"cohort-{p}-{n}.json").exists():
        raise SystemExit("there is too little room: name another folder, --folder")
    path, trait, causal = _cohort(folder, p, n)
    for loss in losses:
        words = [str(path), str(trait), loss, str(epsilon), str(ridge), memory]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.scale", "--one", *words],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        line = json.loads(done.stdout.splitlines()[-1])
        line["causal_found"] = len(set(line.pop("support")) & set(causal))
        line |= {"cores": cores(), "machine": platform.machine()}
        line |= {"when": datetime.now(UTC).date().isoformat()}
        with RESULTS.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line, indent=1), flush=True)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("columns", type=int)
    parser.add_argument("people", type=int, help="a multiple of four")
    parser.add_argument("losses", nargs="*", default=["squared"])
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--ridge", type=float, default=600.0)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--folder", type=Path, help="where the file is kept, to be used again")
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        file, trait, loss, epsilon, ridge, memory = sys.argv[2:]
        told = measured(Path(file), Path(trait), loss, float(epsilon), float(ridge), memory)
        print(json.dumps(told))
    else:
        asked = _asked()
        with tempfile.TemporaryDirectory() as made:
            main(
                *(asked.columns, asked.people, asked.losses, asked.epsilon, asked.ridge),
                *(asked.folder or Path(made), asked.memory),
            )
