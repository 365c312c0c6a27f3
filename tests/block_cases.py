"""Problems with groups of columns as features, and their scores and laws the slow, plain way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import oracle

from dpsubset import Problem
from dpsubset.losses import as_loss

GROUPS = ((3,), (0, 5, 8), (1,), (7, 2), (4, 6, 9, 10))  # in no order
SEVEN = ((6,), (3, 8, 10), (0,), (1, 11), (2, 4, 9, 13, 14), (5,), (7, 12))
BALLS = {
    "inside the ball": {"radius": 50.0, "ridge": 2.0},
    "the ball is active": {"radius": 0.3, "ridge": 0.1},
    "no ridge": {"radius": 0.8, "ridge": 0.0},
}
LOSSES = ("squared", *oracle.LOSSES, "huber_hinge:0.5")
LABELLED = (*oracle.LABELLED, "huber_hinge:0.5")


@dataclass(frozen=True)
class Blocks:
    """A raw table with groups of columns; entries and rows of blocks may be out of bounds."""

    X: np.ndarray
    y: np.ndarray
    groups: tuple[tuple[int, ...], ...]
    size: int
    x_bound: float = 1.0
    y_bound: float = 1.0
    radius: float = 0.8
    ridge: float = 0.5
    include: tuple[int, ...] = ()
    exclude: tuple[int, ...] = ()
    loss: str = "squared"

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `Problem(blocks.X, blocks.y, ...)`."""
        names = ("size", "x_bound", "y_bound", "radius", "ridge", "include", "exclude", "loss")
        given = {name: getattr(self, name) for name in (*names, "groups")}
        if self.loss in LABELLED:
            del given["y_bound"]
            given["classes"] = (-1, 1)
        return given

    def bounded(self) -> tuple[np.ndarray, np.ndarray]:
        """Return table and target as scores see them: entries clipped, rows of blocks scaled."""
        X = np.clip(np.asarray(self.X, dtype=float), -self.x_bound, self.x_bound)
        for group in self.groups:
            for row in X:
                norm = math.sqrt(math.fsum(row[j] ** 2 for j in group))
                if len(group) > 1 and norm > self.x_bound:
                    row[list(group)] *= self.x_bound / norm
        return X, np.clip(self.y, -self.y_bound, self.y_bound)

    def supports(self) -> np.ndarray:
        """List every support of features."""
        return oracle.all_supports(len(self.groups), self.size, self.include, self.exclude)

    def scores(self, supports: np.ndarray | None = None) -> np.ndarray:
        """Return the score of every support, from all columns of its features."""
        X, y = self.bounded()
        listed = self.supports() if supports is None else supports
        out = []
        for support in listed:
            columns = np.array([[j for g in support for j in self.groups[g]]])
            if self.loss.startswith("huber_hinge"):  # as one support of single columns
                out.append(self._of_columns(X, y, columns[0]))
                continue
            if self.loss == "squared":
                found = oracle.certified_scores(X, y, columns, self.radius, self.ridge)
            else:
                found = oracle.cone_scores(X, y, columns, self.radius, self.ridge, self.loss)
            out.append(float(found[0][0]))
        return np.array(out)

    def _of_columns(self, X: np.ndarray, y: np.ndarray, columns: np.ndarray) -> float:
        options = {**self.arguments(), "size": columns.size, "include": (), "exclude": ()}
        return Problem(X, y, **{**options, "groups": None}).score(columns.tolist())

    def delta(self) -> float:
        """Return how far one row moves a score against all others: by its number of features."""
        reach = self.radius * self.x_bound * math.sqrt(self.size)
        if self.loss.startswith("huber_hinge"):
            return as_loss(self.loss).spread(1.0, reach)
        labelled = self.loss in LABELLED
        y = np.array([1.0]) if labelled else self.y_bound * np.linspace(-1, 1, 2001)
        ends = [oracle.loss_values(self.loss, y, np.full(y.size, t)) for t in (-reach, reach)]
        nearest = np.full(1, reach) if labelled else np.clip(y, -reach, reach)
        return float((np.maximum(*ends) - oracle.loss_values(self.loss, y, nearest)).max())

    def kappa(self, epsilon: float, neighbours: str) -> float:
        """Return the exponent of the scores."""
        return epsilon / ((2.0 if neighbours == "replace-one" else 1.0) * self.delta())


def blocks(loss: str, seed: int, **options: Any) -> Blocks:
    """Return a table of 25 rows whose target depends on the second feature and the fourth."""
    rng = np.random.default_rng(seed)
    groups = options.pop("groups", GROUPS)
    n, p = options.pop("n", 25), sum(map(len, groups))
    X = rng.uniform(-1.3, 1.3, size=(n, p))
    X[:, groups[0][0]] = X[:, groups[1][0]] + 0.1 * rng.normal(size=n)
    signal = 0.5 * X[:, groups[1][0]] - 0.4 * X[:, groups[3][-1]] + 0.3 * rng.normal(size=n)
    y = np.where(signal > 0, 1.0, -1.0) if loss in LABELLED else signal
    return Blocks(X, y, groups, options.pop("size", 2), loss=loss, **options)


def problem_of(case: Blocks) -> Problem:
    """Return the library's problem of a case."""
    return Problem(case.X, case.y, **case.arguments())
