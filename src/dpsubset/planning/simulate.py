"""How often the true columns are released, by simulation: tables of a known truth, and draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsubset.data import Schema, Table
from dpsubset.data.target import Target
from dpsubset.errors import InputError, UnprovenError
from dpsubset.losses import as_loss
from dpsubset.planning.generate import GeneratedTable, paper_classes, paper_table
from dpsubset.selection import Selection

__all__ = ["SHAPES", "Setting", "recovery", "shaped_table"]


@dataclass(frozen=True)
class Setting:
    """Parameters of the selector, and of the tables that it meets.

    Without a loss, a radius, a ridge for every row or a share for a window these are the selector's
    own, by its rules.

    Parameters
    ----------
    loss : str, optional
        The loss.
    clip : float
        The central fraction of the bounds that is used.
    ridge : float
        Weight of the squared coefficients.
    radius : float, optional
        Largest norm of the coefficients.
    row_ridge : float, optional
        The ridge of every row.
    window_share : float or "auto", optional
        The part of epsilon that buys a window of the target.
    shape : {"normal", "uniform", "skewed"}
        How the columns are distributed.
    columns : int
        How many columns there are.
    epsilon : float
        The budget.
    size : int
        How many columns are true, and selected.
    snr : float
        Signal to noise.
    rho : float
        How the columns are correlated.
    neighbours : {"replace-one", "add-remove"}
        Which tables count as neighbours.
    mechanism : str
        The mechanism's name.
    included : int
        How many of the true columns are always included: `size` counts them.

    Examples
    --------
    >>> Setting("huber:0.2", clip=1.0, ridge=10.0, columns=20, size=3).epsilon
    1.0
    >>> Setting(None, clip=1.0, ridge=10.0).labels
    False
    """

    loss: str | None
    clip: float
    ridge: float
    radius: float | None = None
    row_ridge: float | None = None
    window_share: float | str | None = None
    shape: str = "normal"
    columns: int = 100
    epsilon: float = 1.0
    size: int = 5
    snr: float = 5.0
    rho: float = 0.1
    neighbours: str = "replace-one"
    mechanism: str = "permute-and-flip"
    included: int = 0

    @property
    def labels(self) -> bool:
        """Whether the target is one of two classes."""
        return self.loss is not None and as_loss(self.loss).classification


Limits2 = tuple[float, float]
# Public bounds of columns and target. Columns have standard deviation 1, the target about 1.1.
SHAPES: dict[str, tuple[Limits2, Limits2]] = {
    "normal": ((-4.0, 4.0), (-4.0, 4.0)),
    "uniform": ((-1.74, 1.74), (-4.0, 4.0)),
    "skewed": ((0.0, 8.0), (-2.0, 10.0)),  # exponential: most entries near the lower bound
}


def shaped_table(setting: Setting, n: int, seed: int) -> GeneratedTable:
    """Draw the paper's table, or one of the same truth with independent columns of other shapes.

    >>> shaped_table(Setting("absolute", 1.0, 10.0, shape="skewed", columns=10), 100, 0).support
    (0, 2, 4, 6, 8)
    """
    p, shape = setting.columns, setting.shape
    labels = setting.labels
    draw = paper_classes if labels else paper_table
    table = draw(n, p, size=setting.size, snr=setting.snr, rho=setting.rho, seed=seed)
    if shape == "normal":
        return table
    if labels:
        raise InputError(f"tables of the shape {shape!r} have numbers as target, not labels")
    rng = np.random.default_rng(seed)
    X = rng.exponential(size=(n, p)) if shape == "skewed" else rng.uniform(-1.73, 1.73, (n, p))
    signal = X[:, list(table.support)].sum(axis=1) / np.sqrt(len(table.support))
    return GeneratedTable(
        X, signal + np.sqrt(1.0 / setting.snr) * rng.standard_normal(n), table.support
    )


def _selection(setting: Setting, support: tuple[int, ...], seconds: float) -> Selection:
    """Return the question that is put to simulated tables with these true columns."""
    bounds, limits = SHAPES[setting.shape]
    target = Target(None, (-1.0, 1.0)) if setting.labels else Target(limits)
    return Selection(
        schema=Schema.of(None, setting.columns, bounds, target),
        size=len(support),
        always_include=support[: setting.included],
        loss=setting.loss,
        clip=setting.clip,
        radius=setting.radius,
        window_share=setting.window_share,
        ridge=setting.ridge,
        row_ridge=setting.row_ridge,
        epsilon=setting.epsilon,
        neighbours=setting.neighbours,
        mechanism=setting.mechanism,
        max_seconds=seconds,
    )


def recovery(setting: Setting, n: int, tables: int, draws: int, seconds: float = 60.0) -> float:
    """Return the share of releases that are the true support; one that takes too long is not."""
    found = 0
    for seed in range(tables):
        table = shaped_table(setting, n, seed)
        selection = _selection(setting, table.support, seconds)
        problem = selection.problem(Table(table.X, table.y))
        try:
            drawn = selection.experiments(problem, draws, seed)
        except UnprovenError:
            continue
        truth = [*table.support, setting.columns]  # the constant comes last
        found += int((drawn == truth).all(axis=1).sum())
    return found / (tables * draws)
