"""Exact audits of coded tables, from the raw row on; and twins that must be caught (T33)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsubset import Exponential, PermuteAndFlip, Problem, Schema, Selection
from dpsubset.audit import exact_pairs
from dpsubset.audit.coded import _framed, coded
from dpsubset.audit.lone import RawTable
from dpsubset.data import category, columns
from dpsubset.data.coding import groups_of
from dpsubset.losses import as_loss

SINGLE: dict[str, Any] = {
    "sex": ["b", "c"],
    "age": {"bounds": [0, 99], "missing": 40},
    "dose": [-1, 1],
    "smoker": "0/1",
    "grade": {"ordered": ["low", "mid", "high"], "missing": "low"},
    "visit": {"dates": ["2020-01-01", "2021-01-01"]},
}
BLOCKS: dict[str, Any] = {
    "region": ["north", "south", "west"],
    "party": {"levels": ["b", "c"], "missing": "level"},
    "income": {"bounds": [0, 1], "missing": "indicator"},
    "smoker": {"truth": True, "missing": "indicator"},
    "age": [0, 99],
}
TARGETS: dict[str, Any] = {
    "numbers": {"bounds": [-1, 1]},
    "filled": {"bounds": [-1, 1], "missing": 1},
    "labels": {"classes": ["no", "yes"]},
}
LOSSES = [
    "squared",
    "absolute",
    "quantile:0.8",
    "huber:0.2",
    "brier",
    "hinge",
    "logistic",
    "huber_hinge",
]


EITHER = pytest.mark.parametrize("lines", [SINGLE, BLOCKS], ids=["single", "blocks"])
RELATIONS = pytest.mark.parametrize("relation", ["replace-one", "add-remove"])


def selection(
    lines: dict[str, Any], loss: str, relation: str, target: str | None = None, **more: Any
) -> Selection:
    kind = target or ("labels" if as_loss(loss).classification else "numbers")
    schema = Schema.from_dict({"columns": lines, "target": TARGETS[kind]})
    given = {"size": 2, "radius": 1.5, "ridge": 0.1, "loss": loss, "neighbours": relation} | more
    return Selection(schema=schema, **given)


@pytest.mark.grid(every=7)
@EITHER
@RELATIONS
@pytest.mark.parametrize("loss", LOSSES)
def test_a_selection_by_a_schema_keeps_its_guarantee(
    lines: dict[str, Any], relation: str, loss: str
) -> None:
    found = coded(selection(lines, loss, relation), pairs=90 if relation == "replace-one" else 20)
    assert found.passed, found.report
    assert found.report.epsilon > 0.05  # the rows do matter


@pytest.mark.grid(every=6)
@EITHER
@RELATIONS
@pytest.mark.parametrize("mechanism", ["exponential", "top-r", "stepwise"])
def test_other_mechanisms_keep_theirs(lines: dict[str, Any], relation: str, mechanism: str) -> None:
    more = {"count": 2} if mechanism == "top-r" else {}
    asked = selection(lines, "squared", relation, mechanism=mechanism, **more)
    assert coded(asked, pairs=20).passed


@RELATIONS
def test_a_target_that_may_be_missing_keeps_the_guarantee(relation: str) -> None:
    for target in ("numbers", "filled"):
        assert coded(selection(SINGLE, "huber:0.2", relation, target), pairs=20).passed


# Twins -------------------------------------------------------------------------------------------


def test_a_level_list_read_from_the_table_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row with another level gives all others another code."""
    honest = category.level_codes

    def found(cells: Any, levels: Any) -> Any:
        there = set(cells.to_list()) - {None, "", "NA"}
        seen = sorted(there)[: len(levels)]
        return honest(cells, [*seen, *(f"more {j}" for j in range(len(levels) - len(seen)))])

    asked = selection(SINGLE | {"sex": ["a", "b"]}, "squared", "replace-one")
    assert coded(asked, pairs=180, others=2).passed
    monkeypatch.setattr(category, "level_codes", found)
    assert coded(asked, pairs=180, others=2).moved > 1


def test_imputation_by_the_mean_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = columns.OneNumber._filled

    def imputed(self: Any, cells: Any, clip: float) -> Any:
        numbers, marked = honest(self, cells, clip)
        gone = np.isnan(self.numbers(cells))
        mean = numbers[~gone].mean() if (~gone).any() else 0.0
        return np.where(gone, mean, numbers), marked

    lines = {name: SINGLE[name] for name in ("age", "dose")}
    asked = selection(lines, "absolute", "replace-one", size=1, radius=5.0, intercept=False)
    assert coded(asked, pairs=90, others=24).passed
    monkeypatch.setattr(columns.OneNumber, "_filled", imputed)
    found = coded(asked, pairs=90, others=24)
    assert found.moved > 1
    assert not found.passed


PULLED: dict[str, Any] = {  # two columns that explain labels alike, and two rows that part them
    "single": ({"sex": ["b", "c"], "smoker": "0/1"}, ("c", "1"), ("c", "0"), ("b", "1")),
    "blocks": (
        {"region": ["n", "s", "w"], "income": {"bounds": [0, 1], "missing": "indicator"}},
        *(("n", "1"), ("n", "0"), ("s", "1")),
    ),
}


@pytest.mark.parametrize("kind", ["single", "blocks"])
def test_codes_of_norm_two_are_caught(kind: str) -> None:
    """Twice the numbers, with the sensitivity of the honest ones; which are nearly attained."""
    lines, pull, *parting = PULLED[kind]

    class Twice(Problem):
        def sensitivity(self, rule: str = "tight", reach: float | None = None) -> float:
            return super().sensitivity(rule, self.radius * np.sqrt(self.size))

    asked = selection(lines, "logistic", "replace-one", size=1, intercept=False, ridge=0.0)
    lead = (pull[0], "2" if kind == "single" else "0.5")  # puts the first column ahead
    rest = [pull] * 200 + [lead] * 40
    tables = [RawTable((*rest, row), ("yes",) * len(rest) + ("no",)) for row in parting]
    honest = [asked.problem(_framed(asked, table)) for table in tables]
    shape = {"size": 1, "x_bound": 2.0, "radius": 1.5, "loss": "logistic", "classes": (-1, 1)}
    groups = groups_of(asked.schema.columns or ())
    doubled = [
        Twice(2.0 * p.design.take(np.arange(p.design.n_columns)), p.y, groups=groups, **shape)
        for p in honest
    ]
    rows = [table.rows() for table in tables]
    good = exact_pairs(Exponential(1.0), honest, [(0, 1)], rows=rows)
    assert good.passed
    assert good.epsilon > (0.95 if kind == "single" else 0.7)  # what the coding costs is spent
    assert not exact_pairs(Exponential(1.0), doubled, [(0, 1)], rows=rows).passed


def test_a_count_of_rows_without_targets_would_be_caught() -> None:
    """Rows without a target are no rows of the offset's ranks, and neighbours stay neighbours."""
    from dpsubset.data.frames import Table
    from dpsubset.mechanisms.offset import PrivateOffset

    asked = selection({"age": [0, 1]}, "absolute", "replace-one", size=1)
    targets = [["1"] * 9 + [last] for last in ("1", "-1", None)] + [[None] * 10]
    import polars as pl

    problems = [
        asked.problem(Table(pl.DataFrame({"age": ["0.5"] * len(t)}), pl.Series(t, dtype=pl.String)))
        for t in [*targets, [None], ["1"] * 9]
    ]
    laws = [PrivateOffset(1.0, "replace-one").probabilities(p)[1] for p in problems]
    for i in range(3):
        for j in range(i):
            assert np.abs(laws[i] - laws[j]).max() <= 1.0 + 1e-9
    np.testing.assert_allclose(laws[3], laws[4])  # all missing: nothing but the prior is known
    np.testing.assert_allclose(laws[2], laws[5])  # a row without a target drags nowhere
    assert np.abs(laws[2] - laws[3]).max() > 0.5


def test_all_targets_missing_is_a_defined_result() -> None:
    import polars as pl

    from dpsubset.data.frames import Table

    for loss in LOSSES:
        asked = selection(SINGLE, loss, "add-remove")
        cells = pl.DataFrame({name: pl.Series(["1"] * 6) for name in SINGLE})
        problem = asked.problem(Table(cells, pl.Series([None] * 6, dtype=pl.String)))
        _, logs = PermuteAndFlip(1.0).probabilities(problem)
        np.testing.assert_allclose(logs, logs[0], atol=1e-9)  # every support alike
