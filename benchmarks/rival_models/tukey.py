"""TukeyEM (Amin, Joseph, Ribero, Vassilvitskii, "Easy differentially private linear regression",
ICLR 2023): (epsilon, delta), by propose-test-release; no bounds on the data are needed.

Rows are dealt into m parts, least squares gives m models, and a model of great depth is drawn,
depth being the least, over coordinates, of the models on either side. One row moves one model, and
with it depths by at most 1. Half of epsilon tests, privately, that few rows cannot change the
volumes much; if that fails there is no model (zeros). The other half draws from the region of
depth at least m/4, with weight exp(epsilon' depth / 2), which is epsilon'-DP for depths that move
by 1 either way. The authors' script has exp(epsilon' depth), and Laplace noise of scale epsilon'
instead of 1/epsilon' in the test; here both are as the proofs need them.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from dpsubset.arrays import Floats

__all__ = ["models_of", "safe_distance", "tukey_em"]

_JITTER = 1e-10  # keeps volumes above zero, as published


def models_of(X: Floats, y: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Return least squares models of so many random parts of the rows, one a row."""
    order = rng.permutation(len(y))
    parts = np.array_split(order, count)
    return np.array([np.linalg.lstsq(X[part], y[part], rcond=None)[0] for part in parts])


def log_volumes(sides: Floats) -> Floats:
    """Return log volumes of the regions of depth at least 1, 2, ...; `sides` are sorted models."""
    most = sides.shape[0] // 2
    widths = sides[::-1][:most] - sides[:most]
    return np.asarray(np.log(widths).sum(axis=1))


def safe_distance(volumes: Floats, epsilon: float, delta: float, t: int) -> int:
    """Return how many models must change before the draw could be unsafe; -1 if none need.

    The largest k with some g > 0 for which V[t-k-1] / V[t+k+g+1] exp(-epsilon g / 2) is at most
    delta / (8 exp(epsilon)), where V[d] is the volume of depth at least d.
    """
    best = -1
    bound = math.log(delta / 8.0) - epsilon
    for k in range(t - 1):
        inner = volumes[t + k + 1 :]  # depths t+k+2 on: g = 1, 2, ...
        if not inner.size:
            break
        terms = volumes[t - k - 2] - inner - epsilon / 2 * np.arange(1, inner.size + 1)
        if terms.min() > bound:
            break
        best = k
    return best


def tukey_em(
    X: Floats,
    y: Floats,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    *,
    models: int | None = None,
) -> Floats:
    """Return coefficients of the columns of X, or zeros if the test fails.

    The authors use 1000 models; by default as many as give each part twice the rows that a fit
    needs, up to that.

    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.uniform(-1, 1, 20_000), np.ones(20_000)])
    >>> fit = tukey_em(X, X @ [0.5, 0.2] + 0.1 * rng.normal(size=20_000), 5.0, 1e-6, rng)
    >>> bool(np.allclose(fit, [0.5, 0.2], atol=0.05))
    True
    """
    n, d = X.shape
    count = models or max(4, min(1000, n // (2 * d)))
    sides = models_of(X, y, count, rng)
    sides = np.sort(sides + _JITTER * rng.random(sides.shape), axis=0)
    volumes = log_volumes(sides)
    t, half = count // 4, epsilon / 2
    distance = safe_distance(volumes, half, delta, t)
    if not distance + rng.laplace(scale=1.0 / half) > math.log(1.0 / (2.0 * delta)) / half:
        return np.zeros(d)
    depths = np.arange(t, volumes.size + 1)
    at_least = volumes[t - 1 :]
    shells = at_least.copy()
    gone = np.exp(np.minimum(0.0, at_least[1:] - at_least[:-1]))
    shells[:-1] += np.log(np.maximum(1.0 - gone, 1e-300))
    logs = shells + half / 2 * depths
    chosen = int(rng.choice(depths, p=np.exp(logs - logsumexp(logs))))
    return _in_shell(sides, chosen, volumes.size, rng)


def _in_shell(sides: Floats, depth: int, most: int, rng: np.random.Generator) -> Floats:
    """Draw uniformly from the points whose depth is exactly this: the box less the next one.

    The shell is parted by the first coordinate that lies outside the inner box.
    """
    count, d = sides.shape
    outer = np.array([sides[depth - 1], sides[count - depth]])
    if depth == most:
        return np.asarray(rng.uniform(*outer))
    inner = np.array([sides[depth], sides[count - depth - 1]])
    wide, narrow = outer[1] - outer[0], inner[1] - inner[0]
    before = np.concatenate([[0.0], np.cumsum(np.log(narrow))[:-1]])
    after = np.concatenate([np.cumsum(np.log(wide)[::-1])[::-1][1:], [0.0]])
    logs = before + np.log(np.maximum(wide - narrow, 1e-300)) + after
    first = int(rng.choice(d, p=np.exp(logs - logsumexp(logs))))
    point = np.where(np.arange(d) < first, rng.uniform(*inner), rng.uniform(*outer))
    left = inner[0, first] - outer[0, first]
    right = outer[1, first] - inner[1, first]
    at = rng.uniform(0.0, left + right)
    point[first] = outer[0, first] + at if at < left else inner[1, first] + (at - left)
    return np.asarray(point)
