"""A private window of the target: its law, its privacy, and selections within it (T44)."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from oracle import chi_square
from typer.testing import CliRunner

from dpsubset import Problem, Schema, SubsetRegressor, SubsetSelector
from dpsubset.cli import app
from dpsubset.data import Table
from dpsubset.data.target import Target
from dpsubset.errors import InputError
from dpsubset.first_draws import FirstDraws
from dpsubset.mechanisms import window as window_module
from dpsubset.mechanisms.target_bounds import TargetBounds
from dpsubset.mechanisms.window import LEAST_HALF, TargetWindow
from dpsubset.privacy import as_randomness
from dpsubset.selection import Selection

RELATIONS = ("replace-one", "add-remove")
FALSE_ALARM = 1e-6
VALUES = (-1.0, -0.31, 0.0, 0.07, 1.0)


def tables(n: int) -> list[tuple[float, ...]]:
    return [tuple(sorted(t)) for t in set(map(tuple, map(sorted, product(VALUES, repeat=n))))]


def neighbours(relation: str, y: tuple[float, ...]) -> list[tuple[float, ...]]:
    less = [y[:i] + y[i + 1 :] for i in range(len(y))]
    if relation == "add-remove":
        return less
    return [(*rest, value) for rest in less for value in VALUES]


def worst_ratio(relation: str, epsilon: float) -> float:
    """Return the largest log ratio of any pair of cells over all neighbours of up to 4 rows."""
    window = TargetWindow(epsilon, relation)

    def law(y: tuple[float, ...]) -> Any:
        return window.probabilities(np.array(y))

    worst = 0.0
    for n in (1, 2, 3, 4):
        for y in tables(n):
            ours = law(y)
            for other in neighbours(relation, y):
                theirs = law(other)
                worst = max(
                    worst,
                    sum(float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True)),
                )
    return worst


@pytest.mark.parametrize("relation", RELATIONS)
def test_windows_are_private(relation: str) -> None:
    worst = worst_ratio(relation, 1.0)
    assert 0.5 < worst <= 1.0 + 1e-12


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_window_of_twice_the_exponent_is_caught(monkeypatch, relation: str) -> None:
    monkeypatch.setattr(TargetBounds, "_sensitivity", lambda self: 0.4)
    assert worst_ratio(relation, 1.0) > 1.0 + 1e-9


def test_draws_follow_the_law() -> None:
    window = TargetWindow(2.0, "replace-one")
    y = np.array([-0.5, -0.1, 0.0, 0.02, 0.3, 0.9])
    low, high = (np.exp(law) for law in window.probabilities(y))
    expected: dict[tuple[float, float], float] = {}
    for i, j in product(range(low.size), range(high.size)):
        ends = window._between(i, j)
        expected[ends] = expected.get(ends, 0.0) + float(low[i] * high[j])
    randomness = as_randomness(1)
    draws = [window.draw(y, randomness) for _ in range(4000)]
    likely = [ends for ends, chance in expected.items() if chance > 2e-3]
    counts = np.array([draws.count(ends) for ends in likely])
    law = np.array([expected[ends] for ends in likely])
    counts, law = np.append(counts, 4000 - counts.sum()), np.append(law, 1 - law.sum())
    assert chi_square(counts, np.log(law))[0] >= FALSE_ALARM
    wrong = np.roll(law, 1)
    assert chi_square(counts, np.log(wrong))[0] < FALSE_ALARM  # other chances are caught


def test_every_window_is_wide_enough_and_within_the_bounds() -> None:
    window = TargetWindow(1.0, "replace-one")
    for i, j in product(range(0, 200, 7), repeat=2):
        low, high = window._between(i, j)
        assert -1.0 <= low < high <= 1.0
        assert high - low >= LEAST_HALF - 1e-12
        assert low <= window_module._CELLS[min(i, j)] + 1e-12 or low == -1.0
        assert window._between(j, i) == (low, high)


def made(**options: Any) -> Selection:
    schema = Schema.of(("a", "b", "c"), 3, (-1, 1), Target((0.0, 1000.0)))
    return Selection(**{"schema": schema, "size": 1, "seed": 0, **options})


def table(rows: int = 4000) -> Table:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (rows, 3))
    return Table(X, 100 + 10 * X[:, 1] + rng.normal(size=rows))


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_default_selects_within_a_window(relation: str) -> None:
    selection = made(epsilon=2.0, neighbours=relation)
    release = selection.release(table())
    assert release.columns == ("b",)
    share = 0.025 if relation == "replace-one" else 0.1
    assert release.asked["window_share"] == share
    assert release.asked["loss"] == "squared"
    low, high = release.target_bounds
    assert 0.0 <= low < 100 < high < 300
    assert release.guarantee.epsilon == 2.0


def test_a_narrow_window_finds_what_wide_bounds_hide() -> None:
    """The target has a hundredth of its bounds: without a window a row's say is too large."""
    rows = table(2500)

    def hits(share: float) -> int:
        found = [
            made(loss="squared", window_share=share, seed=k).release(rows).columns
            for k in range(20)
        ]
        return found.count(("b",))

    assert hits(0.2) >= 19
    assert hits(0) <= 15


def test_shares_and_their_rule() -> None:
    assert made(loss="huber:0.2").window_share == 0.0
    assert made(loss="huber:0.2").radius == 0.5
    assert made(window_share="0.25").window_share == 0.25
    assert made(mechanism="markov-chain").window_share == 0.0
    assert made(loss="squared", window_share="auto").settled(100).window_share == 0.1
    assert made().settled(40_000).window_share == 0.005
    assert made().settled(10**9).window_share == 0.001


@pytest.mark.parametrize(
    ("epsilon", "rows", "loss", "radius", "share"),
    [
        (1.0, 999, "huber:0.2", 0.5, 0.0),
        (1.0, 1000, "squared", 1.0607, 0.1),
        (0.1, 9_999, "huber:0.2", 0.5, 0.0),
        (10.0, 500, "squared", 1.0607, 0.04),
    ],
)
def test_the_default_depends_on_rows_and_budget(
    epsilon: float, rows: int, loss: str, radius: float, share: float
) -> None:
    settled = made(epsilon=epsilon).settled(rows)
    assert (settled.loss, settled.radius, settled.window_share) == (loss, radius, share)
    assert settled.settled(10**6) is settled
    assert made(epsilon=epsilon, radius=2.0).settled(rows).radius == 2.0
    again = Selection.from_dict(made(epsilon=epsilon).to_dict()).settled(rows)
    assert again.asked() == settled.asked()


def test_where_rows_are_private_the_default_does_not_look_at_them() -> None:
    selection = made(neighbours="add-remove")
    assert selection.settled(10).asked() == selection.settled(10**6).asked()
    assert selection.settled(10).loss == "squared"


@pytest.mark.parametrize("share", [1.0, -0.1, "half", True, math.nan])
def test_bad_shares_are_refused(share: Any) -> None:
    with pytest.raises(InputError, match=r"window_share must be 0 \(no window\) or a number below"):
        made(window_share=share)


def test_windows_are_refused_where_they_have_no_place() -> None:
    labels = Schema.of(("a",), 1, (-1, 1), Target(None, ("no", "yes")))
    with pytest.raises(InputError, match="is for a target of numbers"):
        Selection(schema=labels, size=1, loss="logistic", window_share=0.1)
    with pytest.raises(InputError, match="has a condition on the table"):
        made(mechanism="mistakes", loss="squared", window_share=0.1)
    with pytest.raises(InputError, match="looks at no scores"):
        made(mechanism="sample-aggregate", loss="squared", window_share=0.1)


@pytest.mark.parametrize("kind", [SubsetSelector, SubsetRegressor])
def test_estimators_take_it(kind: Any) -> None:
    rows = table()
    model = kind(
        n_features_to_select=1,
        bounds_X=(-1, 1),
        bounds_y=(0, 1000),
        epsilon=4.0,
        window_share=0.1,
        random_state=0,
    ).fit(rows.X, rows.y)
    assert model.get_support(indices=True).tolist() == [1]
    assert "window" in model.guarantee_.mechanism


def test_command_estimator_and_selection_release_the_same(tmp_path: Path) -> None:
    rows = table()
    names = ("a", "b", "c")
    frame = pl.DataFrame(rows.X, schema=list(names)).with_columns(y=pl.Series(rows.y))
    frame.write_csv(tmp_path / "t.csv")
    (tmp_path / "b.toml").write_text(
        "[columns]\na = [-1, 1]\nb = [-1, 1]\nc = [-1, 1]\ny = [0, 1000]\n"
    )
    words = ["select", tmp_path / "t.csv", "--target", "y", "--bounds", tmp_path / "b.toml"]
    words += ["--size", 1, "--seed", 0, "--json"]
    told = json.loads(CliRunner().invoke(app, [str(word) for word in words]).stdout)
    chosen = SubsetSelector(
        n_features_to_select=1, bounds_X=(-1, 1), bounds_y=(0, 1000), random_state=0
    ).fit(frame.select(names), frame["y"])
    ours = made(epsilon=1.0).release(rows)
    assert told["released"]["columns"] == ["b"] == list(ours.columns)
    windows = [told["released"]["target_bounds"], [*chosen.release_.target_bounds]]
    assert windows == [[*ours.target_bounds]] * 2
    assert told["asked"]["window_share"] == ours.asked["window_share"] == 0.05
    assert told["guarantee"]["epsilon"] == 1.0


def test_rows_without_a_target_do_not_count() -> None:
    """What stands in the place of a missing target changes nothing; it stays a row of zeros."""
    rng = np.random.default_rng(5)
    X, y = rng.uniform(-1, 1, (60, 3)), rng.uniform(-0.3, 0.3, 60)
    present = np.arange(60) % 3 > 0
    first = FirstDraws(None, TargetWindow(1.0, "replace-one"), None, (-1.0, 1.0), 1.0)

    def seen(target: Any, there: Any) -> Any:
        options = {"size": 1, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
        problem = Problem(X, target, present=there, **options)
        return first.windowed(problem, (-1.0, 1.0), as_randomness(2))

    (ends, one), (same, other) = seen(y, present), seen(np.where(present, y, 0.9), present)
    assert ends == same
    assert np.array_equal(one.y, other.y)
    assert not one.y[~present].any()
    everything, _ = seen(np.where(present, y, 0.9), None)
    assert everything != ends  # as rows that count they would move the window
