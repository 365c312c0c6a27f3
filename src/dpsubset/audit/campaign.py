"""All audits of all mechanisms: what `dpsubset audit` runs, on synthetic tables."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import chi2

from dpsubset.arrays import Floats
from dpsubset.audit.exact import REFUSAL, ExactReport, Laws, Violation, exact_pairs
from dpsubset.audit.families import Family, families
from dpsubset.audit.lone import lone_families
from dpsubset.audit.replay import ReplayReport, replay
from dpsubset.audit.sampled import SampledReport, sampled
from dpsubset.audit.tables import neighbouring
from dpsubset.audit.worst import worst
from dpsubset.checks import whole
from dpsubset.errors import DpsubsetError, InputError
from dpsubset.losses import as_loss
from dpsubset.mechanisms import (
    Exponential,
    Kendall,
    LassoStability,
    Mechanism,
    Mistakes,
    PermuteAndFlip,
    SampleAggregate,
    Screening,
    Stepwise,
    TopR,
)
from dpsubset.privacy import NEIGHBOURS
from dpsubset.problem import Problem

__all__ = ["AUDITED", "LOSSES", "Finding", "campaign"]

LOSSES = (
    "squared",
    "absolute",
    "quantile:0.8",
    "huber",
    "brier",
    "hinge",
    "logistic",
    "huber_hinge",
)
_DELTA = 0.01  # large, so that tests pass now and then on small tables
_MORE = 4.0  # times epsilon for mistakes with a test: its weak points show there
_LONE = 2  # families in which one row alone has a label or a value
_FEW_ROWS = 4  # for distributions that average over all partitions of the rows
_EXPECTED = 5.0  # times that an outcome must be expected to be counted by itself
_HARD_LOOKS = 6  # problems whose worst neighbour is looked for

Make = Callable[[Problem, float, str], Mechanism]


def heaviest(X: Floats, y: Floats, count: int) -> Iterable[int]:
    """Choose the columns that go most with the target: a quick selector for blocks of rows.

    It sees the signs of labels: an exchange of the classes changes its votes.
    """
    return [int(j) for j in np.argsort(-(X.T @ y), kind="stable")[:count]]


def _half(problem: Problem) -> int:
    return max(2, problem.n_supports // 2)


AUDITED: dict[str, Make] = {
    "permute-and-flip": lambda q, e, r: PermuteAndFlip(e, neighbours=r),
    "exponential": lambda q, e, r: Exponential(e, neighbours=r),
    "top-r": lambda q, e, r: TopR(e, count=_half(q), neighbours=r),
    "top-r, 3 trials": lambda q, e, r: TopR(e, count=2, trials=3, accounting="sharp", neighbours=r),
    "mistakes, tested": lambda q, e, r: Mistakes(_MORE * e, delta=_DELTA, neighbours=r),
    "mistakes, else exponential": lambda q, e, r: Mistakes(
        _MORE * e, delta=_DELTA, otherwise="exponential", neighbours=r
    ),
    "stepwise": lambda q, e, r: Stepwise(e, neighbours=r),
    "kendall": lambda q, e, r: Kendall(e, neighbours=r),
    "screening": lambda q, e, r: Screening(e, neighbours=r),
    "sample-aggregate": lambda q, e, r: SampleAggregate(
        e, blocks=2, selector=heaviest, neighbours=r
    ),
    "lasso-stability": lambda q, e, r: LassoStability(
        e, _DELTA, blocks=3, selector=heaviest, neighbours=r
    ),
}
# The same on problems of another shape: an open size (T34), groups of columns (T32).
_SHAPED = {
    "size auto": ("permute-and-flip", "exponential", "stepwise"),
    "groups": tuple(AUDITED),
}
AUDITED |= {f"{name}, {shape}": AUDITED[name] for shape in _SHAPED for name in _SHAPED[shape]}


@dataclass(frozen=True)
class Finding:
    """All audits of one mechanism with one loss under one relation.

    Parameters
    ----------
    mechanism : str
        The mechanism's name.
    loss : str
        The loss of the problems.
    neighbours : {"replace-one", "add-remove"}
        Which tables count as neighbours.
    pairs : int
        How many pairs of tables were compared exactly.
    epsilon : float
        The epsilon that is claimed.
    delta : float
        The delta that is claimed.
    largest : float
        The largest log ratio of chances that was found.
    beyond : float
        The largest mass beyond epsilon that was found.
    violations : tuple of (int, Violation)
        What exceeds the claim, with the number of its family; -1 for the worst neighbour.
    followed : float
        The p-value of draws against the exact distribution.
    sampled : SampledReport
        What draws alone could prove.
    replayed : ReplayReport
        What differed but the release.

    Examples
    --------
    >>> sampled = SampledReport(0.4, 0.99, 1000, 1.0, 0.0)
    >>> found = ("exponential", "huber", "replace-one", 10, 1.0, 0.0, 0.9, 0.0, (), 0.5)
    >>> Finding(*found, sampled, ReplayReport((), 5)).passed
    True
    """

    mechanism: str
    loss: str
    neighbours: str
    pairs: int
    epsilon: float  # claimed
    delta: float
    largest: float  # log ratio found
    beyond: float  # mass beyond epsilon found
    violations: tuple[tuple[int, Violation], ...]  # with the number of its family; -1: the worst
    followed: float  # p-value of draws against the distribution
    sampled: SampledReport
    replayed: ReplayReport

    @property
    def passed(self) -> bool:
        """Whether no audit contradicts the guarantee; one in a million is wrong about the draws."""
        reports = self.sampled.passed and self.replayed.passed
        return not self.violations and self.followed > 1e-6 and reports


def campaign(
    mechanisms: Sequence[str] = tuple(AUDITED),
    losses: Sequence[str] = LOSSES,
    relations: Sequence[str] = tuple(NEIGHBOURS),
    *,
    pairs: int = 1000,
    epsilon: float = 1.0,
    draws: int = 6000,
    seed: int = 0,
    made: dict[str, Make] | None = None,
) -> Iterator[Finding]:
    """Audit mechanisms by name: exactly on so many pairs, by draws, and by replay.

    Each finding comes as soon as it is there; `made` are further mechanisms by name.

    Parameters
    ----------
    mechanisms : sequence of str
        Names of mechanisms; all by default.
    losses : sequence of str
        Names of losses; all by default.
    relations : sequence of str
        "replace-one", "add-remove" or both.
    pairs : int
        How many pairs of tables are compared exactly, at least.
    epsilon : float
        The epsilon that mechanisms are made with.
    draws : int
        How many draws the audit by sampling makes.
    seed : int
        Where the synthetic tables and the draws begin.
    made : dict, optional
        Further mechanisms, or others by known names: functions from a problem, epsilon and a
        relation.

    Yields
    ------
    Finding
        All audits of one mechanism, loss and relation, as soon as they are done.

    Examples
    --------
    >>> found = list(campaign(["exponential"], ["squared"], ["replace-one"], pairs=100))
    >>> found[0].pairs, found[0].passed
    (373, True)
    """
    known = AUDITED | (made or {})
    for name in mechanisms:
        if name not in known:
            raise InputError(f"unknown mechanism {name!r}; allowed: {', '.join(map(repr, known))}")
    pairs = whole(pairs, "pairs", 1)
    for loss, relation in itertools.product(losses, relations):
        listed = Laws()  # scores are computed once for all mechanisms
        kinds = {_kinds(name) for name in mechanisms}
        tables = {kind: _tables(loss, relation, pairs, seed, kind) for kind in kinds}
        for name in mechanisms:
            chosen = tables[_kinds(name)]
            yield _audited(
                name, known[name], loss, relation, epsilon, chosen, listed, whole(draws, "draws", 2)
            )


def _kinds(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the shape of problems, and which tables an audit needs to have teeth."""
    plain, _, last = name.rpartition(", ")
    shape, plain = (last, plain) if last in _SHAPED else ("columns", name)
    if name.startswith("mistakes"):
        return shape, ("small", "wide", "swap")
    votes = plain in ("sample-aggregate", "lasso-stability")
    return shape, ("small",) if votes else ("small", "extremal")


def _tables(
    loss: str, relation: str, pairs: int, seed: int, wanted: tuple[str, tuple[str, ...]]
) -> list[Family]:
    """Return families with at least so many pairs in all, of all kinds in turn."""
    shape, kinds = wanted
    sources = [families(loss, relation, seed, kind, shape) for kind in kinds]
    taken: list[Family] = []
    for source in itertools.cycle(sources):
        family = next(source)
        if kinds == ("small",):
            family = _with_few_rows(family)
        taken.append(family)
        if sum(len(family.pairs) for family in taken) >= pairs:
            alone = shape == "columns"  # the other shapes change nothing about a lone row
            return taken + (_lone(loss, relation, seed, kinds == ("small",)) if alone else [])
    raise AssertionError  # pragma: no cover


def _lone(loss: str, relation: str, seed: int, votes: bool) -> list[Family]:
    """Return pairs in which one row alone has a label or a value.

    Where scores alone decide, classes may be read off the labels: which is which then changes.
    """
    ways = [True] if votes or not as_loss(loss).classification else [True, False]
    sources = [lone_families(loss, relation, seed, named=named) for named in ways]
    found = [next(source) for source in sources for _ in range(_LONE)]
    return [_with_few_rows(family) for family in found] if votes else found


def _with_few_rows(family: Family) -> Family:
    kept = {i for i, problem in enumerate(family.problems) if problem.n_rows <= _FEW_ROWS}
    pairs = tuple(p for p in family.pairs if kept.issuperset(p))
    return replace(family, pairs=pairs)


def _audited(
    name: str,
    make: Make,
    loss: str,
    relation: str,
    epsilon: float,
    tables: list[Family],
    listed: Laws,
    draws: int,
) -> Finding:
    reports: list[tuple[int, ExactReport]] = []
    for number, family in enumerate(tables):
        if family.pairs:
            problems, places, rows = _compact(family)
            mechanism = make(problems[0], epsilon, relation)
            reports.append((number, exact_pairs(mechanism, problems, places, listed, rows)))
    problem, hardest, report = _hardest(make, tables, epsilon, relation)
    reports.append((-1, report))
    mechanism = make(problem, epsilon, relation)
    promise = mechanism.guarantee(problem)
    return Finding(
        name,
        loss,
        relation,
        sum(report.pairs for _, report in reports),
        promise.epsilon,
        promise.delta,
        max(report.epsilon for _, report in reports),
        max(report.delta for _, report in reports),
        tuple((number, found) for number, report in reports for found in report.violations),
        _followed(mechanism, problem, draws),
        sampled(mechanism, problem, hardest, draws=draws, confidence=0.999, random_state=0),
        replay(mechanism, problem, [hardest, *neighbouring(problem, 10, relation)]),
    )


def _followed(mechanism: Mechanism, problem: Problem, draws: int) -> float:
    """Return the p-value of draws against the distribution; rare outcomes are taken together."""
    law = Laws().of(mechanism, problem)
    try:
        drawn = mechanism.draw(problem, draws, 1).tolist()
    except DpsubsetError:  # a distribution without a draw: told by `replay`
        return 1.0
    # With an open size a support is filled up with -1, and none at all may be chosen.
    counts = Counter(tuple(row) if tuple(row) in law or row[0] != -1 else REFUSAL for row in drawn)
    if set(counts) - set(law):
        return 0.0
    expected = {outcome: draws * math.exp(log) for outcome, log in law.items()}
    usual = [outcome for outcome, value in expected.items() if value >= _EXPECTED]
    seen = [counts[outcome] for outcome in usual]
    mean = [expected[outcome] for outcome in usual]
    rest = draws - math.fsum(mean)
    if rest >= _EXPECTED:
        seen, mean = [*seen, draws - sum(seen)], [*mean, rest]
    statistic = sum((a - b) ** 2 / b for a, b in zip(seen, mean, strict=True))
    return float(chi2.sf(statistic, len(mean) - 1)) if len(mean) > 1 else 1.0


def _compact(
    family: Family,
) -> tuple[list[Problem], list[tuple[int, int]], list[Counter[Any]] | None]:
    """Return the problems that have a pair, the pairs by their new places, and the rows."""
    used = sorted({i for pair in family.pairs for i in pair})
    place = {old: new for new, old in enumerate(used)}
    return (
        [family.problems[i] for i in used],
        [(place[i], place[j]) for i, j in family.pairs],
        None if family.rows is None else [family.rows[i] for i in used],
    )


def _hardest(
    make: Make, tables: list[Family], epsilon: float, relation: str
) -> tuple[Problem, Problem, ExactReport]:
    """Return a problem, the neighbour that the mechanism tells apart best, and their audit."""
    found: list[tuple[Problem, Problem, ExactReport]] = []
    for family in [family for family in tables if family.pairs][:_HARD_LOOKS]:
        problem = _compact(family)[0][0]
        other, report = worst(make(problem, epsilon, relation), problem, starts=2)
        found.append((problem, other, report))
    return max(found, key=lambda entry: (entry[2].delta, entry[2].epsilon))
