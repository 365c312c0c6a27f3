"""Bounds on slope and curvature, on which objective perturbation rests, against a grid (T27)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import expit

from dpsubset.errors import InputError
from dpsubset.losses import (
    Absolute,
    Hinge,
    Huber,
    HuberHinge,
    HuberLogistic,
    Logistic,
    Loss,
    Quantile,
    Squared,
)

SMOOTH = [
    Squared(),
    *[Huber(c) for c in (1e-3, 0.1, 1.0, 50.0)],
    *[HuberHinge(h) for h in (0.01, 0.5, 1.0, 30.0)],
    Logistic(),
    *[HuberLogistic(m) for m in (0.0, 0.5, 3.0)],
]
BOUNDS = [(0.1, 0.05), (1.0, 0.3), (1.0, 4.0), (3.0, 20.0)]


def corners(loss: Loss, y_bound: float, t_bound: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a grid over all that a row can be, ends and kinks included."""
    y = np.array([-1.0, 1.0]) if loss.classification else np.linspace(-y_bound, y_bound, 41)
    t = np.unique(np.concatenate([np.linspace(-t_bound, t_bound, 401), [0.0]]))
    pairs = np.array(list(itertools.product(y, t)))
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def steepest_seen(loss: Loss, y_bound: float, t_bound: float) -> float:
    """Return the largest slope of a chord of values: it knows no derivative of the package.

    A chord's slope is at most the largest slope on it, and nearly that at the ends.
    """
    y, t = corners(loss, y_bound, t_bound)
    inward = -1e-6 * t_bound * np.where(t >= 0, 1.0, -1.0)
    rise = loss.value(y, t + inward) - loss.value(y, t)
    return float(np.abs(rise / inward).max())


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_steepest_is_the_largest_slope(loss: Loss) -> None:
    for y_bound, t_bound in BOUNDS:
        claimed, seen = loss.steepest(y_bound, t_bound), steepest_seen(loss, y_bound, t_bound)
        assert seen <= claimed * (1 + 1e-6)
        assert seen >= claimed * (1 - 1e-3)
        y, t = corners(loss, y_bound, t_bound)
        assert np.abs(loss.slopes(y, t)).max() == pytest.approx(claimed, rel=1e-9)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_most_curved_bounds_every_change_of_slope(loss: Loss) -> None:
    """Between any two predictions, so across kinks of the slope too."""
    y, t = corners(loss, 1.0, 3.0)
    width = max(getattr(loss, "c", 0.0), getattr(loss, "h", 0.0)) or 0.1
    most = 0.0
    for step in (1e-3 * min(width, 1.0), 0.1 * width, width):
        change = np.abs(loss.slopes(y, t + step) - loss.slopes(y, t)) / step
        assert change.max() <= loss.most_curved() * (1 + 1e-6)
        most = max(most, float(change.max()))
    assert most >= loss.most_curved() * (1 - 1e-2)


def test_a_wrong_bound_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slope of squared loss without the target's part, logistic's at zero, are too small."""
    assert steepest_seen(Squared(), 1.0, 4.0) > 2 * 4.0 * 1.2
    assert steepest_seen(Logistic(), 1.0, 4.0) > float(expit(0.0)) * 1.5
    assert steepest_seen(HuberHinge(30.0), 1.0, 4.0) < 0.7  # the bound 1 would waste noise


@pytest.mark.parametrize("loss", [Absolute(), Quantile(0.3), Hinge()], ids=repr)
def test_losses_with_kinks_refuse(loss: Loss) -> None:
    with pytest.raises(InputError, match=f"the {loss.name} loss does not give"):
        loss.steepest(1.0, 1.0)
    with pytest.raises(InputError, match="huber_hinge"):
        loss.most_curved()
