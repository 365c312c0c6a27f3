"""Compile every numba function once, so that a user's first answer does not wait for it."""

from __future__ import annotations

import numpy as np

from dpsubset import search
from dpsubset.mechanisms import Exponential, MarkovChain, PermuteAndFlip
from dpsubset.planning.generate import paper_table
from dpsubset.problem import Problem

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
        target = table.y if loss == "absolute" else table.y > 0
        problem = Problem(
            table.X, target, size=3, loss=loss, x_bound=0.5, y_bound=0.5, radius=1.1, ridge=1.0
        )
        search.top(problem, 50)
        PermuteAndFlip(epsilon=30.0).draw(problem, 3, random_state=0)
    small = Problem(table.X[:, :8], table.y, size=3, x_bound=0.5, y_bound=0.5, radius=0.01)
    Exponential(epsilon=1.0).draw(small, 1, random_state=0)
    search.top(small, 20)
    search.best_by_mistakes(small)
    grouped = [[3 * g, 3 * g + 1, 3 * g + 2] for g in range(10)]
    blocks = Problem(table.X, table.y, size=3, x_bound=0.5, y_bound=0.5, radius=1.1, groups=grouped)
    search.best(blocks)
    MarkovChain(epsilon=1.0, steps=20).draw(blocks, 1, random_state=0)


if __name__ == "__main__":
    warm_up()
