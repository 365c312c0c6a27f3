"""A quadratic's minimum over a Euclidean ball: the step that every fit is made of."""

from __future__ import annotations

import numpy as np

from dpsubset.compiled import compiled

__all__ = ["backward", "factor", "forward", "solve", "spectral", "step"]

_NOTHING = 1e-150  # a correlation that underflows when squared has no gain
_EXACT = 1e-7  # smallest pivot, against its diagonal, that a score is taken from
_ROUGH = 1e-13  # that a step is taken from, which is judged by where it leads
_DAMP = 1e-14  # against the trace


@compiled()
def factor(G, penalty, trust, L):  # type: ignore[no-untyped-def]
    """Cholesky-factor G + penalty; False when a pivot is too small to be trusted."""
    for i in range(G.shape[0]):
        for j in range(i + 1):
            v = G[i, j]
            for m in range(j):
                v -= L[i, m] * L[j, m]
            if i == j:
                v += penalty
                if not v > trust * (G[i, i] + penalty):
                    return False
                L[i, i] = np.sqrt(v)
            else:
                L[i, j] = v / L[j, j]
    return True


@compiled()
def forward(L, x):  # type: ignore[no-untyped-def]
    """Replace x by L^-1 x."""
    for i in range(x.size):
        v = x[i]
        for m in range(i):
            v -= L[i, m] * x[m]
        x[i] = v / L[i, i]


@compiled()
def backward(L, x):  # type: ignore[no-untyped-def]
    """Replace x by L'^-1 x."""
    for i in range(x.size - 1, -1, -1):
        v = x[i]
        for m in range(i + 1, x.size):
            v -= L[m, i] * x[m]
        x[i] = v / L[i, i]


@compiled()
def _newton(G, b, ridge, radius, mu, trust, beta):  # type: ignore[no-untyped-def]
    """Fill `beta` and return the ball's multiplier, or -1 when a pivot is not to be trusted.

    Newton's method on 1/|beta(mu)|: the first step leads to the left of the root, the others from
    there to it.
    """
    L = np.empty(G.shape)
    slope = np.empty(b.size)
    for _ in range(50):
        if not factor(G, ridge + mu, trust, L):
            return -1.0
        beta[:] = b
        forward(L, beta)
        backward(L, beta)
        norm2 = 0.0
        for i in range(b.size):
            norm2 += beta[i] * beta[i]
        norm = np.sqrt(norm2)
        if norm <= radius * (1.0 + 1e-12) and (mu == 0.0 or norm >= radius * (1.0 - 1e-9)):
            break
        slope[:] = beta
        forward(L, slope)
        curved = 0.0
        for i in range(b.size):
            curved += slope[i] * slope[i]
        if not curved > 0.0:
            return -1.0
        mu = max(mu + norm2 / curved * (norm - radius) / radius, 0.0)
    return mu


@compiled()
def _secular(w, c, radius):  # type: ignore[no-untyped-def]
    """Return mu >= 0 with sum (c/(w+mu))^2 = radius^2, or 0 if the ball is not active.

    Newton's method on 1/norm from the left of the root, where it rises monotonically.
    """
    mu = 0.0
    for i in range(w.size):
        mu = max(mu, abs(c[i]) / radius - w[i])
    for _ in range(100):
        norm2 = 0.0
        slope = 0.0
        for i in range(w.size):
            if abs(c[i]) > _NOTHING:
                q = c[i] / (w[i] + mu)
                norm2 += q * q
                slope += q * q / (w[i] + mu)
        norm = np.sqrt(norm2)
        if norm <= radius * (1.0 + 1e-15):
            break
        step = norm2 / slope * (norm - radius) / radius
        if not step > 1e-16 * mu:
            break
        mu += step
    return mu


@compiled()
def spectral(G, b, ridge, radius, beta):  # type: ignore[no-untyped-def]
    """Do what `solve` does, for any G, by its eigenvalues."""
    w, Q = np.linalg.eigh(G)
    w = np.maximum(w, 0.0) + ridge
    c = Q.T @ b
    mu = _secular(w, c, radius)
    coordinates = np.zeros(b.size)
    dual = mu * radius * radius
    norm2 = 0.0
    for i in range(b.size):
        if abs(c[i]) > _NOTHING:
            coordinates[i] = c[i] / (w[i] + mu)
            dual += c[i] * coordinates[i]
            norm2 += coordinates[i] ** 2
    if norm2 > radius * radius:
        coordinates *= radius / np.sqrt(norm2)
    primal = 0.0
    for i in range(b.size):
        primal += (2.0 * c[i] - w[i] * coordinates[i]) * coordinates[i]
    beta[:] = Q @ coordinates
    return primal, dual, mu


@compiled()
def solve(G, b, ridge, radius, beta):  # type: ignore[no-untyped-def]
    """Fill `beta`, the minimiser over the ball; return the primal and the dual gain, and mu.

    R = y'y - gain. The ball keeps the value well conditioned when G is singular (T19): an error
    in G or b changes it by no more than the largest change of the objective over the ball.
    """
    mu = _newton(G, b, ridge, radius, 0.0, _EXACT, beta)
    if mu >= 0.0:
        gain = 0.0
        norm2 = 0.0
        for i in range(b.size):
            gain += beta[i] * b[i]
            norm2 += beta[i] * beta[i]
        if mu == 0.0:
            return gain, gain, mu
        # (G + ridge + mu) beta = b, so the objective at beta is known without another product.
        shrink = min(1.0, radius / np.sqrt(norm2))
        primal = shrink * ((2.0 - shrink) * gain + shrink * mu * norm2)
        beta *= shrink
        return primal, gain + mu * radius * radius, mu
    return spectral(G, b, ridge, radius, beta)


@compiled()
def step(G, gradient, ridge, radius, x, mu, new):  # type: ignore[no-untyped-def]
    """Fill `new`, the minimiser over the ball of the quadratic with half Hessian G around `x`.

    Returns the ball's multiplier; `mu` is a guess of it. Where G is singular, a trace of damping
    keeps `new` from running off along directions that rounding alone has chosen.
    """
    k = x.size
    trace, norm2 = 0.0, 0.0
    target = np.dot(G, x) - 0.5 * gradient
    for j in range(k):
        trace += G[j, j]
        norm2 += target[j] * target[j]
    mu = max(mu, np.sqrt(norm2) / radius - ridge - trace)
    found = _newton(G, target, ridge, radius, mu, _ROUGH, new)
    if found < 0.0:
        damp = _DAMP * trace
        for j in range(k):
            G[j, j] += damp
        target += damp * x
        found = _newton(G, target, ridge, radius, mu, _ROUGH, new)
    if found < 0.0:
        _, _, found = spectral(G, target, ridge, radius, new)
    norm = np.sqrt(np.dot(new, new))
    if norm > radius:
        new *= radius / norm
    return found
