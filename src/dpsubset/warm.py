"""Compile every numba function once, so that a user's first answer does not wait for it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from dpsubset import search
from dpsubset.cuts.moments import MomentCuts
from dpsubset.cuts.region import root
from dpsubset.data import open_table
from dpsubset.designs import as_design
from dpsubset.mechanisms import Exponential, MarkovChain, PermuteAndFlip, SampleAggregate
from dpsubset.planning.generate import paper_table
from dpsubset.privacy import as_randomness
from dpsubset.problem import Problem
from dpsubset.sampling.pieces import Envelope

__all__ = ["warm_up"]


def warm_up() -> None:
    """Run small problems through every compiled function; the machine code is cached on disk."""
    for dtype in (np.float64, np.float32):
        table = paper_table(60, 30, size=3, seed=1, dtype=dtype)
        for bound in (0.5, 9.0):
            problem = Problem(
                table.X, table.y, size=5, x_bound=bound, y_bound=bound, radius=1.1, ridge=1.0
            )
            search.best(problem)
            Exponential(epsilon=1.0).draw(problem, 20, random_state=0)
            PermuteAndFlip(epsilon=30.0).draw(problem, 3, random_state=0)
    MarkovChain(epsilon=1.0, steps=20).draw(problem, 1, random_state=0)
    for loss in ("absolute", "logistic"):  # one with kinks, one without
        target, classes = (table.y, None) if loss == "absolute" else (table.y > 0, (False, True))
        problem = Problem(
            table.X,
            target,
            size=3,
            loss=loss,
            x_bound=0.5,
            y_bound=0.5,
            radius=1.1,
            ridge=1.0,
            classes=classes,
        )
        search.top(problem, 50)
        PermuteAndFlip(epsilon=30.0).draw(problem, 3, random_state=0)
        if loss == "logistic":
            SampleAggregate(epsilon=1.0).draw(problem, 1, random_state=0)
    _near_kinks()
    small = Problem(table.X[:, :8], table.y, size=3, x_bound=0.5, y_bound=0.5, radius=0.01)
    Exponential(epsilon=1.0).draw(small, 1, random_state=0)
    search.top(small, 20)
    search.best_by_mistakes(small)
    grouped = [[3 * g, 3 * g + 1, 3 * g + 2] for g in range(10)]
    blocks = Problem(table.X, table.y, size=3, x_bound=0.5, y_bound=0.5, radius=1.1, groups=grouped)
    search.best(blocks)
    Envelope(MomentCuts(small).cheap(root(small)), 1.0).draw_many(as_randomness(0), 2)
    MarkovChain(epsilon=1.0, steps=20).draw(blocks, 1, random_state=0)
    _genotypes()


def _near_kinks() -> None:
    """Search a table of so many rows that most keep their slopes."""
    table = paper_table(600, 40, size=3, seed=1)
    problem = Problem(
        table.X,
        table.y,
        size=3,
        loss="absolute",
        x_bound=0.5,
        y_bound=0.5,
        radius=1.1,
        ridge=1.0,
    )
    search.best_by_mistakes(problem)


def _genotypes() -> None:
    """Make products with a table of two bits an entry."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.bed"
        path.write_bytes(b"\x6c\x1b\x01" + bytes(range(8)))
        path.with_suffix(".bim").write_text("".join(f"1 v{j} 0 0 A G\n" for j in range(4)))
        path.with_suffix(".fam").write_text("".join(f"f i{i} 0 0 0 0\n" for i in range(8)))
        design = as_design(open_table(path), bound=1.0, lower=0, upper=2)
        design.gram([0, 1])


if __name__ == "__main__":
    warm_up()
