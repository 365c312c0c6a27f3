"""A covering holds every support once, at every stage, with bounds below the scores (T40, T41)."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from coverings import WAYS, bounds_of, take_way, watch
from scipy.special import logsumexp

from dpsubset import Exponential, Limits, PermuteAndFlip, Problem, sampling
from dpsubset.cuts import walk
from dpsubset.cuts.curvature import curvature
from dpsubset.errors import UnprovenError
from dpsubset.limits import Allowance, OutOfTime
from dpsubset.privacy import as_randomness
from dpsubset.sampling import covering as covering_module
from dpsubset.sampling import drawing
from dpsubset.sampling.covering import Covering
from dpsubset.sampling.race import Race

LOSSES = ("squared", "huber:0.1", "huber:0.3", "logistic", "huber_hinge")
COLUMNS, SIZE = 9, 4


def problem(loss: str, seed: int = 0, **options: Any) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (30, COLUMNS))
    if seed % 2:
        X = 0.3 * X + 0.7 * rng.uniform(-1, 1, (30, 1))
    y = X[:, 0] - X[:, 3] + 0.5 * rng.normal(size=30)
    settings = {"x_bound": 1.0, "radius": (1.0, 0.3)[seed // 2 % 2], "ridge": 0.3, "size": SIZE}
    if loss in ("logistic", "huber_hinge"):
        y = np.where(y > 0, 1.0, -1.0)
    else:
        settings["y_bound"] = 1.0
    return Problem(X, y, loss=loss, **{**settings, **options})


def covered(given: Problem, reach: float, *, racing: bool = False) -> tuple[Covering, dict]:
    """Return a covering at the kappa where log weights differ by so much, and all scores."""
    chosen = combinations(given.free.tolist(), given.to_choose)
    supports = [tuple(sorted((*given.include, *some))) for some in chosen]
    scores = {s: given.score(s) for s in supports}
    kappa = reach / float(np.ptp(list(scores.values())))
    seed = min(scores, key=scores.get)
    return Covering(given, kappa, Allowance(None), seed, racing=racing), scores


def check(covering: Covering, scores: dict[tuple[int, ...], float]) -> None:
    """Compare all bounds with the scores, and all masses with the bounds."""
    found = bounds_of(covering)
    assert sorted(found) == sorted(scores)
    for support, bounds in found.items():
        assert len(bounds) == 1
        assert bounds[0] <= scores[support] + 1e-8
    free = {tuple(s.tolist()) for s in covering._singles}
    assert free == covering._free
    logs = [-covering.kappa * b[0] for s, b in found.items() if s not in free]
    # In streamed and common parts a support that is free still weighs something.
    kept = (covering._parts.offset >= 0).all()
    total = float(logsumexp(logs)) if logs else -math.inf
    assert covering._log_mass >= total - 1e-9
    assert not kept or covering._log_mass == pytest.approx(total, abs=1e-8)
    assert covering._peaks.max() >= max(logs, default=-math.inf) - 1e-9


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("racing", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_support_has_one_valid_bound(monkeypatch, loss: str, way: str, racing: bool) -> None:
    """Before and after draws that raise bounds, divide parts and set supports free."""
    take_way(monkeypatch, way)
    for seed in range(4):
        marked = {"include": [1], "exclude": [6]} if seed == 2 else {}
        covering, scores = covered(problem(loss, seed, **marked), 12.0, racing=racing)
        offsets = covering._parts.offset
        assert {"kept": (offsets >= 0).all(), "streamed": (offsets == walk.STREAMED).all()}.get(
            way, (offsets == walk.COMMON).any()
        )
        check(covering, scores)
        source = as_randomness(seed)
        for _ in range(5):
            for _ in range(8):
                covering.race(source, Race()) if racing else covering.proportional(source)
            check(covering, scores)


def test_a_covering_keeps_its_parts_and_not_the_room_for_more() -> None:
    covering, _ = covered(problem("squared"), 12.0)
    kept = [part if part.base is None else part.base for part in covering._parts]
    assert sum(array.nbytes for array in kept) < 100 * covering._parts.size.size + 1000
    assert all(part.flags.c_contiguous for part in covering._parts)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("way", WAYS)
def test_opened_again_and_again_it_becomes_single_supports(monkeypatch, way: str, loss: str):
    """Down to the last one: nothing is lost, nothing is there twice."""
    take_way(monkeypatch, way)
    seen = watch(monkeypatch)
    covering, scores = covered(problem(loss, 1), 6.0, racing=True)
    for step in range(5000):
        if covering._log_mass == -math.inf:
            break
        covering._open()
        if step % 50 == 0:
            check(covering, scores)
    check(covering, scores)
    assert {tuple(s.tolist()) for s in covering._singles} == set(scores)
    for support, weight in zip(covering._singles, covering._weights, strict=True):
        exact = -covering.kappa * scores[tuple(support.tolist())]
        assert weight == pytest.approx(exact, abs=1e-6)
    assert (seen.divided > 0) == (way == "common")
    assert seen.kept > 0 or way != "streamed"
    assert seen.kept == 0 or way != "kept"  # a common part of single features may be kept, too


@pytest.mark.parametrize("groups", [None, [[0, 1], [2], [3, 4], [5], [6], [7, 8]]])
def test_without_a_ridge_what_is_known_of_eigenvalues_is_no_penalty(groups: Any) -> None:
    """A partition has looked at them before; forms go by their penalty alone."""
    given = problem("squared", ridge=0.0, radius=10.0, groups=groups)
    assert curvature(given) > 0.0
    covering, scores = covered(given, 12.0)
    assert covering._forms[0].least > 0.0
    check(covering, scores)


@pytest.mark.parametrize("columns", [69, 75])
def test_parts_of_many_columns_with_one_to_choose(columns: int) -> None:
    """With the constants as they are, parts of more than 64 single columns have one bound."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (100, columns))
    y = 0.1 * X[:, 0] + rng.normal(scale=0.3, size=100)
    given = Problem(X, y, size=2, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=1.0)
    covering, scores = covered(given, 3.0, racing=True)
    # All supports with the first column as one part of one column to choose.
    prefix = np.zeros((2, 2), dtype=np.int64)
    rest = math.comb(columns - 1, 2)
    ones = np.ones(2, dtype=np.int64)
    parts = walk.Parts(
        prefix,
        np.array([1, 0]),
        ones,
        np.array([walk.COMMON, walk.COMMON]),
        0 * ones,
        np.log([columns - 1.0, rest]),
    )
    covering._set(parts, np.full(2, -math.inf))
    covering._weigh_all()
    check(covering, scores)
    for _ in range(200):
        covering._open()
    check(covering, scores)


# ---- limits, and what draws depend on -----------------------------------------------------------


@pytest.fixture
def _no_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)


@pytest.mark.parametrize("loss", ["squared", "huber:0.1"])
def test_a_covering_ends_with_its_seconds(loss: str) -> None:
    given = problem(loss)
    with pytest.raises(OutOfTime):
        Covering(given, 1.0, Allowance(Limits(seconds=1e-9)), (0, 1, 2, 3))


@pytest.mark.usefixtures("_no_lists")
@pytest.mark.parametrize("limit", ["seconds", "nodes"])
@pytest.mark.parametrize("racing", [False, True])
def test_draws_end_at_a_limit(limit: str, racing: bool) -> None:
    """Reached after the covering was made: the next draw is refused, whatever it might be."""
    covering, _ = covered(problem("huber:0.1"), 12.0, racing=racing)
    source = as_randomness(0)
    draw = (lambda: covering.race(source, Race())) if racing else covering.proportional
    draw() if racing else draw(source)
    covering._allowance = Allowance(Limits(**{limit: 1}))
    if limit == "nodes":
        covering._allowance.spend(1)
    else:
        covering._allowance._deadline = 0.0
    with pytest.raises(UnprovenError):
        draw() if racing else draw(source)


@pytest.mark.usefixtures("_no_lists")
@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_mechanisms_refuse_at_a_limit(monkeypatch, kind: Any) -> None:
    seen = watch(monkeypatch)
    for limits in (Limits(seconds=1e-9), Limits(nodes=1)):
        with pytest.raises(UnprovenError):
            kind(300.0, limits=limits).draw(problem("huber:0.1"), 200, random_state=0)
    assert seen.made


@pytest.mark.usefixtures("_no_lists")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_draws_depend_on_the_seed_alone(monkeypatch, kind: Any, way: str) -> None:
    """Not on the number of cores, nor on a limit that is not reached."""
    take_way(monkeypatch, way)
    seen = watch(monkeypatch)
    draws = []
    for cores, limits, seed in [
        (1, None, 3),
        (1, None, 3),
        (3, None, 3),
        (3, Limits(seconds=1e6, nodes=10**9), 3),
        (1, None, 4),
    ]:
        monkeypatch.setattr(covering_module, "cores", lambda cores=cores: cores)
        mechanism = kind(20.0, limits=limits)
        draws.append(mechanism.draw(problem("huber:0.1"), 40, random_state=seed).tolist())
    assert draws[0] == draws[1] == draws[2] == draws[3] != draws[4]
    assert len(seen.made) == 5
    assert drawing._COLUMNS > 0
