"""The walk over all supports of a quadratic form: parts, bounds and members (T41).

Chi-square tests have fixed seeds and a false-alarm rate of 1e-4.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chisquare

from dpsubset import Problem
from dpsubset.cuts import walk

FALSE_ALARM = 1e-4
KINDS = ("plain", "wide", "blocks")
SHAPES = ((4, 1), (9, 2), (8, 3), (9, 4), (9, 5), (8, 6), (6, 6), (75, 1), (70, 2))


def make_form(seed: int, k: int, kind: str = "plain") -> walk.Form:
    """Return the form of a random table of k features with a ridge.

    "wide" has fewer rows than columns, "blocks" has features of one to three columns.
    """
    rng = np.random.default_rng([seed, k])
    widths = np.arange(k) * 5 % 3 + 1 if kind == "blocks" else np.ones(k, dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(widths)])
    n, p = max(2, k // 2) if kind == "wide" else k + 10, int(starts[-1])
    X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(1, p))
    y = X[:, 0] - X[:, -1] + rng.normal(size=len(X))
    ridge = 0.5
    return walk.Form(X.T @ X + ridge * np.eye(p), X.T @ y, float(y @ y), ridge, starts)


def brute(form: walk.Form, features: Any) -> float:
    index = [j for g in features for j in range(form.starts[g], form.starts[g + 1])]
    b = form.b[index]
    return form.base - float(b @ np.linalg.solve(form.H[np.ix_(index, index)], b))


def survey(
    monkeypatch: pytest.MonkeyPatch, form: walk.Form, t: int, light: float, sizes: tuple[int, int]
) -> walk.Parts:
    """Part the supports with other constants than those that were compiled in."""
    monkeypatch.setattr(walk, "FEWEST_IN_ONE", sizes[0])
    monkeypatch.setattr(walk, "MOST_IN_A_PART", sizes[1])
    plain = getattr(walk.survey, "py_func", walk.survey)
    found, count, kept = plain(form, t, 1.0, light, math.inf, 5000, 10**6, 160, 1e9)
    assert count > 0
    parts = walk.Parts(*(np.ascontiguousarray(v[:count]) for v in found))
    assert kept == parts.size.sum()
    return parts


def members(parts: walk.Parts, r: int, k: int, t: int) -> list[tuple[int, ...]]:
    """Return a part's supports in their order: by `member` if it keeps bounds."""
    length, start = int(parts.length[r]), int(parts.start[r])
    prefix = tuple(int(j) for j in parts.prefix[r, :length])
    listed = [(*prefix, *rest) for rest in combinations(range(start, k), t - length)]
    if parts.offset[r] == walk.COMMON:
        return listed
    found = []
    for number in range(int(parts.size[r])):
        out = np.empty(t, dtype=np.int64)
        walk.member(parts, r, number, k, out)
        found.append(tuple(out.tolist()))
    assert found == listed
    return found


def lights(form: walk.Form, k: int, t: int) -> list[float]:
    """Return thresholds below which nothing lies, some parts, most of them, and everything."""
    weights = np.array([-brute(form, s) for s in combinations(range(k), t)])
    top, total = float(weights.max()), math.log(math.comb(k, t))
    everything = total - brute(form, range(k))
    return [-math.inf, top, (top + everything) / 2, everything + 1.0]


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "t"), SHAPES)
def test_parts_and_their_bounds(monkeypatch, k: int, t: int, kind: str) -> None:
    """Every support lies in one part; bounds are exact where they are kept, valid elsewhere."""
    form, other = make_form(0, k, kind), make_form(1, k, kind)
    scores = {s: brute(form, s) for s in combinations(range(k), t)}
    kinds = set()
    for light in lights(form, k, t):
        for sizes in ((64, 4096), (2, 5), (1, 1), (10**9, 12)):
            parts = survey(monkeypatch, form, t, light, sizes)
            count = parts.length.size
            which = np.random.default_rng(k).permutation(count)
            bounds, lows = np.full(parts.size.sum(), -math.inf), np.full(count, -math.inf)
            masses, peaks = np.empty(count), np.empty(count)
            walk.fill(form, t, parts, which, bounds)
            walk.part_bounds(form, parts, which, lows)
            walk.weigh(1.0, parts, lows, bounds, which, masses, peaks)
            seen: list[tuple[int, ...]] = []
            for r in range(count):
                own = members(parts, r, k, t)
                seen += own
                true = np.array([scores[s] for s in own])
                assert parts.log_size[r] == pytest.approx(math.log(len(own)), abs=1e-12)
                if parts.offset[r] == walk.COMMON:
                    kinds.add("common")
                    assert len(own) > sizes[0]
                    everything = {*own[0], *range(int(parts.start[r]), k)}
                    prefix = own[0][: int(parts.length[r])]
                    assert everything == {*prefix, *range(int(parts.start[r]), k)}
                    assert lows[r] == pytest.approx(brute(form, sorted(everything)), rel=1e-9)
                    assert lows[r] <= true.min() + 1e-9
                    assert masses[r] == pytest.approx(parts.log_size[r] - lows[r], abs=1e-9)
                    assert peaks[r] == -lows[r]
                else:
                    kinds.add("kept")
                    first = int(parts.offset[r])
                    mine = bounds[first : first + int(parts.size[r])]
                    np.testing.assert_allclose(mine, true, rtol=1e-9, atol=1e-9)
                    assert masses[r] == pytest.approx(logsumexp(-true), abs=1e-8)
                    assert peaks[r] == pytest.approx(-true.min(), abs=1e-8)
            assert sorted(seen) == sorted(scores)
            raised = bounds.copy()
            walk.fill(other, t, parts, which, raised)
            alone = np.full(bounds.size, -math.inf)
            walk.fill(other, t, parts, which[::-1].copy(), alone)
            np.testing.assert_array_equal(raised, np.maximum(bounds, alone))
    assert kinds == ({"kept", "common"} if math.comb(k, t) > 2 else {"kept"})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "t"), SHAPES)
def test_streamed_parts_weigh_what_kept_ones_do(monkeypatch, k: int, t: int, kind: str) -> None:
    forms = [make_form(seed, k, kind) for seed in range(3)]
    parts = survey(monkeypatch, forms[0], t, -math.inf, (1, 5))
    count = parts.length.size
    which = np.arange(count)
    streamed = parts._replace(offset=np.full(count, walk.STREAMED))
    lows, masses, peaks = np.full((3, count), -math.inf)
    served = np.full(count, -1)
    best = np.full(count, math.inf)
    for number, form in enumerate(forms):
        walk.stream(form, number, t, 1.0, streamed, which, lows, served, masses, peaks)
        bounds, own, top = np.full(parts.size.sum(), -math.inf), np.empty(count), np.empty(count)
        walk.fill(form, t, parts, which, bounds)
        walk.weigh(1.0, parts, np.empty(count), bounds, which, own, top)
        new = own < best
        best = np.minimum(best, own)
        np.testing.assert_allclose(masses, best, atol=1e-10)
        assert (served[new] == number).all()
        np.testing.assert_allclose(peaks[new], top[new], atol=1e-10)
        np.testing.assert_allclose(lows, -peaks, atol=1e-12)


def test_compiled_constants_are_those_of_the_module(monkeypatch) -> None:
    """The same parts with and without compilation, at sizes that reach every branch."""
    k, t = 30, 4  # 27,405 supports: more than a kept part holds
    form = make_form(2, k)
    everything = math.log(math.comb(k, t)) - brute(form, range(k))
    for light in (-math.inf, everything - 8.0, everything - 2.0, everything):
        found, count, kept = walk.survey(form, t, 1.0, light, math.inf, 5000, 10**6, 160, 1e9)
        parts = survey(monkeypatch, form, t, light, (64, 4096))
        assert kept == parts.size.sum()
        for one, two in zip(found, parts, strict=True):
            if one.ndim == 1:
                np.testing.assert_allclose(one[:count], two)
        sizes = [len(members(parts, r, k, t)) for r in range(count)]
        assert sum(sizes) == math.comb(k, t)
        np.testing.assert_allclose(np.exp(parts.log_size), sizes)
        assert parts.size.max() <= 4096


@pytest.mark.parametrize("kind", KINDS)
def test_no_part_with_one_bound_has_a_support_above_the_peak(kind: str) -> None:
    k, t = 30, 4
    form = make_form(4, k, kind)
    everything = -brute(form, range(k))
    counts = []
    best = max(-brute(form, s) for s in combinations(range(k), t))
    for peak in (everything + 1.0, (everything + best) / 2, best, -math.inf):
        found, count, _ = walk.survey(form, t, 1.0, 1e9, peak, 50_000, 10**6, 160, 1e9)
        parts = walk.Parts(*(np.ascontiguousarray(v[:count]) for v in found))
        lows, common = np.full(count, -math.inf), parts.offset == walk.COMMON
        walk.part_bounds(form, parts, np.arange(count), lows)
        assert (-lows[common] <= peak + 1e-9).all()
        assert np.exp(parts.log_size).sum() == pytest.approx(math.comb(k, t))
        counts.append(int(common.sum()))
    assert counts[0] == 1
    assert counts[-1] == 0


@pytest.mark.parametrize("columns", [3, 160])
def test_no_parts_where_there_would_be_too_many(monkeypatch, columns: int) -> None:
    form = make_form(3, 12)
    monkeypatch.setattr(walk, "MOST_IN_A_PART", 4)
    plain = getattr(walk.survey, "py_func", walk.survey)
    _, count, kept = plain(form, 3, 1.0, -math.inf, math.inf, 5000, 220, columns, 1e9)
    assert (count > 20, kept) == (True, 220)
    assert plain(form, 3, 1.0, -math.inf, math.inf, 20, 220, columns, 1e9)[1] == 0
    assert plain(form, 3, 1.0, -math.inf, math.inf, 5000, 219, columns, 1e9)[1] == 0
    work = 12**3 / 6  # of the first look at what all columns gain after one is taken, at most
    assert plain(form, 3, 1.0, -1e9, math.inf, 5000, 220, 160, work / 2)[1] == 0


@pytest.mark.parametrize("wide", [0, 5])
def test_looser_gains_only_make_parts_smaller(monkeypatch, wide: int) -> None:
    """Where what all columns gain is not found anew, masses are overestimated, never under."""
    form = make_form(4, 12)
    monkeypatch.setattr(walk, "FEWEST_IN_ONE", 3)
    monkeypatch.setattr(walk, "MOST_IN_A_PART", 3)
    plain = getattr(walk.survey, "py_func", walk.survey)
    everything = math.log(math.comb(12, 5)) - brute(form, range(12))
    for light in everything - np.array([1.0, 3.0, 6.0]):
        found, count, _ = plain(form, 5, 1.0, light, math.inf, 5000, 10**6, wide, 1e9)
        parts = walk.Parts(*(v[:count] for v in found))
        lows = np.full(count, -math.inf)
        walk.part_bounds(form, parts, np.arange(count), lows)
        common = parts.offset == walk.COMMON
        assert common.any()
        assert ((parts.log_size - lows)[common] <= light + 1e-9).all()


# ---- single supports ----------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "t"), SHAPES)
def test_the_bound_of_one_support(k: int, t: int) -> None:
    form = make_form(5, k)
    rng = np.random.default_rng(t)
    L, z = np.empty((t, t)), np.empty(t)
    for _ in range(20):
        columns = rng.permutation(k)[:t]  # in any order
        low = walk.form_bound(form.H, form.b, form.base, form.least, columns, L, z)
        assert low == pytest.approx(brute(form, columns), rel=1e-9)


def one_part(prefix: list[int], start: int, t: int) -> walk.Parts:
    row = np.array([prefix + [0] * (t - len(prefix))], dtype=np.int64)
    one = np.array([0], dtype=np.int64)
    return walk.Parts(row, one + len(prefix), one + start, one + walk.COMMON, one, np.zeros(1))


def members_drawn(prefix: list[int], start: int, k: int, t: int, draws: int) -> np.ndarray:
    """Return how often each support of a part was drawn."""
    parts, rng = one_part(prefix, start, t), np.random.default_rng([k, t, start])
    places = {s: i for i, s in enumerate(combinations(range(start, k), t - len(prefix)))}
    counts = np.zeros(len(places), dtype=np.int64)
    out = np.empty(t, dtype=np.int64)
    for uniforms in rng.random((draws, t)):
        walk.any_member(parts, 0, uniforms, k, out)
        assert out[: len(prefix)].tolist() == prefix
        counts[places[tuple(sorted(out[len(prefix) :].tolist()))]] += 1
    return counts


UNIFORM = [([], 0, 6, 3), ([], 0, 5, 5), ([0], 1, 8, 3), ([1, 4], 5, 12, 4), ([2], 4, 9, 2)]
UNIFORM += [([], 0, 7, 1), ([0, 1, 3], 6, 11, 6)]


@pytest.mark.parametrize(("prefix", "start", "k", "t"), UNIFORM)
def test_any_member_is_uniform(prefix: list[int], start: int, k: int, t: int) -> None:
    counts = members_drawn(prefix, start, k, t, 6000)
    assert len(counts) == 1 or chisquare(counts).pvalue > FALSE_ALARM


def test_members_that_are_not_uniform_would_be_noticed(monkeypatch) -> None:
    """The twin: columns drawn one after the other, the next free one if it is taken."""

    def skewed(parts: walk.Parts, r: int, uniforms: np.ndarray, k: int, out: np.ndarray) -> None:
        n, start, taken = int(parts.length[r]), int(parts.start[r]), []
        out[:n] = parts.prefix[r, :n]
        for q in range(n, out.size):
            new = start + int(uniforms[q - n] * (k - start))
            while new in taken:
                new = start + (new + 1 - start) % (k - start)
            taken.append(new)
            out[q] = new

    monkeypatch.setattr(walk, "any_member", skewed)
    assert chisquare(members_drawn([0], 1, 8, 3, 6000)).pvalue < FALSE_ALARM


@pytest.mark.parametrize("edge", [np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0)])
def test_uniforms_at_the_ends(edge: float) -> None:
    for prefix, start, k, t in UNIFORM:
        out = np.empty(t, dtype=np.int64)
        walk.any_member(one_part(prefix, start, t), 0, np.full(t, edge), k, out)
        assert len(set(out.tolist())) == t
        assert (out < k).all()
        assert (out[len(prefix) :] >= start).all()


# ---- with the ball ------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.1, 0.5, 50.0])
@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
def test_bounds_hold_for_every_multiplier_of_the_ball(radius: float, factor: float) -> None:
    """A larger penalty, less its most: valid for every mu, tight at a support's own."""
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (40, 8))
    y = np.clip(X[:, 0] - X[:, 5] + 0.3 * rng.normal(size=40), -1, 1)
    given = Problem(X, y, size=3, x_bound=1.0, y_bound=1.0, radius=radius, ridge=0.2)
    index = np.array([0, 1, 5])
    matrix, b = X.T @ X + 0.2 * np.eye(8), X.T @ y
    mus = np.linspace(0, 400, 40_001)
    eigen, vectors = np.linalg.eigh(matrix[np.ix_(index, index)])
    norms = np.linalg.norm((vectors.T @ b[index])[:, None] / (eigen[:, None] + mus), axis=0)
    mu = factor * mus[int(np.argmax(norms <= radius))]
    form = walk.Form(
        matrix + mu * np.eye(8), b, float(y @ y) - mu * radius**2, 0.2 + mu, np.arange(9)
    )
    found, count, kept = walk.survey(form, 3, 1.0, -math.inf, math.inf, 100, 1000, 160, 1e9)
    parts = walk.Parts(*(v[:count] for v in found))
    bounds = np.full(kept, -math.inf)
    walk.fill(form, 3, parts, np.arange(count), bounds)
    margins = np.array([given.score(s) for s in combinations(range(8), 3)]) - bounds
    assert margins.min() >= -1e-9
    if factor == 1.0:
        assert margins[list(combinations(range(8), 3)).index((0, 1, 5))] < 1e-3
