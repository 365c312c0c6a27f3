"""A partition of all supports, refined where draws are rejected; exact whatever its cuts (T14)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from dpsubset import sampling, search
from dpsubset.arrays import Floats
from dpsubset.cuts import Cut, CutMaker, cut_maker
from dpsubset.cuts.listing import list_region
from dpsubset.cuts.region import Region, outside, patterns, root
from dpsubset.cuts.start import start
from dpsubset.cuts.symmetric import inclusion
from dpsubset.designs.cores import mapped, using
from dpsubset.errors import UnprovenError
from dpsubset.limits import REFUSED, Allowance, Limits
from dpsubset.problem import Begun, Problem
from dpsubset.sampling.deciding import COARSE, decided
from dpsubset.sampling.pieces import Envelope, Listed, Piece, Support, Tail

__all__ = ["GONE", "Partition", "TooHard", "Verdict"]

_PATTERNS_UP_TO = 6  # columns to choose; 2^6 starting regions at most
_MEMORY = 4 << 30  # bytes that the pieces may take, roughly; beyond it the sampler gives up (T18)
_HARD = 16  # refinements after which a problem is hard enough to prepare for
_SEARCHES = {16: 100_000, 64: 500_000, 256: 2_000_000, 1024: 20_000_000}  # refinements: nodes
_NARROW = 500  # columns; a node of a wider table, or of wide features, costs more
_COUNTS = (100, 2000, 20_000, 100_000)  # lengths of the lists that it is asked for
_LONG, _LATE = 20_000, 256  # lists that are longer, and refinements before they pay
_SHORTER = 5.0  # times fewer nodes where another sampler follows
_REST = 5.0  # nats by which all others together may outweigh a list: that many tries cost little
_FAR_FROM = 8.0  # the same where the next length would not do, either
_BOUNDED = 50_000  # supports of a region that are listed with bounds on their scores
_SPREAD = 20_000  # columns from which envelopes are made on all cores
_LOST = 8  # rejections from lists of bounds before these are looked at, at least
_FEWER = 0.9  # times as many supports above a level, after one more minorant that pays
_BOUND = 0.05  # microseconds a column of a bound on a single support
_LOOSE = 1.0  # nats that bounds on single supports may lack before they are expanded anew
_WORTH = 0.05  # nats that make another cut of a piece worth keeping
_DRAW, _QUICK = 120.0, 20.0  # microseconds of a draw without a fit, alone and among others
_TOGETHER = 256  # tries that are drawn at once
_CLOSE, _HOPELESS = 4.0, 8.0  # nats of excess: below, a draw was nearly kept; above, none will be
_SEEN = 20.0  # nats below all others within which a piece's loss of mass is seen
_LATELY, _LITTLE = 0.1, 0.03  # weight of the last refinement in their mean, and its least value


class TooHard(Exception):
    """So many refinements were not enough."""


class Verdict(NamedTuple):
    """What became of a draw."""

    kept: bool
    excess: float  # kappa times what the score has above the envelope, or what is known of it
    loose: float  # the part of it that no bound on the one support told; 0 if there was no need


GONE = Verdict(False, 4.0, 0.0)  # of a support that is a single one by now


class Partition:
    """Pieces that cover every support once; refining changes speed, not the distribution."""

    def __init__(
        self,
        problem: Problem,
        kappa: float,
        limits: Limits | Allowance | None = None,
        maker: CutMaker | None = None,
    ) -> None:
        self._allowance = limits if isinstance(limits, Allowance) else Allowance(limits)
        problem = problem.within(self._allowance)
        self.problem = problem
        self.kappa = kappa
        self._refined = self._lost = 0
        self._pace = 1  # tries that were drawn at once, lately
        self.followed = False  # whether another sampler serves next, so that searches can wait
        self._most = math.inf
        self._adopted: set[tuple[int, ...]] = set()
        self._draw = _DRAW + 0.05 * problem.scored_entries
        self._quick = _QUICK / self._draw  # cost of a draw that needs no fit, against one that may
        self._gain = 1.0  # share of a piece's mass that refining takes away, lately
        self.pieces: list[Piece] = []
        self._stats = np.empty((2, 16))  # log mass and peak of every piece
        self.version = 0  # counts changes of what draws see
        self.singles: list[Support] = []
        self._single_weights = np.empty(16)
        self.maker = maker or cut_maker(problem)
        self.seed: tuple[int, ...] = ()
        everything = root(problem)
        listed = self._list(everything)
        if listed is not None:
            self._add(listed)
            return
        self.seed = start(self.maker)
        self._place_all(self._starting(everything))

    @contextmanager
    def at_most(self, refinements: float) -> Iterator[None]:
        """Let draws raise TooHard after so many refinements."""
        self._most = self._refined + refinements
        try:
            yield
        finally:
            self._most = math.inf

    def _weight(self, support: Support) -> float:
        """Return the exact log weight of a support."""
        low, high = self.problem.enclose(support)
        return -self.kappa * (low + high) / 2

    def _list(self, region: Region) -> Listed | None:
        """Return a region's supports if it is listed rather than bounded."""
        count = math.comb(region.free.size, region.to_choose)
        if count <= sampling.ENUMERATION_LIMIT and self.maker.listable(region):
            supports, scores = list_region(self.maker, region)
            return Listed(supports, -self.kappa * scores)
        width = self.problem.features.width(region.free) / max(region.free.size, 1)
        wide = max(width, 1.0) ** 3  # what a bound costs, against that of single columns
        if count <= min(_BOUNDED / wide, sampling.ENUMERATION_LIMIT * 1000) and self.seed:
            found = self.maker.listed(region)
            if found is not None:
                return Listed(found[0], -self.kappa * found[1], exact=False)
        return None

    def _starting(self, everything: Region) -> list[Region]:
        if everything.to_choose > _PATTERNS_UP_TO or not self.maker.parted:
            return [everything]
        others = outside(self.problem, self.seed)
        return [
            r
            for k in range(everything.to_choose + 1)
            for r in patterns(self.problem, self.seed, k, others)
        ]

    @property
    def masses(self) -> Floats:
        """The log mass of every piece."""
        return self._stats[0, : len(self.pieces)]

    @property
    def peaks(self) -> Floats:
        """The log of every piece's largest weight."""
        return self._stats[1, : len(self.pieces)]

    @property
    def single_weights(self) -> Floats:
        """The log weight of every single support."""
        return self._single_weights[: len(self.singles)]

    def _add(self, piece: Piece, at: int | None = None) -> None:
        self.version += 1
        if at is None:
            at = len(self.pieces)
            self.pieces.append(piece)
            if at == self._stats.shape[1]:
                self._stats = np.concatenate([self._stats, np.empty_like(self._stats)], axis=1)
        self.pieces[at] = piece
        self._stats[:, at] = piece.log_mass, piece.peak

    def _remove(self, at: int) -> None:
        self.version += 1
        last = self.pieces.pop()
        if at < len(self.pieces):
            self._add(last, at)

    def _clear(self) -> None:
        self.version += 1
        self.pieces.clear()

    def adopt(self, singles: list[Support], log_weights: Floats) -> None:
        """Take over supports that another sampler set free: pieces hold them, but do not count."""
        assert not self.singles  # clocks are matched by position
        for support, log_weight in zip(singles, log_weights, strict=True):
            self._set_free(support, float(log_weight))
        self._adopted = {tuple(support.tolist()) for support in singles}

    def begin_again(self) -> None:
        """Cover all supports anew, by cuts that are better now; those set free stay so."""
        self._adopted |= {tuple(support.tolist()) for support in self.singles}
        self._clear()
        self._place_all(self._starting(root(self.problem)))

    def gone(self, support: Support) -> bool:
        """Whether a support that a piece holds is a single one by now."""
        return bool(self._adopted) and tuple(support.tolist()) in self._adopted

    def _set_free(self, support: Support, log_weight: float) -> None:
        if self.gone(support):
            return
        self.version += 1
        at = len(self.singles)
        self.singles.append(support)
        if at == self._single_weights.size:
            self._single_weights = np.concatenate([self._single_weights] * 2)
        self._single_weights[at] = log_weight

    def told(self, support: Support, log_weight: float) -> float:
        """Return what a bound on the one support tells of kappa (R(S) - bound(S))."""
        return max(self.kappa * self.maker.better(support, math.inf) + log_weight, 0.0)

    def paced(self, rejected: int) -> int:
        """Return how many tries are drawn at once next, after so many were rejected together.

        Where moments tell of all of them at once they are ever more, and a quarter after a change.
        """
        if not self.maker.tells:
            return 1
        count = min(2 * rejected, _TOGETHER) if rejected else max(self._pace // 4, 1)
        self._pace = count
        return count

    def told_together(self, supports: Support, log_weights: Floats) -> Floats:
        """Return `told` of many supports."""
        return np.asarray(np.maximum(self.kappa * self.maker.raised(supports) + log_weights, 0.0))

    def reaches(
        self,
        draw: float,
        support: Support,
        log_weight: float,
        rising: Callable[[float], float],
        known: float | None = None,
        begun: Begun | None = None,
    ) -> Verdict:
        """Say whether a draw is at least rising(kappa (R(S) - bound(S))).

        A bound on the one support may tell before its score is known; it may be `known` already.
        """
        known = self.told(support, log_weight) if known is None else known
        if draw < rising(known):
            return Verdict(False, known, 0.0)
        kept, excess = decided(self.problem, self.kappa, draw, support, log_weight, rising, begun)
        return Verdict(kept, excess, excess - known)

    def rejected(self, index: int, support: Support, verdict: Verdict) -> None:
        """Take note of a rejection; refine the piece once that pays.

        As much again will be spent on draws from it as was spent already, about, and refining saves
        a share of that. So it is refined when the share is worth the price.
        """
        if self._allowance.over:
            raise UnprovenError(REFUSED)
        piece = self.pieces[index]
        if isinstance(piece, Listed):
            self._loosened(index, piece, support, verdict)
        if not isinstance(piece, Envelope):
            return
        scored = verdict.loose > 0.0
        weight = min(verdict.excess / _CLOSE, 1.0) + max(verdict.excess - _HOPELESS, 0.0) / 2
        piece.evidence += weight * (1.0 if scored else self._quick)
        piece.loose = max(piece.loose, verdict.loose)
        price = self.maker.patience(piece.region, split=piece.optimised)
        if piece.evidence * self._gain < price:
            return
        loose = piece.loose > _LOOSE and scored and self.maker.bent
        if loose and self.maker.expand(support):
            better = self._optimised(self.maker.cheap(piece.region), None)
            if better.log_mass < piece.log_mass - _WORTH:
                self._add(better, index)
                return
        before, all_before = piece.log_mass, self._log_mass
        self.refine(index)
        if before > all_before - _SEEN:
            after = min(self._log_mass, all_before)  # parts without a cut to inherit may weigh more
            lost = math.exp(all_before - before) - math.exp(after - before)
            self._gain += _LATELY * (min(lost, 1.0) - self._gain)
            self._gain = max(self._gain, _LITTLE)

    @property
    def _log_mass(self) -> float:
        """The log of all weights together."""
        both = np.concatenate([self.masses, self.single_weights])
        return float(np.logaddexp.reduce(both)) if both.size else -math.inf

    def _loosened(self, index: int, piece: Listed, support: Support, verdict: Verdict) -> None:
        """Write a score into a list of bounds; where bounds are loose, make better ones.

        Where minorants that are younger than the list reject, the whole list learns from them.
        """
        if not verdict.loose > 0.0:
            piece.rejected += not piece.exact
            raising = _BOUND * piece.supports.size * self.maker.forms
            if piece.rejected >= max(_LOST, raising / _QUICK):
                self._add(piece.under(-self.kappa * self.maker.raised(piece.supports)), index)
            return
        log_weight = -self.kappa * self.problem.enclose(support, COARSE / self.kappa)[0]
        self._add(piece.lowered(support, log_weight), index)
        self._lost += 1
        self._most -= 0.5
        if self._refined >= self._most:
            raise TooHard
        if self._lost < _LOST or verdict.loose <= _LOOSE:
            return
        least = self._log_mass - _SEEN
        lists = [
            (i, other)
            for i, other in enumerate(self.pieces)
            if isinstance(other, Listed) and not other.exact and other.log_mass >= least
        ]
        raising = _BOUND * sum(other.supports.size for _, other in lists)
        if self._lost * self._draw >= raising and self.maker.expand(support):
            self._lost = 0
            for i, other in lists:
                lows = self.maker.raised(other.supports, last=True)
                self._add(other.under(-self.kappa * lows), i)

    def refine(self, index: int, level: float = math.inf) -> None:
        """Improve a piece's cut, or split it; single supports that this yields are set free.

        From a list, the supports of log weight above `level` are set free.
        """
        self._allowance.spend(1)
        if self._allowance.over or len(self.pieces) * self.maker.memory() > _MEMORY:
            raise UnprovenError(REFUSED)
        if self._refined >= self._most:
            raise TooHard
        self._refined += 1
        if self._refined == _HARD:
            self.maker.prepare()
        if self._refined in _SEARCHES and not (self.followed and _HARD < self._refined < _LATE):
            features = self.problem.features
            dear = max(features.n_columns / _NARROW, 1.0) ** 1.5 * features.widths.mean() ** 3
            dear *= _SHORTER if self.followed and self._refined < _LATE else 1.0
            if self._settled_by_search(int(_SEARCHES[self._refined] / dear)):
                return
        piece = self.pieces[index]
        if isinstance(piece, Listed):
            rest = self._taken(piece, level)
            self._remove(index) if rest is None else self._add(rest, index)
            return
        assert isinstance(piece, Envelope)
        if not (piece.optimised or self.maker.exact(piece.region)):
            better = self._optimised(piece.cut, None)
            if better.log_mass < piece.log_mass - _WORTH or better.peak < piece.peak - _WORTH:
                self._add(better, index)
                return
            piece.optimised = True
        self._split(index, piece)

    def _taken(self, piece: Listed, level: float) -> Listed | None:
        """Set supports of a list free whose weight is above a level; return the others.

        Where bounds are listed, a score that tells of less than the level is not needed exactly.
        """
        if piece.exact:
            supports, log_weights, rest = piece.take_out(level)
            for support, log_weight in zip(supports, log_weights, strict=True):
                self._set_free(support, float(log_weight))
            return rest
        piece = self._learned(piece, level)
        supports, _, rest = piece.take_out(level)
        enough = math.inf if level == math.inf else -level / self.kappa
        lower = []
        for support in supports:
            low, high = self.problem.enclose(support, enough=enough)
            if low >= enough:
                lower.append((support, -self.kappa * low))
            else:
                self._set_free(support, -self.kappa * (low + high) / 2)
        return Listed.joined(rest, lower)

    def _learned(self, piece: Listed, level: float) -> Listed:
        """Let a list of bounds learn from minorants where that costs less than fits."""
        price, size = _BOUND * piece.supports.size, math.inf
        while size > (above := piece.above(level)):
            size = _FEWER * above
            if piece.met < self.maker.made and above * self._draw > price * self.maker.forms:
                lows = self.maker.raised(piece.supports)
            elif above * self._draw > price + self.maker.expanding and self.maker.expand(
                piece.supports[0]
            ):
                lows = self.maker.raised(piece.supports, last=True)
            else:
                break
            piece = piece.under(-self.kappa * lows)
            piece.met = self.maker.made
        return piece

    def _settled_by_search(self, nodes: int) -> bool:
        """Try to find all supports that matter by proven searches; the rest becomes one tail.

        Where the distribution is concentrated this is far quicker than refining envelopes.
        """
        if not (self.seed and self.maker.searchable and self._concentrated()):
            return False
        counts = [c for c in _COUNTS if c <= _LONG or self._refined >= _LATE]
        while counts:
            found = search.top(self.problem, counts.pop(0), limits=self._allowance.part(nodes))
            if not found[-1].proven:
                return False
            logs = -self.kappa * np.array([f.score for f in found])
            rest = self.problem.n_supports - len(found)
            common = float(logs[-1]) + self.kappa * self.problem.slack
            heavier = -math.inf
            if rest:
                heavier = common + math.log(rest) - float(np.logaddexp.reduce(logs))
            if rest == 0 or (logs[0] - common >= 1.0 and heavier <= _REST):
                self._adopt([f.support for f in found], logs, common)
                return True
            if heavier > _FAR_FROM:
                del counts[:1]
        return False

    def _concentrated(self) -> bool:
        """Whether even the best supports that share all columns but one differ by much.

        If not, the distribution is spread over far more supports than could be listed.
        """
        problem = self.problem
        scores = (
            self.maker.extended(region.inside, region.free)
            for region in patterns(problem, self.seed, 1)
            if region.to_choose == 1 and not region.partial
        )
        best = [np.partition(s, min(100, s.size - 1))[:100] for s in scores if s.size]
        near = np.sort(np.concatenate(best))[:100] if best else np.zeros(1)
        gap = self.kappa * float(near[-1] - problem.score(self.seed))
        return 4 * gap > math.log(problem.n_supports)

    def _adopt(self, supports: list[tuple[int, ...]], logs: Floats, common: float) -> None:
        """Set the supports free, and put all others under one common weight."""
        free = {tuple(support.tolist()) for support in self.singles}
        for support, log_weight in zip(supports, logs, strict=True):
            if support not in free:
                self._set_free(np.array(support, dtype=np.int64), float(log_weight))
        self._clear()
        if self.problem.n_supports > len(self.singles):
            self._add(Tail(self.problem, self.singles, common))

    def _split(self, index: int, piece: Envelope) -> None:
        """Split on the column of most uncertain inclusion among the heaviest support's."""
        region = piece.region
        t = region.to_choose
        log_weights = piece.log_weights
        _, shares = inclusion(log_weights, t)
        top = np.argpartition(-log_weights, t - 1)[:t]
        del log_weights
        column = int(top[int(np.argmin(np.abs(shares[top] - 0.5)))])
        if t > 1:  # the last column's score needs none of this
            self.maker.expect(region, int(region.free[column]), shares)
        guess = np.delete(shares, column) if piece.optimised else None
        self._remove(index)
        self._place_all(region.split(int(region.free[column])), guess, piece.to_hand_on)

    def _place_all(
        self, regions: list[Region], guess: Floats | None = None, above: Cut | None = None
    ) -> None:
        """Add regions to the partition as whatever serves them best.

        `above` is the cut of a region that they are parts of; no part weighs more than by it.
        """
        bounded = []
        for region in regions:
            self._allowance.check()
            if region.to_choose == 0:
                support = np.sort(np.array(region.inside, dtype=np.int64))
                self._set_free(support, self._weight(support))
                continue
            listed = self._list(region)
            if listed is None:
                bounded.append(region)
                continue
            if above is not None and not listed.exact:
                most = above.within(region).log_weights(listed.supports, self.kappa)
                listed = listed.under(most)
            self._add(listed)
        cuts = self.maker.cheap_all(bounded)
        if guess is None and above is None and isinstance(cuts, list):
            for envelope in self._envelopes(cuts):
                self._add(envelope)
            return
        for cut in cuts:
            fits = guess is not None and guess.size == cut.region.free.size
            better = fits and not self.maker.exact(cut.region)
            near = None if above is None else above.point
            envelope = self._optimised(cut, guess, near) if better else Envelope(cut, self.kappa)
            if above is not None:
                inherited = Envelope(above.within(cut.region), self.kappa)
                if inherited.log_mass < envelope.log_mass:
                    inherited.optimised = envelope.optimised
                    envelope = inherited
            self._add(envelope)

    def _envelopes(self, cuts: list[Cut]) -> list[Envelope]:
        """Return envelopes, made on all cores unless each takes much memory, or little time."""
        alone = any(c.recipe is not None for c in cuts) or self.problem.n_columns < _SPREAD
        with using(1 if alone else None):
            return mapped(lambda cut: Envelope(cut, self.kappa), cuts)

    def _optimised(self, cut: Cut, guess: Floats | None, near: Floats | None = None) -> Envelope:
        found = self.maker.optimised(cut, self.kappa, guess, near=near)
        envelope = Envelope(found, self.kappa)
        cheap = Envelope(cut, self.kappa)
        if cheap.log_mass < envelope.log_mass:
            envelope = cheap
        envelope.optimised = True
        return envelope
