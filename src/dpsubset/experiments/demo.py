"""`make demo`: a table from the paper's generator, and `dpsubset select` with all mechanisms."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl

from dpsubset.experiments.generate import paper_table

__all__ = ["main"]


def main(folder: Path = Path("demo"), *, n: int = 5000, p: int = 1000) -> int:
    """Write a table and its public bounds, then run the command on them; return its exit code."""
    folder.mkdir(exist_ok=True)
    table = paper_table(n, p, seed=7)
    names = [f"x{j}" for j in range(p)]
    pl.DataFrame(table.X, schema=names).with_columns(y=pl.Series(table.y)).write_parquet(
        folder / "table.parquet"
    )
    # The paper clips everything to [-1/2, 1/2]; mapped to [-1, 1] its ridge 250 becomes 1000.
    (folder / "bounds.toml").write_text("[default]\nbounds = [-0.5, 0.5]\n")
    truth = ", ".join(names[j] for j in table.support)
    print(f"{folder}/table.parquet: {n} rows, {p} columns and y; truly in the model: {truth}\n")
    command = ["select", "table.parquet", "--target", "y", "--size", "5", "--epsilon", "1"]
    # The paper's loss, and its model has no intercept.
    options = ["--bounds", "bounds.toml", "--radius", "1.1", "--ridge", "1000"]
    options += ["--loss", "squared", "--no-intercept"]
    shown = ["--mechanism", "all", "--timings", "--output", "release.json"]
    print("$ dpsubset " + " ".join([*command, *options, *shown]) + "\n", flush=True)
    run = [sys.executable, "-m", "dpsubset", *command, *options, *shown]
    return subprocess.run(run, cwd=folder, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
