"""All audits of all mechanisms: what `dpsubset audit` runs, on made-up tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.audit.exact import ExactReport, Laws, Violation, exact_pairs
from dpsubset.audit.replay import ReplayReport, replay
from dpsubset.audit.sampled import SampledReport, sampled
from dpsubset.audit.tables import Family, families, neighbouring
from dpsubset.audit.worst import worst
from dpsubset.checks import whole
from dpsubset.errors import InputError
from dpsubset.mechanisms import (
    Exponential,
    LassoStability,
    Mechanism,
    Mistakes,
    PermuteAndFlip,
    SampleAggregate,
    TopR,
)
from dpsubset.privacy import NEIGHBOURS
from dpsubset.problem import Problem

__all__ = ["AUDITED", "LOSSES", "Finding", "campaign"]

LOSSES = ("squared", "absolute", "quantile:0.8", "huber", "hinge", "logistic", "huber_hinge")
_DELTA = 0.01  # large, so that tests pass now and then on small tables
_FEW_ROWS = 4  # for laws that average over all partitions of the rows
_HARD_LOOKS = 3  # problems whose worst neighbour is looked for

Make = Callable[[Problem, float, str], Mechanism]


def heaviest(X: Floats, y: Floats, count: int) -> Iterable[int]:
    """Choose the columns that alone explain most: a quick selector for blocks of rows."""
    return [int(j) for j in np.argsort(-np.abs(X.T @ y), kind="stable")[:count]]


def _half(problem: Problem) -> int:
    return max(2, problem.n_supports // 2)


AUDITED: dict[str, Make] = {
    "permute-and-flip": lambda q, e, r: PermuteAndFlip(e, neighbours=r),
    "exponential": lambda q, e, r: Exponential(e, neighbours=r),
    "top-r": lambda q, e, r: TopR(e, count=_half(q), neighbours=r),
    "top-r, 3 trials": lambda q, e, r: TopR(e, count=2, trials=3, accounting="sharp", neighbours=r),
    "mistakes, tested": lambda q, e, r: Mistakes(e, delta=_DELTA, neighbours=r),
    "mistakes, else exponential": lambda q, e, r: Mistakes(
        e, delta=_DELTA, otherwise="exponential", neighbours=r
    ),
    "sample-aggregate": lambda q, e, r: SampleAggregate(
        e, blocks=2, selector=heaviest, neighbours=r
    ),
    "lasso-stability": lambda q, e, r: LassoStability(
        e, _DELTA, blocks=3, selector=heaviest, neighbours=r
    ),
}


@dataclass(frozen=True)
class Finding:
    """All audits of one mechanism with one loss under one relation."""

    mechanism: str
    loss: str
    neighbours: str
    pairs: int
    epsilon: float  # claimed
    delta: float
    largest: float  # log ratio found
    beyond: float  # mass beyond epsilon found
    violations: tuple[tuple[int, Violation], ...]  # with the number of its family; -1: the worst
    sampled: SampledReport
    replayed: ReplayReport

    @property
    def passed(self) -> bool:
        """Whether no audit contradicts the promise."""
        return not self.violations and self.sampled.passed and self.replayed.passed


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

    >>> found = list(campaign(["exponential"], ["squared"], ["replace-one"], pairs=100))
    >>> found[0].pairs, found[0].passed
    (133, True)
    """
    known = AUDITED | (made or {})
    for name in mechanisms:
        if name not in known:
            raise InputError(f"unknown mechanism {name!r}; allowed: {', '.join(known)}")
    pairs = whole(pairs, "pairs", 1)
    for loss, relation in itertools.product(losses, relations):
        listed = Laws()  # scores are computed once for all mechanisms
        tables = {kind: _tables(loss, relation, pairs, seed, kind) for kind in _kinds(mechanisms)}
        for name in mechanisms:
            chosen = tables[_kind(name)]
            yield _audited(
                name, known[name], loss, relation, epsilon, chosen, listed, whole(draws, "draws", 2)
            )


def _kind(name: str) -> str:
    """Return which tables an audit needs to have teeth, or to be feasible."""
    if name.startswith("mistakes"):
        return "wide"
    return "few rows" if name in ("sample-aggregate", "lasso-stability") else "small"


def _kinds(names: Iterable[str]) -> set[str]:
    return {_kind(name) for name in names}


def _tables(loss: str, relation: str, pairs: int, seed: int, kind: str) -> list[Family]:
    """Return families with at least so many pairs in all."""
    sources = [families(loss, relation, seed)]
    if kind == "wide":
        sources.append(families(loss, relation, seed, wide=True))
    taken: list[Family] = []
    for source in itertools.cycle(sources):
        family = next(source)
        if kind == "few rows":
            family = _with_few_rows(family)
        taken.append(family)
        if sum(len(family.pairs) for family in taken) >= pairs:
            return taken
    raise AssertionError  # pragma: no cover


def _with_few_rows(family: Family) -> Family:
    kept = {i for i, problem in enumerate(family.problems) if problem.n_rows <= _FEW_ROWS}
    return Family(family.problems, tuple(p for p in family.pairs if kept.issuperset(p)))


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
    violations: list[tuple[int, Violation]] = []
    count, largest, beyond = 0, 0.0, 0.0
    mechanism: Any = None
    for number, family in enumerate(tables):
        if not family.pairs:
            continue
        problems, places = _compact(family)
        mechanism = make(problems[0], epsilon, relation)
        report = exact_pairs(mechanism, problems, places, listed)
        violations += [(number, violation) for violation in report.violations]
        count += report.pairs
        largest, beyond = max(largest, report.epsilon), max(beyond, report.delta)
    problem, hardest, report = _hardest(make, tables, epsilon, relation)
    violations += [(-1, violation) for violation in report.violations]
    count, largest = count + 1, max(largest, report.epsilon)
    beyond = max(beyond, report.delta)
    mechanism = make(problem, epsilon, relation)
    promise = mechanism.guarantee(problem)
    return Finding(
        name,
        loss,
        relation,
        count,
        promise.epsilon,
        promise.delta,
        largest,
        beyond,
        tuple(violations),
        sampled(mechanism, problem, hardest, draws=draws, confidence=0.999, random_state=0),
        replay(mechanism, problem, [hardest, *neighbouring(problem, 10, relation)]),
    )


def _compact(family: Family) -> tuple[list[Problem], list[tuple[int, int]]]:
    """Return the problems that have a pair, and the pairs by their new places."""
    used = sorted({i for pair in family.pairs for i in pair})
    place = {old: new for new, old in enumerate(used)}
    return [family.problems[i] for i in used], [(place[i], place[j]) for i, j in family.pairs]


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
