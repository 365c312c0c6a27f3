"""Before anything is spent, settings that may take long on some tables are named."""

import numpy as np
import pytest

from dpsubset.data.frames import Table
from dpsubset.data.schema import Schema
from dpsubset.data.target import Target
from dpsubset.duration import expected
from dpsubset.selection import Selection


def words(rows: int, columns: int = 60, **options) -> str | None:
    schema = Schema.of(None, columns, (-1, 1), Target((-1.0, 1.0)))
    selection = Selection(schema=schema, **options)
    return selection.slow(selection.problem(Table(np.zeros((rows, columns)), np.zeros(rows))))


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (20, {}),
        (2000, {"epsilon": 1.0, "loss": "absolute"}),
        (2000, {"epsilon": 3.0, "loss": "squared", "size": 8}),
        (2000, {"epsilon": 3.0, "size": 8, "loss": "huber:0.2"}),
        (5000, {"epsilon": 3.0, "size": 8}),
        (20, {"epsilon": 3.0, "loss": "absolute"}),
        (20_000, {"epsilon": 10.0, "size": 8, "loss": "absolute", "mechanism": "stepwise"}),
        (20_000, {"epsilon": 10.0, "size": 8, "loss": "absolute", "columns": 9}),  # 9 sets
    ],
)
def test_easy_settings_are_not_named(rows: int, options: dict) -> None:
    assert words(rows, **options) is None


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (20_000, {"epsilon": 10.0, "size": 8, "loss": "absolute", "row_ridge": 0.0}),
        (50_000, {"epsilon": 10.0, "size": 10, "loss": "absolute"}),
        (50_000, {"epsilon": 10.0, "size": 10, "loss": "huber:0.2", "columns": 500}),
        (
            20_000,
            {"epsilon": 10.0, "size": 8, "loss": "quantile:0.9", "row_ridge": 0.0}
            | {"mechanism": "exponential"},
        ),
        (200, {"epsilon": 10.0, "size": 8, "loss": "squared", "columns": 100_000}),
    ],
)
def test_hard_settings_are_named_with_a_way_out(rows: int, options: dict) -> None:
    told = words(rows, **options)
    assert told is not None
    assert "stepwise" in told
    assert "on most tables" in told
    assert ("row_ridge" in told) == ("row_ridge" in options)


def test_the_words_do_not_tell_how_many_rows_there_are() -> None:
    """Under add-remove the number of rows is private."""
    options = {"epsilon": 10.0, "size": 8, "loss": "absolute", "neighbours": "add-remove"}
    options |= {"columns": 200}
    assert words(20, **options) == words(2000, **options)
    assert words(20, **options) is not None


def test_more_of_everything_takes_longer() -> None:
    few = expected("bent", 1000, 50, 5, 1.0, 10**12)
    for more in (
        expected("bent", 10_000, 50, 5, 1.0, 10**12),
        expected("bent", 1000, 500, 5, 1.0, 10**12),
        expected("bent", 1000, 50, 8, 1.0, 10**12),
        expected("bent", 1000, 50, 5, 10.0, 10**12),
    ):
        assert more.usual > few.usual
        assert more.long > few.long > few.usual
    assert expected("bent", 1000, 50, 5, 1.0, 1).long < few.usual
