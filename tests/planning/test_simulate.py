"""How often the truth is released: absolute loss at a quarter of squared loss's rows (T21)."""

import numpy as np

from dpsubset import PermuteAndFlip, Problem
from dpsubset.planning.generate import paper_table
from dpsubset.planning.simulate import Setting, _selection, recovery, shaped_table

DRAWS = 20


def truths_released(n: int, loss: str, ridge: float, tables: int) -> float:
    """Return the share of releases that are the true support, at 1000 columns and epsilon 1."""
    found = 0
    for seed in range(tables):
        table = paper_table(n, 1000, seed=seed)
        problem = Problem(
            table.X, table.y, size=5, loss=loss, x_bound=1, y_bound=1, radius=1.1, ridge=ridge
        )
        drawn = PermuteAndFlip(epsilon=1.0).draw(problem, DRAWS, random_state=seed)
        found += int((drawn == table.support).all(axis=1).sum())
    return found / (tables * DRAWS)


def test_absolute_loss_recovers_the_truth_where_squared_loss_does_not() -> None:
    assert truths_released(1300, "absolute", 30.0, tables=10) >= 0.9
    assert truths_released(1300, "squared", 30.0, tables=1) < 0.5


def test_without_a_loss_the_selectors_own_rules_hold() -> None:
    """Squared loss within a window from epsilon n = 1000 on, as a user gets it."""
    setting = Setting(None, 1.0, 10.0, columns=12, size=3, epsilon=5.0)
    for rows, window in ((1000, True), (100, False)):
        selection = _selection(setting, (0, 2, 4), 60.0).settled(rows)
        assert (selection.window is not None) == window
        assert selection.loss == ("squared" if window else "huber:0.2")
    assert recovery(setting, 1500, tables=1, draws=10) == 1.0


def test_rows_needed_are_counted_on_tables_of_every_shape() -> None:
    for shape in ("normal", "uniform", "skewed"):
        setting = Setting("absolute", 1.0, 1.0, shape=shape, columns=12, epsilon=30.0)
        table = shaped_table(setting, 400, seed=0)
        assert table.X.shape == (400, 12)
        assert 0.5 < float(np.std(table.X)) < 1.5
        assert recovery(setting, 2000, tables=1, draws=5) == 1.0
    assert recovery(Setting("absolute", 1.0, 1.0, columns=12), 5, tables=1, draws=5) < 1.0
