"""Draws where cuts are sharpened on the way (T11c) against the law, by chi-square.

Fixed seeds, a false-alarm rate of 1e-4, and a twin whose diagonal is too large.
"""

from __future__ import annotations

import numpy as np
import pytest
from oracle import Case, chi_square, counts_of, exponential_law, race_law

import dpsubset.sampling
from dpsubset import Exponential, PermuteAndFlip, Problem
from dpsubset.cuts.curvature import SparseDiagonal
from dpsubset.cuts.moments import MomentCuts
from dpsubset.sampling import drawing

FALSE_ALARM = 1e-4


@pytest.fixture(autouse=True)
def _sharpened_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep lists and coverings out, and let every problem be taken for a wide one."""
    monkeypatch.setattr(dpsubset.sampling, "ENUMERATION_LIMIT", 0)
    monkeypatch.setattr(drawing, "_COLUMNS", 0)
    monkeypatch.setattr(drawing, "_REFINED", 0)
    monkeypatch.setattr(drawing, "_REFINED_DULL", 0)
    monkeypatch.setattr(drawing, "sparse_affordable", lambda problem: True)


def case_of(loss: str) -> Case:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (60, 9))
    y = X[:, :6] @ np.array([0.3, -0.3, 0.3, 0.3, -0.3, 0.3]) + 0.1 * rng.standard_normal(60)
    y = np.sign(y) if loss == "logistic" else np.clip(y, -1, 1)
    return Case("plain", X, y, 4, 1.0, 1.0, 1.5, 0.5, (8,), loss=loss)


def p_value(monkeypatch: pytest.MonkeyPatch, loss: str, racing: bool) -> tuple[float, list[bool]]:
    """Return the p-value of many draws, and what came of every sharpening."""
    case = case_of(loss)
    scores, problem = case.scores(), Problem(case.X, case.y, **case.arguments())
    kappa = 8.0 / float(np.ptp(scores))
    epsilon = 2 * kappa * problem.sensitivity()
    mechanism = PermuteAndFlip(epsilon) if racing else Exponential(epsilon)
    law = race_law(scores, kappa) if racing else exponential_law(scores, kappa)
    seen: list[bool] = []
    sharpen = MomentCuts.sharpen

    def watched(self: MomentCuts) -> bool:
        seen.append(sharpen(self))
        return seen[-1]

    monkeypatch.setattr(MomentCuts, "sharpen", watched)
    draws = mechanism.draw(problem, 2000, random_state=1)
    found, cells = chi_square(counts_of(draws, case.supports()), law)
    assert cells >= 5
    return found, seen


@pytest.mark.parametrize("racing", [False, True])
@pytest.mark.parametrize("loss", ["squared", "huber:0.3", "logistic"])
def test_draws_match_the_law(monkeypatch: pytest.MonkeyPatch, loss: str, racing: bool) -> None:
    found, seen = p_value(monkeypatch, loss, racing)
    assert seen == [True]
    assert found >= FALSE_ALARM


@pytest.mark.parametrize("racing", [False, True])
def test_a_diagonal_too_large_is_caught(monkeypatch: pytest.MonkeyPatch, racing: bool) -> None:
    """Twin: envelopes that are too light change the distribution."""
    monkeypatch.setattr(
        "dpsubset.cuts.moments.sparse_diagonal",
        lambda problem: SparseDiagonal(1e6 * problem.gram.diagonal, np.empty((9, 0))),
    )
    found, seen = p_value(monkeypatch, "squared", racing)
    assert seen == [True]
    assert found < FALSE_ALARM
