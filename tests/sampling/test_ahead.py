"""Tries that are drawn ahead and fitted on all cores: the same draws, and the same law."""

import threading
from collections import Counter
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from oracle import LABELLED
from scipy.stats import chisquare

from dpsubset import Exponential, PermuteAndFlip, Problem, SubsetSelector, sampling
from dpsubset.cuts import CutMaker
from dpsubset.cuts.bending import BendingCuts
from dpsubset.cuts.dual import DualCuts
from dpsubset.designs import ColumnCache, as_design, cores
from dpsubset.designs.dense import DenseDesign
from dpsubset.errors import UnprovenError
from dpsubset.limits import Allowance, Limits
from dpsubset.privacy import as_randomness
from dpsubset.sampling import ahead, race
from dpsubset.sampling import partition as partition_module
from dpsubset.sampling.ahead import Ahead
from dpsubset.sampling.partition import Partition

LOSSES = ["absolute", "logistic", "hinge", "huber"]
DRAWS = {"proportional": race.draw_proportional, "race": race.draw_race}
KAPPA = {"proportional": 6.0, "race": 0.7}  # such that many tries are rejected


def problem(loss: str, seed: int = 0, n: int = 30, p: int = 9) -> Problem:
    rng = np.random.default_rng(seed)
    X = 0.5 * rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 1))
    y = X[:, 0] - X[:, 3] + rng.normal(size=n)
    y = np.where(y > 0, 1.0, -1.0) if loss in LABELLED else y
    return Problem(X, y, size=3, loss=loss, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=0.3)


@pytest.fixture
def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fit is dear, nothing is listed, one rough piece is refined late; 16 tries at once."""
    for maker in (CutMaker, DualCuts, BendingCuts):
        monkeypatch.setattr(maker, "patience", lambda self, region, *, split: 60.0)
        monkeypatch.setattr(maker, "parted", False)
    monkeypatch.setattr(ahead, "_DEAR", 0)
    monkeypatch.setattr(ahead, "_FIRST", 16)
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    monkeypatch.setattr(partition_module, "_SEARCHES", {})
    monkeypatch.setattr(partition_module, "_BOUNDED", 0)


def drawn(
    monkeypatch: pytest.MonkeyPatch, case: Problem, how: str, jobs: int, count: int
) -> list[tuple[int, ...]]:
    """Return draws of a new partition by so many cores."""
    monkeypatch.setattr(ahead, "cores", lambda: jobs)
    partition, source = Partition(case, KAPPA[how]), as_randomness(5)
    found = [DRAWS[how](partition, source) for _ in range(count)]
    after = tuple(source.uniforms(1))  # as much randomness was used
    return [*(tuple(int(j) for j in support) for support in found), after]


@pytest.mark.large
@pytest.mark.parametrize("how", DRAWS)
@pytest.mark.parametrize("loss", LOSSES)
def test_draws_do_not_depend_on_the_number_of_cores(
    monkeypatch: pytest.MonkeyPatch, dear: None, loss: str, how: str
) -> None:
    begun: Counter[int] = Counter()
    honest = Ahead._begin

    def counted(self: Ahead, one: ahead.Try) -> None:
        honest(self, one)
        begun[jobs] += one.begun is not None

    monkeypatch.setattr(Ahead, "_begin", counted)
    found = {}
    for jobs in (1, 2, 3):
        found[jobs] = drawn(monkeypatch, problem(loss), how, jobs, 25)
    assert found[1] == found[2] == found[3]
    assert begun[1] == 0
    assert begun[2] == begun[3] > 20


@pytest.mark.large
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_releases_do_not_depend_on_the_number_of_cores(
    monkeypatch: pytest.MonkeyPatch, dear: None, jobs: int
) -> None:
    """By the doors that users have."""
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (60, 30))
    y = np.where(X[:, 0] + rng.normal(size=60) > 0, 1, 0)
    asked = {"bounds_X": (-1, 1), "classes": (0, 1), "epsilon": 5.0, "loss": "hinge"}
    for seed in range(3):
        both = [
            SubsetSelector(n_features_to_select=3, random_state=seed, n_jobs=count, **asked)
            .fit(X, y)
            .get_support()
            for count in (1, jobs)
        ]
        assert (both[0] == both[1]).all()


def chances(case: Problem, how: str) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Return all supports and their law, by enumeration."""
    mechanism = Exponential if how == "proportional" else PermuteAndFlip
    one = mechanism(1.0)
    epsilon = KAPPA[how] / one.kappa(case)
    supports, logs = mechanism(epsilon).probabilities(case)
    return [tuple(row) for row in supports.tolist()], np.exp(logs)


def law_holds(case: Problem, how: str, count: int = 4000) -> bool:
    """Whether draws follow the enumerated law; a true one fails 1 time in 100,000."""
    supports, expected = chances(case, how)
    assert len(supports) == len(list(combinations(range(case.n_columns), 3)))
    counts: Counter[tuple[int, ...]] = Counter()
    source = as_randomness(11)
    for _ in range(20):  # partitions anew: the first draws see rejections and refinements
        partition = Partition(case, KAPPA[how])
        for _ in range(count // 20):
            counts[tuple(int(j) for j in DRAWS[how](partition, source))] += 1
    order = np.argsort(-expected)
    often = order[expected[order] * count >= 8]
    rest = 1.0 - expected[often].sum()
    seen = np.array([counts[supports[i]] for i in often])
    observed = np.append(seen, count - seen.sum())
    return chisquare(observed, count * np.append(expected[often], rest)).pvalue > 1e-5


def the_quick_first(self: Ahead) -> ahead.Try:
    """Decide tries in another order: those first that are likely to be kept."""
    first = not self._waiting or self._version != self._partition.version
    one = honest_next(self)
    if first and self._waiting and one.index >= 0:
        self._waiting.appendleft(one)
        order = sorted(self._waiting, key=lambda t: -t.height)
        self._waiting.clear()
        self._waiting.extend(order)
        one = self._waiting.popleft()
    return one


honest_next = Ahead.next
LAWS = [
    ("logistic", "race", honest_next, True),
    ("absolute", "race", the_quick_first, False),
    *(
        pytest.param(*law, marks=pytest.mark.slow)
        for law in (
            ("absolute", "proportional", honest_next, True),
            ("huber", "proportional", honest_next, True),
            ("absolute", "race", honest_next, True),
            ("absolute", "proportional", the_quick_first, False),
        )
    ),
]


@pytest.mark.large
@pytest.mark.parametrize(("loss", "how", "order", "right"), LAWS)
def test_tries_on_two_cores_follow_the_law(
    monkeypatch: pytest.MonkeyPatch,
    dear: None,
    loss: str,
    how: str,
    order: Callable[[Ahead], ahead.Try],
    right: bool,
) -> None:
    """Twins decide those first that are likely to be kept."""
    monkeypatch.setattr(ahead, "cores", lambda: 2)
    monkeypatch.setattr(Ahead, "next", order)
    assert law_holds(problem(loss), how) == right


def test_a_fit_of_another_start_is_not_taken(monkeypatch: pytest.MonkeyPatch, dear: None) -> None:
    """The same support twice ahead: the second one's fit begins where the first one's ended."""
    from concurrent.futures import ThreadPoolExecutor

    case, alone = problem("absolute"), problem("absolute")
    support = np.array([0, 3, 5])
    with ThreadPoolExecutor(1) as pool:
        twice = [case.begin(support, 10.0, np.inf, pool), case.begin(support, 1e-6, np.inf, pool)]
        gaps = (10.0, 1e-6)
        found = [case.enclose(support, gaps[i], np.inf, twice[i]) for i in range(2)]
    assert found == [alone.enclose(support, gap) for gap in (10.0, 1e-6)]
    assert case.begin(support, 1e-6, np.inf, pool) is None  # it is known by now


@pytest.mark.large
def test_a_limit_ends_the_fits_ahead(monkeypatch: pytest.MonkeyPatch, dear: None) -> None:
    monkeypatch.setattr(ahead, "cores", lambda: 2)
    before = threading.active_count()
    case = problem("absolute", n=400, p=20)
    partition = Partition(case, 40.0)
    source, allowance = as_randomness(2), Allowance(Limits(seconds=1e-3))
    partition.problem = case.within(allowance)
    with pytest.raises(UnprovenError):
        [race.draw_proportional(partition, source) for _ in range(1000)]
    assert threading.active_count() == before


def test_cheap_tries_are_drawn_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As are those of squared loss, whatever the table."""
    small, squared = problem("hinge"), problem("squared")
    for case in (small, squared):
        assert Ahead(Partition(case, 2.0), lambda: iter(()))._most == 1
    monkeypatch.setattr(ahead, "_DEAR", 0)
    assert Ahead(Partition(small, 2.0), lambda: iter(()))._most > 1
    assert Ahead(Partition(squared, 2.0), lambda: iter(()))._most == 1


@pytest.mark.large
@pytest.mark.parametrize("jobs", [1, 2])
def test_columns_on_disk_are_fetched_together(
    monkeypatch: pytest.MonkeyPatch, dear: None, jobs: int
) -> None:
    """Where a fetch is dear, 16 tries cost one; the draws are those of a table in memory."""
    monkeypatch.setattr(DenseDesign, "threaded", False)
    monkeypatch.setattr(ColumnCache, "places", _counting(fetches := []))
    apart = drawn(monkeypatch, problem("absolute", p=40), "proportional", jobs, 10)
    assert max(fetches) > 3  # columns of several supports
    monkeypatch.setattr(DenseDesign, "threaded", True)
    assert drawn(monkeypatch, problem("absolute", p=40), "proportional", jobs, 10) == apart


def _counting(fetches: list[int]) -> Callable[..., np.ndarray]:
    honest = ColumnCache.places

    def places(self: ColumnCache, index: np.ndarray) -> np.ndarray:
        fetches.append(int(np.count_nonzero(self._place[index] < 0)))
        return honest(self, index)

    return places


@pytest.mark.parametrize("twin", [False, True])
def test_a_full_store_does_not_change_what_another_thread_reads(
    monkeypatch: pytest.MonkeyPatch, twin: bool
) -> None:
    """The twin fills the same store again."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20, 200))
    cache = ColumnCache(as_design(X, bound=1.0), memory=1)  # 64 columns
    cache.rows(np.arange(3))
    read = cache.later(np.array([0, 2, 150]))
    if twin:
        monkeypatch.setattr(np, "empty_like", lambda array: array)
    for first in range(3, 170, 30):  # filled, and begun anew
        cache.rows(np.arange(first, first + 30))
    assert np.array_equal(read(), X[:, [0, 2, 150]].T) != twin
