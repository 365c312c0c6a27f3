"""`make demo`: a table from the paper's generator, and `dpsubset select` with all mechanisms.

`python -m benchmarks.demo --rehearse` does the same in silence: numba compiles what is run and
keeps it on disk, so that the seconds shown by the demo are those of the work.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

from dpsubset.planning.generate import paper_table

__all__ = ["main", "rehearse"]

_COMMAND = ["select", "table.parquet", "--target", "y", "--size", "5", "--epsilon", "1"]
# The paper clips everything to [-1/2, 1/2]; mapped to [-1, 1] its ridge 250 becomes 1000. Its loss
# is squared, and its model has no intercept.
_COMMAND += ["--bounds", "bounds.toml", "--radius", "1.1", "--ridge", "1000"]
_COMMAND += ["--loss", "squared", "--no-intercept"]
_COMMAND += ["--mechanism", "all", "--timings", "--output", "release.json"]
_RUN = [sys.executable, "-m", "dpsubset", *_COMMAND]


def main(folder: Path = Path("demo"), *, n: int = 5000, p: int = 1000) -> int:
    """Write a table and its public bounds, then run the command on them; return its exit code."""
    folder.mkdir(exist_ok=True)
    truth = ", ".join(_write(folder, n, p))
    print(f"{folder}/table.parquet: {n} rows, {p} columns and y; truly in the model: {truth}\n")
    print("$ dpsubset " + " ".join(_COMMAND) + "\n", flush=True)
    return subprocess.run(_RUN, cwd=folder, check=False).returncode


def rehearse(*, n: int = 5000, p: int = 1000) -> int:
    """Run the demo in a folder that is thrown away, and show nothing but errors."""
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), n, p)
        done = subprocess.run(_RUN, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, end="", file=sys.stderr)
    return done.returncode


def _write(folder: Path, n: int, p: int) -> list[str]:
    """Write table and bounds; return the names of the true columns."""
    table = paper_table(n, p, seed=7)
    names = [f"x{j}" for j in range(p)]
    pl.DataFrame(table.X, schema=names).with_columns(y=pl.Series(table.y)).write_parquet(
        folder / "table.parquet"
    )
    (folder / "bounds.toml").write_text("[default]\nbounds = [-0.5, 0.5]\n")
    return [names[j] for j in table.support]


if __name__ == "__main__":
    raise SystemExit(rehearse() if "--rehearse" in sys.argv[1:] else main())
