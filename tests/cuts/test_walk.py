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
    monkeypatch: pytest.MonkeyPatch,
    forms: list[walk.Form],
    t: int,
    light: float,
    sizes: tuple[int, int],
) -> tuple[walk.Parts, np.ndarray, np.ndarray]:
    """Part the supports with other constants than those that were compiled in."""
    monkeypatch.setattr(walk, "FEWEST_IN_ONE", sizes[0])
    monkeypatch.setattr(walk, "MOST_IN_A_PART", sizes[1])
    monkeypatch.setattr(walk, "FEW_IN_A_PART", sizes[1])
    plain = getattr(walk.survey, "py_func", walk.survey)
    tails = walk.joined([walk.tails(form) for form in forms])
    found, lows, by, count, kept = plain(tails, t, 1.0, light, math.inf, 5000, 10**6)
    assert count > 0
    parts = walk.Parts(*(np.ascontiguousarray(v[:count]) for v in found))
    assert kept == parts.size.sum()
    return parts, lows[:count], by[:count]


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
            parts, told, _ = survey(monkeypatch, [form], t, light, sizes)
            count = parts.length.size
            which = np.random.default_rng(k).permutation(count)
            bounds, lows = np.full(parts.size.sum(), -math.inf), np.full(count, -math.inf)
            masses, peaks = np.empty(count), np.empty(count)
            walk.fill(form, t, parts, which, bounds)
            walk.part_bounds(walk.tails(form), parts, which, lows)
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
                    assert told[r] == lows[r]
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
    parts, _, _ = survey(monkeypatch, forms[:1], t, -math.inf, (1, 5))
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
        monkeypatch.undo()  # what plain Python would see of the last round
        forms = [form, make_form(7, k)]
        tails = walk.joined([walk.tails(one) for one in forms])
        found, lows, by, count, kept = walk.survey(tails, t, 1.0, light, math.inf, 5000, 10**6)
        some, many = walk.FEWEST_IN_ONE, walk.MOST_IN_A_PART
        if light > -math.inf:
            many = walk.FEW_IN_A_PART
        parts, told, number = survey(monkeypatch, forms, t, light, (some, many))
        assert kept == parts.size.sum()
        np.testing.assert_allclose(lows[:count], told)
        np.testing.assert_array_equal(by[:count], number)
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
        found, _, _, count, _ = walk.survey(walk.tails(form), t, 1.0, 1e9, peak, 50_000, 10**6)
        parts = walk.Parts(*(np.ascontiguousarray(v[:count]) for v in found))
        lows, common = np.full(count, -math.inf), parts.offset == walk.COMMON
        walk.part_bounds(walk.tails(form), parts, np.arange(count), lows)
        assert (-lows[common] <= peak + 1e-9).all()
        assert np.exp(parts.log_size).sum() == pytest.approx(math.comb(k, t))
        counts.append(int(common.sum()))
    assert counts[0] == 1
    assert counts[-1] == 0


def test_no_parts_where_there_would_be_too_many(monkeypatch) -> None:
    tails = walk.tails(make_form(3, 12))
    monkeypatch.setattr(walk, "MOST_IN_A_PART", 4)
    plain = getattr(walk.survey, "py_func", walk.survey)
    *_, count, kept = plain(tails, 3, 1.0, -math.inf, math.inf, 5000, 220)
    assert (count > 20, kept) == (True, 220)
    assert plain(tails, 3, 1.0, -math.inf, math.inf, 20, 220)[3] == 0
    assert plain(tails, 3, 1.0, -math.inf, math.inf, 5000, 219)[3] == 0


# ---- several forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 6])
def test_tails_bound_all_features_from_one_on_with_some_before(kind: str, k: int) -> None:
    """Against the fit on all of them, whatever stands before."""
    form = make_form(8, k, kind)
    tails = walk.tails(form)
    for start in range(k + 1):
        for size in range(start + 1):
            for prefix in combinations(range(start), size):
                features = np.array([*prefix, *range(start, k)], dtype=np.intp)
                room = walk._room(form.starts, max(size, 1))
                low = walk._low(tails, 0, np.array(prefix, dtype=np.intp), size, start, room)
                assert low == pytest.approx(brute(form, features), rel=1e-9)
                assert walk.low(tails, features) == pytest.approx(low, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_bounded_by_the_best_of_likely_forms(monkeypatch, kind: str) -> None:
    """Each bound is that of the form it is said to come from, and below every score's bound."""
    k, t = 10, 4
    forms = [make_form(seed, k, kind) for seed in range(6)]
    forms = [form._replace(base=form.base - brute(form, range(k))) for form in forms]
    scores = {s: max(brute(form, s) for form in forms) for s in combinations(range(k), t)}
    counts, used = [], set()
    for light in np.quantile([-low for low in scores.values()], [0.5, 0.9, 1.0]) + 2.0:
        parts, lows, by = survey(monkeypatch, forms, t, light, (2, 3))
        alone = [survey(monkeypatch, [form], t, light, (2, 3))[1].size for form in forms]
        seen = []
        for r in range(lows.size):
            own = members(parts, r, k, t)
            seen += own
            if parts.offset[r] != walk.COMMON:
                continue
            used.add(int(by[r]))
            everything = sorted({*own[0][: parts.length[r]], *range(int(parts.start[r]), k)})
            assert lows[r] == pytest.approx(brute(forms[by[r]], everything), rel=1e-9)
            assert parts.log_size[r] - lows[r] <= light
            assert lows[r] <= min(scores[s] for s in own) + 1e-9
        assert sorted(seen) == sorted(scores)
        counts.append((lows.size, float(np.mean(alone))))
    assert len(used) > 1
    assert sum(several for several, _ in counts) < sum(one for _, one in counts)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_features_gain_least_together(kind: str) -> None:
    """From the end of the order each next feature adds no more than any other would."""
    k = 9
    form = make_form(9, k, kind)
    order = walk.by_gain(form).tolist()
    assert sorted(order) == list(range(k))
    for place in range(k - 1, -1, -1):
        last = order[place + 1 :]
        lows = {g: brute(form, sorted([*last, g])) for g in order[: place + 1]}
        assert lows[order[place]] >= max(lows.values()) - 1e-9


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
    found, _, _, count, kept = walk.survey(walk.tails(form), 3, 1.0, -math.inf, math.inf, 100, 1000)
    parts = walk.Parts(*(v[:count] for v in found))
    bounds = np.full(kept, -math.inf)
    walk.fill(form, 3, parts, np.arange(count), bounds)
    margins = np.array([given.score(s) for s in combinations(range(8), 3)]) - bounds
    assert margins.min() >= -1e-9
    if factor == 1.0:
        assert margins[list(combinations(range(8), 3)).index((0, 1, 5))] < 1e-3
