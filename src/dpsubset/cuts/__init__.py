"""Cuts: lower bounds on the scores of a region of supports, one kind for search and sampling."""

from __future__ import annotations

from dpsubset.cuts.bending import BendingCuts
from dpsubset.cuts.cut import Cut, CutMaker
from dpsubset.cuts.dual import DualCuts
from dpsubset.cuts.moments import MomentCuts
from dpsubset.problem import Problem

__all__ = ["Cut", "CutMaker", "cut_maker"]


def cut_maker(problem: Problem, *, hard: bool = False) -> CutMaker:
    """Return who makes the cuts of a problem: by moments if its loss is squared, by fits else.

    For a problem known to be hard it is prepared from the start.
    """
    if problem.quadratic:
        return MomentCuts(problem, hard=hard)
    return BendingCuts(problem) if problem.loss.bends else DualCuts(problem)
