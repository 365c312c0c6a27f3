from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tiers import sample, value

AXES = {"loss": "abcdef", "relation": "rq", "size": range(3), "seed": range(4)}
GRID: list[Any] = [dict(zip(AXES, case, strict=True)) for case in product(*AXES.values())]


def values(cases: Any) -> set[Any]:
    return {item for case in cases for item in case.items()}


@pytest.mark.parametrize("of", [2, 3, 4, 6, 12, 24])
def test_a_thinned_grid_shows_every_value_of_every_axis(of: int) -> None:
    run, quick = sample(GRID, 4, of)
    assert len(run) == len(GRID) // of
    assert len(quick) == -(-len(run) // 4)
    assert set(quick) <= set(run)
    assert values(GRID[i] for i in run) == values(GRID)
    assert of < 12 or values(GRID[::of]) != values(GRID)  # a stride would not


@pytest.mark.parametrize("every", [2, 6, 24])
def test_the_first_tier_shows_every_value_where_it_can(every: int) -> None:
    run, quick = sample(GRID, every)
    assert run == list(range(len(GRID)))
    assert len(quick) == len(GRID) // every
    assert values(GRID[i] for i in quick) == values(GRID)


def test_pairs_of_values_come_up_next() -> None:
    run, _ = sample(GRID, 1, 4)
    met = {(GRID[i]["loss"], GRID[i]["seed"]) for i in run}
    assert met == set(product(AXES["loss"], AXES["seed"]))
    again, _ = sample(GRID, 1, 1)
    assert len(set(again)) == len(GRID)


def test_values_come_up_equally_often() -> None:
    cases = [{"name": name, "relation": r} for name in range(14) for r in "rq"]
    run, first = sample(cases, 2, 2)
    assert sum(cases[i]["relation"] == "r" for i in run) == 7
    assert {cases[i]["name"] for i in run} == set(range(14))
    assert 3 <= sum(cases[i]["relation"] == "r" for i in first) <= 4


def test_a_long_axis_is_not_cut() -> None:
    cases = [{"index": i, "solver": i % 2} for i in range(30)]
    assert sample(cases, 5, 3)[0] == list(range(30))


def test_values_are_told_apart() -> None:
    def check() -> None: ...

    assert value("a") == value("a") != value("b")
    assert value(check) == value(check) != value(sample)
    one, other = object(), object()
    assert value(one) == value(one) != value(other)
