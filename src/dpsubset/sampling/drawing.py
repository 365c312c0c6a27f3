"""Which sampler serves a problem: a covering by bounds, or a partition by envelopes."""

from __future__ import annotations

from collections.abc import Callable

from dpsubset import sampling
from dpsubset.cuts import cut_maker
from dpsubset.cuts.minorant import bends
from dpsubset.cuts.region import root
from dpsubset.cuts.start import start
from dpsubset.limits import Allowance, Limits
from dpsubset.problem import Problem
from dpsubset.sampling.covering import Covering
from dpsubset.sampling.partition import Partition, TooHard
from dpsubset.sampling.probe import Probe
from dpsubset.sampling.pieces import RandomSource, Support
from dpsubset.sampling.race import draw_proportional, draw_race

__all__ = ["Draw", "proportional", "race"]

_COLUMNS = 400  # that a covering walks over at most
_ALL_KEPT = 200_000  # supports that a covering takes at once
_REFINED = 12  # refinements of a partition before a covering is tried
_ROWS = 2e9  # multiplications for its first moments

Draw = Callable[[RandomSource], Support]


def proportional(problem: Problem, kappa: float, limits: Limits | None = None) -> Draw:
    """Prepare draws with probability proportional to exp(-kappa R(S)) (T14)."""
    made = _made(problem, kappa, Allowance(limits), draw_proportional)
    if isinstance(made, Covering):
        return made.proportional
    return lambda source: draw_proportional(made, source)


def race(problem: Problem, kappa: float, limits: Limits | None = None) -> Draw:
    """Prepare draws of the support whose clock rings first (T15)."""
    made = _made(problem, kappa, Allowance(limits), draw_race)
    if isinstance(made, Covering):
        return made.race
    return lambda source: draw_race(made, source)


def _made(
    problem: Problem,
    kappa: float,
    allowance: Allowance,
    draw: Callable[[Partition, RandomSource], Support],
) -> Covering | Partition:
    """Return a covering where what it does not keep is light, else a partition."""
    problem = problem.within(allowance)
    k, n = problem.free.size, problem.n_rows
    maker = cut_maker(problem)
    short = problem.n_supports <= sampling.ENUMERATION_LIMIT
    listed = short and maker.listable(root(problem))
    few = 2 <= problem.to_choose < k <= _COLUMNS and n * problem.n_columns**2 <= _ROWS
    walkable = few and bends(problem) and not listed
    probe, racing = Probe(), draw is draw_race
    if walkable and problem.n_supports <= _ALL_KEPT:
        return Covering(problem, kappa, allowance, start(maker), probe, racing)
    partition = Partition(problem, kappa, allowance, maker)
    if not walkable:
        return partition
    try:
        with partition.at_most(_REFINED):  # what they bring is of use later, too
            draw(partition, probe)
    except TooHard:
        covering = Covering(problem, kappa, allowance, start(maker), probe, racing)
        if covering.settled:
            return covering
    return partition
