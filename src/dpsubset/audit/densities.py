"""The exact distribution of objective perturbation's minimiser, anew from T27 (one or two columns).

Inside the ball the linear term follows from the minimiser: b = -gradient. Densities change by the
determinant of the Hessian. On the rim one more number, the ball's multiplier, is integrated out.
Nothing here calls the mechanism; the noise distribution, gradients and Hessians are written again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

from dpsubset.arrays import Floats

__all__ = ["LABELLED", "LOSSES", "Grid", "Law", "beyond", "derivatives", "make_grid", "shortened"]

LOSSES = ("squared", "huber:0.3", "logistic", "huber_hinge:0.5", "huber_logistic:0.5")
LABELLED = LOSSES[2:]


@cache
def _nodes(count: int) -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(count)


def derivatives(loss: str, y: Floats, t: Floats) -> tuple[Floats, Floats]:
    """Return the first and the second derivative of the loss in the prediction."""
    name, _, given = loss.partition(":")
    if name == "squared":
        return 2 * (t - y), np.full(t.shape, 2.0)
    if name == "huber":
        c, d = float(given or 0.1), t - y
        return 2 * np.clip(d, -c, c), np.where(np.abs(d) < c, 2.0, 0.0)
    if name == "logistic":
        q = 1 / (1 + np.exp(y * t))
        return -y * q, q * (1 - q)
    if name == "huber_logistic":
        m = float(given or 0.5)
        q = 1 / (1 + np.exp(np.maximum(y * t, -m)))
        return -y * q, np.where(y * t > -m, q * (1 - q), 0.0)
    h = float(given or 1.0)
    q = np.clip((1 + h - y * t) / (2 * h), 0, 1)
    return -y * q, np.where((q > 0) & (q < 1), 1 / (2 * h), 0.0)


def shortened(rows: Floats, longest: float) -> Floats:
    """Return the rows, those that are too long scaled down."""
    norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return np.asarray(rows * np.minimum(1.0, longest / np.maximum(norms, 1e-300)))


@dataclass(frozen=True)
class Grid:
    """Points inside the ball and on its rim, with weights that integrate over both."""

    size: int
    radius: float
    inside: Floats
    areas: Floats
    rim: Floats  # unit vectors
    lengths: Floats  # in one dimension the rim is two points of weight 1

    @property
    def weights(self) -> Floats:
        """All weights, those of the rim last."""
        return np.concatenate([self.areas, self.lengths])

    @property
    def points(self) -> Floats:
        """All points, those of the rim last."""
        return np.vstack([self.inside, self.radius * self.rim])


def make_grid(size: int, radius: float, fine: int, around: int = 0) -> Grid:
    """Make a grid of midpoints: `fine` along a radius, `around` angles."""
    if size == 1:
        x = (np.arange(2 * fine) + 0.5) / fine - 1
        areas = np.full(2 * fine, radius / fine)
        return Grid(1, radius, radius * x[:, None], areas, np.array([[-1.0], [1.0]]), np.ones(2))
    angles = 2 * np.pi * (np.arange(around) + 0.5) / around
    unit = np.column_stack([np.cos(angles), np.sin(angles)])
    lengths = radius * (np.arange(fine) + 0.5) / fine
    inside = (lengths[:, None, None] * unit).reshape(-1, 2)
    areas = np.repeat(lengths * radius / fine * 2 * np.pi / around, around)
    return Grid(2, radius, inside, areas, unit, np.full(around, 2 * np.pi * radius / around))


@dataclass(frozen=True)
class Law:
    """The distribution of argmin sum l + ridge |beta|^2 + b'beta over the ball, b random."""

    loss: str
    rows: Floats
    y: Floats
    ridge: float
    radius: float
    scale: float
    gaussian: bool
    offset: float = 0.0  # what predictions start from
    parts: tuple[int, ...] | None = None  # of the linear term; the whole row if not given

    def around(self, beta: Floats) -> tuple[Floats, Floats]:
        """Return gradients (m, k) and Hessians (m, k, k), the ridge's part included."""
        slope, curve = derivatives(self.loss, self.y, beta @ self.rows.T + self.offset)
        gradient = slope @ self.rows + 2 * self.ridge * beta
        outer = self.rows[:, :, None] * self.rows[:, None, :]
        hessian = np.tensordot(curve, outer, 1) + 2 * self.ridge * np.eye(beta.shape[1])
        return gradient, hessian

    def log_noise(self, b: Floats) -> Floats:
        """Return the log density of the linear term."""
        k = b.shape[-1]
        if self.parts == (1, 1) and not self.gaussian:
            longest = np.maximum(np.abs(b[..., 0]), np.abs(b[..., 1]))
            return np.asarray(-longest / self.scale - math.log(8 * self.scale**2))
        length2 = (b**2).sum(axis=-1)
        if self.gaussian:
            return np.asarray(
                -length2 / (2 * self.scale**2) - k / 2 * math.log(2 * math.pi * self.scale**2)
            )
        total = 2 * self.scale if k == 1 else 2 * math.pi * self.scale**2
        return np.asarray(-np.sqrt(length2) / self.scale - math.log(total))

    def on(self, grid: Grid) -> Floats:
        """Return log densities at all points of a grid; on the rim per length, or of two atoms."""
        gradient, hessian = self.around(grid.inside)
        inside = self.log_noise(-gradient) + np.log(np.linalg.det(hessian))
        return np.concatenate([inside, self._ends() if grid.size == 1 else self._rim(grid.rim)])

    def _ends(self) -> Floats:
        """Return the log chances of the interval's ends: all terms that push beyond them."""
        gradient, _ = self.around(np.array([[-self.radius], [self.radius]]))
        law = stats.norm if self.gaussian else stats.laplace
        low, high = -gradient[:, 0] / self.scale
        return np.array([law.logsf(low), law.logcdf(high)])

    def _rim(self, unit: Floats) -> Floats:
        """Integrate over s = 2 mu radius: b = -gradient - s unit, volume (t'Ht + s / radius)."""
        gradient, hessian = self.around(self.radius * unit)
        tangent = np.column_stack([-unit[:, 1], unit[:, 0]])
        bent = np.einsum("ma,mab,mb->m", tangent, hessian, tangent)
        nodes, weights = _nodes(240)
        # The same nodes for all tables of up to ten rows, so that ratios have no quadrature error.
        steep = 2 * (1 + self.radius * math.sqrt(2)) * math.sqrt(2)
        top = 30 * self.scale + 10 * steep + 2 * self.ridge * self.radius
        s = top * ((nodes + 1) / 2) ** 2  # finer near the rim
        weights = weights * top * (nodes + 1) / 2
        b = -gradient[:, None, :] - s[None, :, None] * unit[:, None, :]
        terms = self.log_noise(b) + np.log(bent[:, None] + s / self.radius) + np.log(weights)
        most = terms.max(axis=1)
        return np.asarray(most + np.log(np.exp(terms - most[:, None]).sum(axis=1)))


def beyond(p: Floats, q: Floats, grid: Grid, epsilon: float) -> float:
    """Return a lower bound on the chance of terms b whose density moves by more than e^epsilon.

    Inside the ball beta tells b, so all of p's mass where it exceeds e^epsilon q counts. On the rim
    only the excess does: several b lead to one beta. T27's delta bounds the sum, which is itself at
    least the hockey-stick divergence.
    """
    m = len(grid.areas)
    over = p > q + epsilon
    inside = np.exp(p[:m]) * over[:m] @ grid.areas
    rim = np.maximum(np.exp(p[m:]) - np.exp(q[m:] + epsilon), 0.0) @ grid.lengths
    return float(inside + rim)
