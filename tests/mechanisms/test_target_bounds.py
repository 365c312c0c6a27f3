"""T37: bounds of the target, privately; their law, their guarantee, and what they release."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import chisquare
from typer.testing import CliRunner

from dpsubset import Ledger, PermuteAndFlip, SubsetClassifier, SubsetRegressor, SubsetSelector
from dpsubset.cli import app
from dpsubset.data.frames import Table
from dpsubset.data.schema import Schema
from dpsubset.data.target import ANY, Target
from dpsubset.errors import InputError
from dpsubset.mechanisms.target_bounds import GRID, TargetBounds, between, rank_misses
from dpsubset.model import Model
from dpsubset.privacy import as_randomness
from dpsubset.selection import Selection

RELATIONS = ("replace-one", "add-remove")


def laws_of(y: np.ndarray, epsilon: float, neighbours: str) -> list[np.ndarray]:
    """Return the log probabilities of both quantiles, row by row and number by number."""
    moves = 1.0 if neighbours == "replace-one" else 0.75
    laws = []
    for q in (0.25, 0.75):
        scores = []
        ends = [-math.inf, *GRID.tolist()[1:-1], math.inf]
        for left, right in itertools.pairwise(ends):
            below, above = sum(v < left for v in y), sum(v >= right for v in y)
            scores.append(max(0.0, below - q * len(y), above - (1 - q) * len(y)))
        logs = -(epsilon / 2) / (2 * moves) * np.array(scores)
        laws.append(logs - logsumexp(logs))
    return laws


def targets(n: int, rng: np.random.Generator) -> np.ndarray:
    scale = 10.0 ** rng.integers(-2, 8)
    return scale * np.round(rng.standard_cauchy(n), 1)


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_draws_follow_the_enumerated_distribution(neighbours: str) -> None:
    y = np.random.default_rng(3).normal(20.0, 30.0, 60)
    private = TargetBounds(3.0, neighbours)
    laws = private.probabilities(y)
    for law, known in zip(laws, laws_of(y, 3.0, neighbours), strict=True):
        assert law.tolist() == pytest.approx(known.tolist(), abs=1e-9)
    randomness = as_randomness(1)
    drawn = Counter(private.draw(y, randomness) for _ in range(4000))
    expected: Counter[tuple[float, float]] = Counter()
    for i, j in itertools.product(range(len(GRID) - 1), repeat=2):
        expected[between(i, j)] += 4000 * math.exp(laws[0][i] + laws[1][j])
    usual = [pair for pair, mean in expected.items() if mean >= 5.0]
    counts = np.array([*(drawn[p] for p in usual), 0.0])
    means = np.array([*(expected[p] for p in usual), 0.0])
    counts[-1], means[-1] = 4000 - counts.sum(), 4000 - means.sum()
    assert chisquare(counts, means).pvalue > 1e-4


def worst_ratio(private: TargetBounds) -> float:
    """Return the largest log ratio of a pair of quantiles over neighbouring targets."""
    rng, worst = np.random.default_rng(5), 0.0
    for n in (0, 1, 2, 5, 40):
        for _ in range(30):
            y, row = targets(n, rng), rng.choice([-1e12, -3.0, 0.0, 3.0, 1e12], 1)
            if private.neighbours == "add-remove":
                pair = (y, np.append(y, row))
            elif n:
                pair = (y, np.append(y[:-1], row))
            else:
                continue
            apart = [
                one - other
                for one, other in zip(*(private.probabilities(v) for v in pair), strict=True)
            ]
            worst = max(worst, sum(float(a.max()) for a in apart))
            worst = max(worst, sum(float(-a.min()) for a in apart))
    return worst


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_both_quantiles_together_keep_epsilon(neighbours: str) -> None:
    for epsilon in (0.1, 1.0, 6.0):
        private = TargetBounds(epsilon, neighbours)
        assert private.guarantee(asked(Selection).rehearsal()).epsilon == epsilon
        assert 0.3 * epsilon < worst_ratio(private) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_twice_the_exponent_is_caught(neighbours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank scores are not monotone: under add-remove, too, epsilon is paid for both ways."""
    whole = TargetBounds._sensitivity
    monkeypatch.setattr(TargetBounds, "_sensitivity", lambda self: whole(self) / 2)
    assert worst_ratio(TargetBounds(6.0, neighbours)) > 6.1


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_sensitivity_of_a_rank_is_attained(neighbours: str) -> None:
    rng, moves = np.random.default_rng(0), 0.0
    for _ in range(200):
        y = np.sort(rng.normal(0, 5, 20))
        other = np.append(y, 1e6 * rng.choice([-1, 1]))
        other = other[1:] if neighbours == "replace-one" else other
        for q in (0.25, 0.75):
            one, two = (rank_misses(np.sort(v), GRID[1:-1], q) for v in (y, other))
            moves = max(moves, float(np.abs(one - two).max()))
    assert moves == pytest.approx(1.0 if neighbours == "replace-one" else 0.75)


def test_bounds_are_always_two_numbers_apart() -> None:
    last = len(GRID) - 2
    for i, j in itertools.product((0, 1, last // 2, last // 2 + 1, last - 1, last), repeat=2):
        lower, upper = between(i, j)
        assert lower < upper
        assert between(j, i) == (lower, upper)
        assert lower <= min(GRID[i], GRID[j])
        assert upper >= max(GRID[i], GRID[j])


def test_many_rows_find_the_middle_half() -> None:
    y = np.random.default_rng(0).normal(100.0, 20.0, 5000)
    lower, upper = TargetBounds(1.0, "replace-one").draw(y, as_randomness(0))
    assert lower < 100 - 2 * 20
    assert upper > 100 + 2 * 20
    assert upper - lower < 400


def test_a_target_within_one_step_of_the_grid_is_found() -> None:
    """Cells are scored, not numbers: between two numbers of the grid all rows are off both."""
    y = np.random.default_rng(0).normal(41.0, 0.1, 2000)
    for seed in range(5):
        lower, upper = TargetBounds(1.0, "replace-one").draw(y, as_randomness(seed))
        assert (lower, upper) == (20.0, 60.0)


# ---- selections and models ----------------------------------------------------------------------


def asked(kind: type[Selection], **more: Any) -> Any:
    schema = Schema.of(("a", "b", "c"), 3, (-1, 1), Target(ANY, private=True), "y")
    return kind(schema=schema, **{"size": 1, "epsilon": 20.0, **more})


def rows_of(n: int = 1000) -> Table:
    X = np.random.default_rng(0).uniform(-1, 1, (n, 3))
    return Table(X, 50.0 + 30.0 * X[:, 1])


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_selection_releases_bounds_offset_and_columns_in_one_charge(
    tmp_path: Path, neighbours: str
) -> None:
    ledger = Ledger(tmp_path / "budget.db", epsilon=25.0, neighbours=neighbours)
    selection = asked(Selection, neighbours=neighbours, offset_share=0.05)
    assert selection.guarantee().epsilon == 20.0
    release = selection.release(rows_of(), ledger)
    assert release.columns == ("b",)
    assert release.target_bounds is not None
    lower, upper = release.target_bounds
    assert -60 <= lower < 35
    assert {name for name, _ in release.guarantee.bounds} == {"x", "y", "radius"}
    assert 65 < upper <= 160
    assert release.offset == pytest.approx(50.0, abs=5.0)
    told = release.to_dict()
    assert told["released"]["target_bounds"] == [lower, upper]
    assert told["asked"]["target_bounds"] == "private"
    assert told["asked"]["target_bounds_share"] == 0.1
    assert "private bounds of the target (epsilon 2) followed by private offset (epsilon 1)" in str(
        release.guarantee
    )
    assert "target's bounds" in str(release)
    (entry,) = ledger.history()
    assert entry.guarantee.epsilon == 20.0
    assert entry.released == told["released"]


def test_a_problem_with_drawn_bounds_is_that_of_given_ones() -> None:
    """Nothing of the wide first bounds is left: the same seed then draws the same columns."""
    selection = asked(Selection, clip=0.7)
    limits, bounded = selection.first.bounded(selection.problem(rows_of()), as_randomness(0))
    schema = Schema.of(("a", "b", "c"), 3, (-1, 1), Target(limits), "y")
    plain = Selection(schema=schema, size=1, clip=0.7, window_share=0).problem(rows_of())
    assert bounded.y.tolist() == plain.y.tolist()
    assert bounded.sensitivity() == plain.sensitivity()
    assert bounded.include == plain.include


def test_a_model_predicts_within_the_drawn_bounds() -> None:
    model = asked(Model, seed=0, coefficient_radius=4.0)
    released = model.release(rows_of(3000))
    assert model.guarantee().epsilon == 20.0
    assert released.target_bounds is not None
    lower, upper = released.target_bounds
    X = np.array([[-1.0], [0.0], [1.0]])
    predicted = released.predict(X)["y"]
    assert predicted.tolist() == pytest.approx([20.0, 50.0, 80.0], abs=6.0)
    assert lower <= predicted.min()
    assert predicted.max() <= upper
    assert released.to_dict()["released"]["target_bounds"] == [lower, upper]


def test_a_plain_form_keeps_the_wish() -> None:
    selection = asked(Selection)
    again = Selection.from_dict(json.loads(json.dumps(selection.to_dict())))
    assert again.asked() == selection.asked()
    assert again.target_bounds == selection.target_bounds
    known = Schema.of(("a", "b", "c"), 3, (-1, 1), Target(ANY), "y")
    assert selection.schema.sha256 != known.sha256


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_huge_and_equal_targets_are_released(neighbours: str) -> None:
    for y in (np.full(50, 7.0), np.full(50, 1e300), np.zeros(50), np.array([1e300, -1e300] * 25)):
        selection = asked(Selection, neighbours=neighbours, seed=0)
        release = selection.release(Table(rows_of(50).X, y))
        assert release.target_bounds is not None
        assert np.isfinite(release.target_bounds).all()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"target_bounds_share": 0}, "take a part of epsilon"),
    ({"target_bounds_share": 1.0}, "number below 1"),
    ({"target_bounds_share": "a"}, "number below 1"),
    ({"target_bounds_share": 0.6, "offset_share": 0.4}, "leave nothing of epsilon"),
    ({"mechanism": PermuteAndFlip(20.0)}, "mechanisms by name"),
    ({"mechanism": "mistakes"}, "condition on the table"),
]


@pytest.mark.parametrize(("given", "expected"), WRONG, ids=range(len(WRONG)))
def test_what_private_bounds_are_not_for(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        asked(Selection, **given)


def test_estimators_and_the_command(tmp_path: Path) -> None:
    table = rows_of(2000)
    shape: dict[str, Any] = {"n_features_to_select": 1, "epsilon": 20.0, "bounds_X": (-1, 1)}
    selector = SubsetSelector(bounds_y="private", **shape).fit(table.X, table.y)
    assert selector.get_support().tolist() == [False, True, False]
    assert selector.release_.target_bounds is not None
    regressor = SubsetRegressor(bounds_y="private", target_bounds_share=0.2, **shape)
    regressor.fit(table.X, table.y)
    assert "private bounds of the target (epsilon 4)" in regressor.guarantee_.mechanism
    assert regressor.bounds_y_[0] < 40 < 60 < regressor.bounds_y_[1]
    with pytest.raises(InputError, match="pair of numbers"):
        SubsetSelector(bounds_y="privat", **shape).fit(table.X, table.y)
    with pytest.raises(TypeError):
        SubsetClassifier(bounds_y="private")  # type: ignore[call-arg]
    frame = pd.DataFrame(table.X, columns=["a", "b", "c"]).assign(y=table.y)
    frame.to_csv(tmp_path / "table.csv", index=False)
    bounds = "\n".join(["[columns]", *(f"{name} = [-1, 1]" for name in "abc")])
    (tmp_path / "bounds.toml").write_text(bounds)
    typed = [str(tmp_path / "table.csv"), "--target", "y", "--size", "1", "--epsilon", "20"]
    typed += ["--bounds", str(tmp_path / "bounds.toml"), "--private-target-bounds"]
    shown = CliRunner().invoke(app, ["select", *typed])
    assert shown.exit_code == 0, shown.output
    assert "target's bounds" in shown.output
    model = str(tmp_path / "model.json")
    fitted = CliRunner().invoke(app, ["fit", *typed, "--output", model])
    assert fitted.exit_code == 0, fitted.output
    told = json.loads(Path(model).read_text())
    assert told["asked"]["target_bounds"] == "private"
    labels = ["--loss", "logistic", "--classes", "0,1"]
    refused = CliRunner().invoke(app, ["select", *typed, *labels])
    assert refused.exit_code == 2
    assert "for a target of numbers" in refused.output


def test_a_schema_with_private_bounds_and_missing_targets(tmp_path: Path) -> None:
    """Rows without a target drag the bounds nowhere; estimator and command, both ways to ask."""
    table = rows_of(3000)
    y = 450.0 + table.y
    y[np.random.default_rng(1).random(3000) < 0.6] = math.nan
    frame = pd.DataFrame(table.X, columns=["a", "b", "c"]).assign(y=y)
    lines: dict[str, Any] = {name: [-1, 1] for name in "abc"}
    said = {"columns": lines, "target": {"name": "y", "bounds": "private"}}
    silent = {"columns": lines}
    shape: dict[str, Any] = {"n_features_to_select": 1, "epsilon": 20.0, "random_state": 0}
    for more in ({"schema": said}, {"schema": silent, "bounds_y": "private"}):
        model = SubsetRegressor(**shape, **more).fit(frame[["a", "b", "c"]], frame["y"])
        assert model.get_support().tolist() == [False, True, False]
        lower, upper = model.bounds_y_
        assert 50 < lower < 470
        assert 530 < upper < 950
        points = pd.DataFrame({"a": [0.0, 0.0], "b": [-1.0, 1.0], "c": [0.0, 0.0]})
        assert model.predict(points).tolist() == pytest.approx([470.0, 530.0], abs=6.0)
    schema = Schema.from_dict(said)
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))).target == schema.target
    with pytest.raises(InputError, match="says what the target holds"):
        SubsetRegressor(
            schema={**silent, "target": {"bounds": [0, 1]}}, bounds_y="private", **shape
        ).fit(frame[["a", "b", "c"]], frame["y"])
    with pytest.raises(InputError, match="for the target alone"):
        Schema.from_dict({**said, "columns": {"a": {"bounds": "private"}}})
    with pytest.raises(InputError, match="missing must be"):
        Schema.from_dict({**silent, "target": {"bounds": "private", "missing": 1e300}})
    frame.to_csv(tmp_path / "table.csv", index=False)
    text = "\n".join(["[columns]", *(f"{name} = [-1, 1]" for name in "abc")])
    typed = [str(tmp_path / "table.csv"), "--size", "1", "--epsilon", "20"]
    for target, option in (
        ('[target]\nname = "y"\nbounds = "private"', []),
        ('[target]\nname = "y"', ["--private-target-bounds"]),
    ):
        (tmp_path / "schema.toml").write_text(f"{text}\n{target}\n")
        words = [*typed, "--schema", str(tmp_path / "schema.toml"), *option]
        shown = CliRunner().invoke(app, ["select", *words])
        assert shown.exit_code == 0, shown.output
        assert "target's bounds" in shown.output
        fitted = CliRunner().invoke(app, ["fit", *words, "--output", str(tmp_path / "m.json")])
        assert fitted.exit_code == 0, fitted.output
        (tmp_path / "m.json").unlink()
    (tmp_path / "schema.toml").write_text(f'{text}\n[target]\nname = "y"\nbounds = [0, 1]\n')
    words = [*typed, "--schema", str(tmp_path / "schema.toml"), "--private-target-bounds"]
    refused = CliRunner().invoke(app, ["select", *words])
    assert refused.exit_code == 2
    assert "says what the target holds" in refused.output
