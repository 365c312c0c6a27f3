"""The audits of others find what they say, and nothing in the same place where it is done right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.audits_of_others import Case, cases, kendall_scores, rows_of
from dpsubset import Kendall
from dpsubset.audit import sampled


def case(word: str) -> Case:
    return next(one for one in cases() if word in one.name)


def audited(one: Case, draw: Any = None) -> Any:
    return sampled(
        draw or one.draw,
        *one.tables,
        draws=20_000,
        confidence=0.99,
        random_state=0,
        epsilon=one.epsilon,
        delta=one.delta,
    )


@pytest.mark.parametrize("word", ["scikit-learn", "DPKendall", "as published; distances"])
def test_a_violation_is_found(word: str) -> None:
    assert audited(case(word)).epsilon > 1.5 * case(word).epsilon


def test_nothing_is_found_where_the_noise_is_right() -> None:
    assert audited(case("scale 2/epsilon")).passed


@pytest.mark.slow
def test_our_kendall_keeps_its_promise_on_the_same_pair() -> None:
    one = case("DPKendall")

    def draw(problem: Any, count: int, rng: Any) -> Any:
        made = Kendall(1.0, neighbours="add-remove").draw(problem, count, rng)
        return [int(j) for j in made[:, 0]]

    assert audited(one, draw).passed


def test_tau_b_moves_by_far_more_than_three_halves() -> None:
    before, after = (kendall_scores(*rows_of(table)) for table in case("DPKendall").tables)
    assert np.abs(before - after).max() > 10
