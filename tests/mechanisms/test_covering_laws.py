"""Draws by coverings against the law: kept, streamed and common bounds, and races that change over.

Chi-square tests with fixed seeds and a false-alarm rate of 1e-4 (T14, T15, T40, T41).
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from coverings import WAYS, Watched, take_way, watch
from oracle import Case, chi_square, counts_of, exponential_law, race_law

import dpsubset.sampling
from dpsubset import Exponential, PermuteAndFlip, Problem
from dpsubset.cuts import cut_maker, walk
from dpsubset.cuts.bending import BendingCuts
from dpsubset.cuts.listing import list_region
from dpsubset.cuts.moments import MomentCuts
from dpsubset.cuts.start import start
from dpsubset.sampling import covering, drawing
from dpsubset.sampling import partition as partition_module
from dpsubset.sampling.covering import Covering
from dpsubset.sampling.drawing import _Samplers
from dpsubset.sampling.partition import Partition
from dpsubset.sampling.pieces import Listed
from dpsubset.sampling.race import Race

FALSE_ALARM = 1e-4
DRAWS = 2000
LOSSES = ("squared", "huber:0.1", "huber:0.3", "logistic", "huber_hinge")
DESIGNS = ("plain", "correlated", "nearly copied", "active ball", "wide", "included")
RACES = (False, True)


@pytest.fixture(autouse=True)
def _no_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep short lists of all supports out."""
    monkeypatch.setattr(dpsubset.sampling, "ENUMERATION_LIMIT", 0)


def make_case(design: str, loss: str) -> Case:
    rng = np.random.default_rng(7)
    n, p = {"wide": (9, 12), "few": (35, 6)}.get(design, (35, 9))
    X = rng.uniform(-1, 1, (n, p))
    if design == "correlated":
        X = 0.25 * X + 0.75 * rng.uniform(-1, 1, (n, 1))
    if design == "nearly copied":
        X[:, 5:] = X[:, :4] + 1e-3 * rng.normal(size=(n, 4))
    y = X[:, :3] @ np.array([0.7, -0.6, 0.5]) + rng.normal(scale=0.15, size=n)
    y = np.where(y > 0, 1.0, -1.0) if loss in ("logistic", "huber_hinge") else y
    include = (4, 1) if design == "included" else ()
    radius = 0.3 if design == "active ball" else 2.0
    size = {"included": 5, "few": 2}.get(design, 3)
    return Case(design, X, y, size, 1.0, 1.0, radius, 0.05, include, loss=loss)


def make_problem(case: Case) -> Problem:
    given = case.arguments()
    if case.loss == "huber_hinge":
        del given["y_bound"]
        given["classes"] = (-1, 1)
    return Problem(case.X, case.y, **given)


@cache
def scores_of(design: str, loss: str) -> np.ndarray:
    """Return all scores; those of rounded hinge loss by the library's own certified fits."""
    case = make_case(design, loss)
    if loss != "huber_hinge":
        return case.scores()
    problem = make_problem(case)
    return np.array([problem.score(s) for s in case.supports().tolist()])


def posed(design: str, loss: str, reach: float, race: bool) -> tuple[Problem, Any, np.ndarray]:
    """Choose epsilon so that the worst support's log weight is -reach relative to the best."""
    scores = scores_of(design, loss)
    problem = make_problem(make_case(design, loss))
    kappa = reach / float(np.ptp(scores))
    epsilon = 2 * kappa * problem.sensitivity()
    if race:
        return problem, PermuteAndFlip(epsilon), race_law(scores, kappa)
    return problem, Exponential(epsilon), exponential_law(scores, kappa)


def p_value(design: str, loss: str, draws: np.ndarray, law: np.ndarray) -> float:
    found, cells = chi_square(counts_of(draws, make_case(design, loss).supports()), law)
    assert cells >= 5
    return found


def drawn(
    design: str, loss: str, reach: float, race: bool, *, draws: int = DRAWS, seed: int = 1
) -> float:
    """Return the p-value of many draws of one sampler."""
    problem, mechanism, law = posed(design, loss, reach, race)
    return p_value(design, loss, mechanism.draw(problem, draws, random_state=seed), law)


def drawn_afresh(
    design: str, loss: str, reach: float, race: bool, *, draws: int = 500, seed: int = 2
) -> float:
    """Return the p-value of first draws: a release is the only draw of its sampler."""
    problem, mechanism, law = posed(design, loss, reach, race)
    rng = np.random.default_rng(seed)
    firsts = [mechanism.draw(problem, 1, random_state=rng) for _ in range(draws)]
    return p_value(design, loss, np.vstack(firsts), law)


# ---- one covering, many draws -------------------------------------------------------------------


@pytest.mark.grid(every=30, of=2)
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize(
    ("design", "reach", "loss"),
    [
        (d, (4.0, 12.0)[i % 2], loss)
        for i, (d, loss) in enumerate(itertools.product(DESIGNS, LOSSES))
    ],
)
def test_draws_match_the_law(monkeypatch, design: str, reach: float, loss: str, race: bool) -> None:
    """With the parts that a user gets, which are few and large."""
    seen = watch(monkeypatch)
    assert drawn(design, loss, reach, race) >= FALSE_ALARM
    assert len(seen.made) == 1
    assert seen.accepted["kept"] + seen.singles > 0


# Bounds that are common stay as loose as they are in draws by rejection: no sharp laws for them.
PATHS = [
    (way, design, (4.0 if way == "common" else 12.0, 4.0)[i % 2], loss)
    for i, (way, loss, design) in enumerate(itertools.product(WAYS, LOSSES, DESIGNS))
]


def took(seen: Watched, way: str, race: bool) -> None:
    """Assert that draws came from parts of that kind; a race may have opened them."""
    opened = {"kept": seen.singles, "streamed": seen.kept, "common": seen.divided}[way]
    assert seen.accepted[way] + (opened if race else 0) > 0
    others = {other for other in WAYS if other != way and seen.scored[other]}
    assert race or others <= ({"kept"} if way == "common" else set())


@pytest.mark.grid(every=30, of=3)
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize(("way", "design", "reach", "loss"), PATHS)
def test_draws_by_every_kind_of_part(
    monkeypatch, way: str, design: str, reach: float, loss: str, race: bool
) -> None:
    take_way(monkeypatch, way)
    seen = watch(monkeypatch)
    assert drawn(design, loss, reach, race) >= FALSE_ALARM
    took(seen, way, race)


@pytest.mark.grid(every=11)
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("room", [15, 10_000])
@pytest.mark.parametrize("loss", LOSSES)
def test_streamed_parts_are_kept_where_draws_fall(
    monkeypatch, loss: str, room: int, race: bool
) -> None:
    """With room for some of them, or all, as draws are rejected by bounds alone."""
    take_way(monkeypatch, "streamed")
    weigh = Covering._weigh_all

    def streamed(self: Covering) -> None:
        monkeypatch.setattr(covering, "_KEPT", room)
        weigh(self)

    monkeypatch.setattr(Covering, "_weigh_all", streamed)
    seen = watch(monkeypatch)
    assert drawn("plain", loss, 12.0, race) >= FALSE_ALARM
    assert seen.kept > 0 or loss == "squared"  # whose bounds are exact where the ball is wide


@pytest.mark.parametrize("race", RACES)
def test_squared_loss_takes_a_form_for_every_multiplier(monkeypatch, race: bool) -> None:
    """Where the ball binds, and differently for different supports."""
    monkeypatch.setattr(drawing, "_SOON", 1.0)
    monkeypatch.setattr(dpsubset.sampling, "ENUMERATION_LIMIT", 0)
    rng = np.random.default_rng(8)
    X = rng.uniform(-1, 1, (60, 8)) * np.linspace(0.2, 1.0, 8)
    y = np.clip(X @ np.linspace(1.0, 0.1, 8) * 2, -1, 1)
    problem = Problem(X, y, size=3, x_bound=1.0, y_bound=1.0, radius=0.3, ridge=0.1)
    supports = list(itertools.combinations(range(8), 3))
    scores = np.array([problem.score(s) for s in supports])
    kappa = 8.0 / float(np.ptp(scores))
    mechanism = (PermuteAndFlip if race else Exponential)(2 * kappa * problem.sensitivity())
    law = (race_law if race else exponential_law)(scores, kappa)
    seen = watch(monkeypatch)
    found = mechanism.draw(problem, DRAWS, random_state=3)
    assert chi_square(counts_of(found, np.array(supports)), law)[0] >= FALSE_ALARM
    assert len({round(mu, 6) for mu in seen.made[0]._multipliers}) > 1


@pytest.mark.slow
@pytest.mark.grid(every=33, of=6)
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize(("way", "design", "reach", "loss"), PATHS[::4])
def test_first_draws(
    monkeypatch, way: str, design: str, reach: float, loss: str, race: bool
) -> None:
    take_way(monkeypatch, way)
    seen = watch(monkeypatch)
    assert drawn_afresh(design, loss, min(reach, 6.0), race) >= FALSE_ALARM
    assert len(seen.made) == 500
    took(seen, way, race)


@pytest.mark.slow
def test_bounds_are_raised_by_further_forms(monkeypatch) -> None:
    """Where bounds are loose, coverings expand at more supports in the middle of their draws."""
    take_way(monkeypatch, "kept")
    monkeypatch.setattr(Covering, "_not_streamed", every_part)
    seen = watch(monkeypatch)
    assert drawn("plain", "huber:0.1", 12.0, False) >= FALSE_ALARM
    assert drawn("plain", "huber:0.1", 12.0, True) >= FALSE_ALARM
    assert all(len(one._forms) > 1 for one in seen.made)


def every_part(self: Covering) -> np.ndarray:
    return np.arange(self._masses.size)


# ---- from a partition to a covering -------------------------------------------------------------


class Changes:
    """Counts samplers, those that change over, and those that had single supports by then.

    `straight` leaves out the second partition, that with minorants.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        refined: float,
        lists: int = 0,
        straight: bool = True,
    ) -> None:
        monkeypatch.setattr(drawing, "_SOON", -1)
        monkeypatch.setattr(drawing, "_AT_ONCE", -1)
        monkeypatch.setattr(drawing, "_REFINED", refined)
        monkeypatch.setattr(drawing, "_REFINED_BY_MOMENTS", refined)
        monkeypatch.setattr(drawing, "_REFINED_QUICK", refined)
        monkeypatch.setattr(dpsubset.sampling, "ENUMERATION_LIMIT", lists)
        self.made = self.changed = self.freed = self.parted = 0
        init, adopt, first = _Samplers.__init__, Covering.adopt, Partition.adopt

        def made(samplers: _Samplers, *args: Any, **options: Any) -> None:
            self.made += 1
            init(samplers, *args, **options)
            samplers._bending = samplers._bending and not straight

        def adopted(covering: Covering, singles: Any, weights: Any) -> None:
            self.changed += 1
            self.freed += len(singles) > 0
            adopt(covering, singles, weights)

        def parted(partition: Partition, singles: Any, weights: Any) -> None:
            self.parted += len(singles) > 0
            first(partition, singles, weights)

        monkeypatch.setattr(Partition, "adopt", parted)
        monkeypatch.setattr(_Samplers, "__init__", made)
        monkeypatch.setattr(Covering, "adopt", adopted)


def minorants_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one refinement by minorants come before a covering, however small the table is."""
    monkeypatch.setattr(drawing, "_WORTH_WAITING", -1)
    monkeypatch.setattr(drawing, "_FEWEST_EARLY", 0)
    monkeypatch.setattr(drawing, "_REFINED_BENT", 1)


def changing(monkeypatch: pytest.MonkeyPatch, refined: int, straight: bool = True) -> Changes:
    """Make most samplers begin in a list of loose bounds, set supports free, and change over.

    Loose as they are, the bounds are valid. That rejections improve them is put off.
    """

    def loose(self: Partition, region: Any) -> Listed:
        supports, scores = list_region(self.maker, region)
        nats = np.random.default_rng(0).uniform(2.0, 4.0, len(scores))
        return Listed(supports, nats - self.kappa * scores, exact=False)

    def freed(self: Partition, piece: Listed, level: float) -> Listed | None:
        supports, _, rest = piece.take_out(level)
        for support in supports:
            self._set_free(support, self._weight(support))
        return rest

    monkeypatch.setattr(Partition, "_list", loose)
    monkeypatch.setattr(Partition, "_loosened", lambda self, *args: None)
    monkeypatch.setattr(Partition, "_taken", freed)
    return Changes(monkeypatch, refined, straight=straight)


@pytest.mark.slow
@pytest.mark.grid(every=33, of=3)
@pytest.mark.parametrize("refined", [1, 2])
@pytest.mark.parametrize("design", ["few", "included"])
@pytest.mark.parametrize("loss", LOSSES)
def test_races_that_change_over(monkeypatch, loss: str, design: str, refined: int) -> None:
    """First draws of fresh samplers, most of which begin in a partition and end in a covering."""
    changes = changing(monkeypatch, refined)
    assert drawn_afresh(design, loss, 6.0, True, draws=600) >= FALSE_ALARM
    assert changes.made == 600
    assert changes.freed == changes.changed >= (300 if refined == 1 else 50)


@pytest.mark.slow
@pytest.mark.grid(every=1, of=3)
@pytest.mark.parametrize("design", ["few", "included"])
@pytest.mark.parametrize("loss", LOSSES[1:])
@pytest.mark.parametrize("early", [False, True])
def test_races_that_go_from_one_partition_to_another(
    monkeypatch, early: bool, loss: str, design: str
) -> None:
    """From fits to minorants, where a covering does not do."""
    monkeypatch.setattr(Covering, "_cover", lambda self, *args: False)
    if early:
        minorants_first(monkeypatch)
    changes = changing(monkeypatch, 1, straight=False)
    assert drawn_afresh(design, loss, 6.0, True, draws=600) >= FALSE_ALARM
    assert changes.made == 600
    assert changes.parted >= 300
    assert changes.changed == 0


@pytest.mark.slow
@pytest.mark.grid(every=1, of=3)
@pytest.mark.parametrize("design", ["few", "included"])
@pytest.mark.parametrize("loss", LOSSES[1:])
def test_few_supports_go_from_fits_to_a_covering(monkeypatch, loss: str, design: str) -> None:
    """A partition with minorants is left out where all supports can be bounded one by one."""
    monkeypatch.setattr(drawing, "_FEWEST", 1)
    monkeypatch.setattr(covering, "_BOUND", 0.0)
    changes = changing(monkeypatch, 1, straight=False)
    assert drawn_afresh(design, loss, 6.0, True, draws=600) >= FALSE_ALARM
    assert changes.made == 600
    assert changes.parted == 0
    assert changes.freed == changes.changed >= 300


@pytest.mark.slow
@pytest.mark.grid(every=1, of=3)
@pytest.mark.parametrize("design", ["few", "included"])
@pytest.mark.parametrize("loss", LOSSES[1:])
def test_races_that_go_by_way_of_minorants_to_a_covering(
    monkeypatch, loss: str, design: str
) -> None:
    """What the first partition sets free is handed on twice."""
    monkeypatch.setattr(drawing, "_FEWEST", 1)
    minorants_first(monkeypatch)
    monkeypatch.setattr(covering, "_BOUND", 0.0)
    changes = changing(monkeypatch, 1, straight=False)
    assert drawn_afresh(design, loss, 6.0, True, draws=600) >= FALSE_ALARM
    assert changes.made == 600
    assert changes.parted >= 300
    assert changes.freed == changes.changed >= 50


@pytest.mark.slow
@pytest.mark.grid(every=1, of=3)
@pytest.mark.parametrize("design", ["plain", "correlated"])
@pytest.mark.parametrize("loss", LOSSES)
def test_draws_by_rejection_that_change_over(monkeypatch, loss: str, design: str) -> None:
    """They begin anew in the covering; what was set free before keeps its weight."""
    changes = Changes(monkeypatch, 0, lists=0)
    for maker in (MomentCuts, BendingCuts):
        monkeypatch.setattr(maker, "patience", lambda self, region, *, split: 0.0)
    assert drawn_afresh(design, loss, 6.0, False, draws=500) >= FALSE_ALARM
    assert changes.made == 500
    assert changes.changed >= 20


@pytest.mark.grid(every=7)
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_supports_that_were_set_free_before(monkeypatch, loss: str, way: str, race: bool) -> None:
    """A third of all, light and heavy ones, in one covering and many draws."""
    take_way(monkeypatch, way)
    covering = Covering.__init__

    def with_singles(self: Covering, problem: Problem, kappa: float, *args: Any, **more: Any):
        covering(self, problem, kappa, *args, **more)
        singles = [s for i, s in enumerate(make_case("plain", loss).supports()) if i % 3 == 0]
        self.adopt(singles, np.array([-kappa * problem.score(s) for s in singles]))

    monkeypatch.setattr(Covering, "__init__", with_singles)
    assert drawn("plain", loss, 6.0, race) >= FALSE_ALARM


# ---- lists of bounds in a partition -------------------------------------------------------------


def force_lists(monkeypatch: pytest.MonkeyPatch, most: int) -> list[Listed]:
    """Keep coverings out; regions of so many supports are listed with bounds. Return the lists."""
    monkeypatch.setattr(drawing, "_COLUMNS", 0)
    monkeypatch.setattr(dpsubset.sampling, "ENUMERATION_LIMIT", 1)
    monkeypatch.setattr(partition_module, "_BOUNDED", most)
    monkeypatch.setattr(drawing, "_REFINED", math.inf)

    def expanded(problem: Problem) -> Any:
        maker = cut_maker(problem)
        maker.expand(start(maker))
        return maker

    monkeypatch.setattr(drawing, "cut_maker", expanded)
    found: list[Listed] = []
    list_ = Partition._list

    def spy(self: Partition, region: Any) -> Listed | None:
        listed = list_(self, region)
        if listed is not None:
            assert not listed.exact or len(listed.supports) == 1
            found.append(listed)
        return listed

    monkeypatch.setattr(Partition, "_list", spy)
    return found


BENT = tuple(loss for loss in LOSSES if loss != "squared")


@pytest.mark.grid(every=22, of=3)
@pytest.mark.parametrize("most", [1000, 25])
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("design", ["plain", "correlated", "active ball", "included"])
@pytest.mark.parametrize("loss", BENT)
def test_lists_of_bounds(monkeypatch, loss: str, design: str, race: bool, most: int) -> None:
    """One of all supports, or short ones that regions are split into."""
    lists = force_lists(monkeypatch, most)
    if most < 84:
        monkeypatch.setattr(BendingCuts, "patience", lambda self, region, *, split: 0.0)
    assert drawn(design, loss, 8.0, race) >= FALSE_ALARM
    assert lists


@pytest.mark.slow
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("loss", ["huber:0.1", "logistic"])
def test_first_draws_by_lists_of_bounds(monkeypatch, loss: str, race: bool) -> None:
    """Bounds that were loose are replaced by scores, and by those of a new expansion."""
    lists = force_lists(monkeypatch, 1000)
    monkeypatch.setattr(partition_module, "_LOST", 1)
    monkeypatch.setattr(partition_module, "_LOOSE", 0.01)
    expanded: list[Any] = []
    raised = BendingCuts.raised
    monkeypatch.setattr(
        BendingCuts, "raised", lambda self, s, **o: (expanded.append(s), raised(self, s, **o))[1]
    )
    assert drawn_afresh("plain", loss, 6.0, race) >= FALSE_ALARM
    assert len(lists) >= 500  # one for every draw, and those of partitions that follow
    assert expanded


def lists_that_learn(monkeypatch: pytest.MonkeyPatch, price: float, more: float = 0.0) -> list[int]:
    """Races from one list of loose bounds: it learns from minorants (price 0), or from scores.

    Return how many weights were lowered each time, by `more` nats too much.
    """
    force_lists(monkeypatch, 1000)
    monkeypatch.setattr(partition_module, "_BOUND", price)
    list_, joined, lowered = Partition._list, Listed.joined, []

    def loose(self: Partition, region: Any) -> Listed | None:
        listed = list_(self, region)
        if listed is None or listed.exact:
            return listed
        nats = np.random.default_rng(0).uniform(2.0, 4.0, listed.log_weights.size)
        return Listed(listed.supports, listed.log_weights + nats, exact=False)

    def watched(rest: Listed | None, lower: list[tuple[Any, float]]) -> Listed | None:
        lowered.append(len(lower))
        return joined(rest, [(support, weight - more) for support, weight in lower])

    monkeypatch.setattr(Partition, "_list", loose)
    monkeypatch.setattr(Partition, "_loosened", lambda self, *args: None)
    monkeypatch.setattr(Listed, "joined", staticmethod(watched))
    return lowered


@pytest.mark.parametrize("price", [0.0, math.inf])
@pytest.mark.parametrize("loss", ["huber:0.1", "logistic"])
def test_races_by_lists_that_learn(monkeypatch, loss: str, price: float) -> None:
    made: list[int] = []
    learned = Partition._learned

    def spy(self: Partition, piece: Listed, level: float) -> Listed:
        found = learned(self, piece, level)
        made.append(found is not piece)
        return found

    monkeypatch.setattr(Partition, "_learned", spy)
    lowered = lists_that_learn(monkeypatch, price)
    assert drawn_afresh("plain", loss, 6.0, True) >= FALSE_ALARM
    assert sum(made) > 100 if price == 0.0 else sum(made) == 0 and sum(lowered) > 100


# ---- broken twins: the same check must reject them ----------------------------------------------


def test_weights_lowered_too_far_are_caught(monkeypatch) -> None:
    lists_that_learn(monkeypatch, math.inf, more=2.0)
    assert drawn_afresh("plain", "logistic", 6.0, True) < FALSE_ALARM


def kappa_of(design: str, loss: str, reach: float) -> float:
    return reach / float(np.ptp(scores_of(design, loss)))


@pytest.mark.grid(every=7)
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("loss", LOSSES)
def test_kept_bounds_that_are_too_high_are_caught(monkeypatch, loss: str, race: bool) -> None:
    """By half a unit of log weight beyond the score itself, in every other part."""
    take_way(monkeypatch, "kept")
    monkeypatch.setattr(covering, "cores", lambda: 1)  # scores are not for several threads
    fill, problem = walk.fill, make_problem(make_case("plain", loss))
    more = 0.5 / kappa_of("plain", loss, 4.0)

    def too_high(form: Any, t: int, parts: walk.Parts, which: Any, bounds: np.ndarray) -> None:
        fill(form, t, parts, which, bounds)
        chosen, order = np.empty(t, dtype=np.int64), made[-1]._order
        for r in which[which % 2 == 1]:
            for i in range(int(parts.size[r])):
                walk.member(parts, r, i, order.size, chosen)
                score = problem.score(np.sort(order[chosen]))
                bounds[parts.offset[r] + i] = max(bounds[parts.offset[r] + i], score + more)

    made = watch(monkeypatch).made
    monkeypatch.setattr(walk, "fill", too_high)
    assert drawn("plain", loss, 4.0, race) < FALSE_ALARM


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("loss", ["huber:0.3", "logistic"])
def test_forms_that_are_too_high_are_caught(monkeypatch, loss: str, race: bool) -> None:
    """By so much that minorants are no minorants any more, everywhere."""
    reduced = Covering._reduced
    more = 1.0 / kappa_of("plain", loss, 8.0)

    def raised(self: Covering, *args: Any) -> tuple[walk.Form, np.ndarray | None]:
        form, across = reduced(self, *args)
        return form._replace(base=form.base + more), across

    monkeypatch.setattr(Covering, "_reduced", raised)
    assert drawn("plain", loss, 8.0, race) < FALSE_ALARM


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("loss", ["squared", "huber:0.3", "logistic"])
def test_common_bounds_that_are_too_high_are_caught(monkeypatch, loss: str, race: bool) -> None:
    """As high as the worst score of all."""
    take_way(monkeypatch, "common")
    bounds, worst = walk.part_bounds, float(scores_of("plain", loss).max())

    def too_high(tails: walk.Tails, parts: walk.Parts, which: Any, lows: np.ndarray) -> None:
        bounds(tails, parts, which, lows)
        for r in which:
            if parts.offset[r] == walk.COMMON:
                lows[r] = worst

    monkeypatch.setattr(walk, "part_bounds", too_high)
    assert drawn("plain", loss, 4.0, race) < FALSE_ALARM


def counted_twice(self: Covering, singles: Any, weights: Any) -> None:
    """Leave supports that are free in their parts, too."""
    self._singles, self._weights = list(singles), weights.copy()


def lost(self: Covering, singles: Any, weights: Any) -> None:
    """Forget supports that are free, and refuse them in their parts all the same."""
    self._singles, self._weights = [], np.empty(0)
    self._free = {tuple(support.tolist()) for support in singles}


@pytest.mark.slow
@pytest.mark.parametrize("adopt", [counted_twice, lost])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_single_supports_that_are_not_taken_over_are_caught(monkeypatch, adopt, loss: str) -> None:
    changing(monkeypatch, 1)
    monkeypatch.setattr(Covering, "adopt", adopt)
    race = Covering.race

    def without_clocks(self: Covering, source: Any, state: Race) -> Any:
        return race(self, source, Race(state.now) if self._free and not self._singles else state)

    monkeypatch.setattr(Covering, "race", without_clocks)
    assert drawn_afresh("few", loss, 2.0, True, draws=600) < FALSE_ALARM


@pytest.mark.slow
def test_supports_that_a_second_partition_counts_again_are_caught(monkeypatch) -> None:
    monkeypatch.setattr(Covering, "_cover", lambda self, *args: False)
    changes = changing(monkeypatch, 1, straight=False)
    monkeypatch.setattr(Partition, "gone", lambda self, support: False)
    assert drawn_afresh("few", "logistic", 6.0, True, draws=2000) < FALSE_ALARM
    assert changes.parted >= 1000


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_race_that_goes_on_at_another_time_is_caught(monkeypatch, loss: str) -> None:
    """Later than it was: whoever would have rung in between does not.

    One that begins anew at time zero, with all that was set free forgotten, has a law so near the
    right one that no test of this size tells them apart.
    """
    changing(monkeypatch, 1)
    race = Covering.race

    def later(self: Covering, source: Any, state: Race) -> Any:
        state.now += 2.0
        return race(self, source, state)

    monkeypatch.setattr(Covering, "race", later)
    assert drawn_afresh("few", loss, 2.0, True, draws=600) < FALSE_ALARM


@pytest.mark.parametrize("race", RACES)
def test_a_list_of_bounds_that_is_too_high_is_caught(monkeypatch, race: bool) -> None:
    """By one unit of log weight for every other support."""
    force_lists(monkeypatch, 1000)
    listed, more = BendingCuts.listed, 1.0 / kappa_of("plain", "logistic", 6.0)
    scores = scores_of("plain", "logistic")

    def raised(self: BendingCuts, region: Any) -> Any:
        supports, lows = listed(self, region)
        return supports, np.where(np.arange(len(lows)) % 2, scores + more, lows)

    monkeypatch.setattr(BendingCuts, "listed", raised)
    assert drawn("plain", "logistic", 6.0, race) < FALSE_ALARM


@pytest.mark.parametrize("race", RACES)
def test_better_bounds_that_are_too_high_are_caught(monkeypatch, race: bool) -> None:
    """What is known of single supports rejects too much: half a unit, if column 1 is among them."""
    force_lists(monkeypatch, 1000)
    kappa = kappa_of("plain", "logistic", 6.0)
    problem = make_problem(make_case("plain", "logistic"))

    def better(self: BendingCuts, support: Any, worst: float) -> float:
        return problem.score(support) + (0.5 / kappa if 1 in support else -10.0)

    monkeypatch.setattr(BendingCuts, "better", better)
    monkeypatch.setattr(
        BendingCuts,
        "raised",
        lambda self, many, **_: np.array([better(self, s, 0.0) for s in many]),
    )
    assert drawn("plain", "logistic", 6.0, race) < FALSE_ALARM
