"""Plans by a schema: tables as they are described, what is needed, and the rule of one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dpsubset
from dpsubset.cli import app
from dpsubset.data import Schema
from dpsubset.data.target import Target
from dpsubset.errors import InputError
from dpsubset.model import Model
from dpsubset.model_file import write_model
from dpsubset.planning import Plan, Point, foretelling, plan
from dpsubset.planning.described import described_table
from dpsubset.planning.quality import auc, r_squared
from dpsubset.planning.rule import advantage, likely_noise
from dpsubset.selection import Selection

LINES: dict[str, Any] = {
    "age": [0, 100],
    "smoker": "0/1",
    "region": ["north", "south", "west"],
    "grade": {"ordered": ["low", "mid", "high"]},
    "visit": ["2020-01-01", "2023-12-31"],
    "iron": {"bounds": [-5, 5], "missing": "indicator"},
}
NUMBERS = {"columns": LINES, "target": {"name": "cost", "bounds": [0, 1000]}}
CLASSES = {"columns": LINES, "target": {"name": "ill", "classes": ["no", "yes"]}}
QUICK: dict[str, Any] = {"tables": 1, "draws": 10, "signals": [0.6], "size": 2}


# Tables -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("signal", [0.1, 0.6, 0.83])
@pytest.mark.parametrize("seed", range(3))
def test_a_table_has_the_signal_that_it_should_have(signal: float, seed: int) -> None:
    schema = Schema.from_dict(NUMBERS)
    made = described_table(schema, 20_000, size=3, signal=signal, seed=seed)
    assert r_squared(made.outcome, made.signal) == pytest.approx(signal, abs=0.04)
    # The true columns, and they alone, explain it: least squares on the coded columns.
    rows = schema.read(made.table, 1.0, constant=True)
    coded = rows.design.take(np.arange(rows.design.n_columns))
    groups = [*(schema.groups or ()), [coded.shape[1] - 1]]
    y = np.asarray(rows.target)

    def explained(features: list[int]) -> float:
        part = coded[:, [j for f in [*features, len(groups) - 1] for j in groups[f]]]
        return r_squared(y, part @ np.linalg.lstsq(part, y, rcond=None)[0])

    others = [j for j in range(schema.n_columns) if j not in made.support]
    assert explained(list(made.support)) == pytest.approx(signal, abs=0.04)
    assert explained(others) < 0.05 + 0.3 * signal  # neighbours are correlated a little


def test_true_columns_may_be_of_unequal_strength() -> None:
    """With a decay of 1/4 two columns share the signal 4 to 1."""
    schema = Schema.of(None, 6, (0, 1), Target((0.0, 1.0)))
    made = described_table(schema, 40_000, size=2, signal=0.6, decay=0.25, rho=0.0, seed=3)
    X, y = np.asarray(made.table.X), made.outcome
    shares = sorted(np.corrcoef(X[:, j], y)[0, 1] ** 2 for j in made.support)
    assert shares == pytest.approx([0.12, 0.48], abs=0.03)


def test_columns_may_share_a_part() -> None:
    """Then others than the true ones tell of the target, too, and the signal is what it was."""
    schema = Schema.of(None, 12, (0, 1), Target((0.0, 1.0)))
    shape: dict[str, Any] = {"size": 3, "signal": 0.5, "rho": 0.0, "seed": 1}
    made = described_table(schema, 40_000, common=0.3, **shape)
    X = np.asarray(made.table.X)
    found = np.corrcoef(X.T)[np.triu_indices(12, 1)]
    assert found == pytest.approx(np.full(66, 0.3), abs=0.03)
    assert r_squared(made.outcome, made.signal) == pytest.approx(0.5, abs=0.04)
    other = next(j for j in range(12) if j not in made.support)
    # Three true columns have the variance 3 + 6 * 0.3 together, and 3 * 0.3 in common with another.
    assert np.corrcoef(X[:, other], made.outcome)[0, 1] == pytest.approx(
        np.sqrt(0.5) * 0.9 / np.sqrt(4.8), abs=0.03
    )
    alone = described_table(schema, 40_000, **shape)
    Z = np.asarray(alone.table.X)
    none = next(j for j in range(12) if j not in alone.support)
    assert np.corrcoef(Z[:, none], alone.outcome)[0, 1] == pytest.approx(0.0, abs=0.03)


@pytest.mark.parametrize("balance", [0.05, 0.5, 0.8])
def test_labels_have_their_balance_and_signal(balance: float) -> None:
    schema = Schema.from_dict(CLASSES)
    made = described_table(schema, 40_000, size=2, signal=0.6, balance=balance, seed=1)
    assert made.outcome.mean() == pytest.approx(balance, abs=0.01)
    odds = np.log(made.signal / (1 - made.signal))
    assert odds.var() / (odds.var() + np.pi**2 / 3) == pytest.approx(0.6, abs=0.05)
    assert set(made.table.y) == {"no", "yes"}
    assert (made.table.y == "yes").sum() == made.outcome.sum()
    assert 0.75 < auc(made.outcome > 0.5, made.signal) < 0.95


def test_every_cell_is_one_that_the_schema_allows() -> None:
    schema = Schema.from_dict(NUMBERS)
    made = described_table(schema, 5000, size=2, signal=0.5, spread=2.0)
    for column, name in zip(schema.columns or (), schema.names or (), strict=True):
        cells = made.table.X[name]
        assert column.there(cells).all(), name
        assert abs(column.code(cells)).max() <= 1.0
    assert made.table.y.min() >= 0
    assert made.table.y.max() <= 1000


def test_bounds_alone_are_a_schema_too() -> None:
    schema = Schema.of(None, 4, (0, 10), Target((0.0, 1.0)))
    made = described_table(schema, 3000, size=1, signal=0.5)
    assert made.table.X.shape == (3000, 4)
    assert made.table.X.std() == pytest.approx(0.25 * 5, rel=0.05)
    labels = Schema.of(None, 4, (0, 10), Target(None, ("a", "b")))
    found = plan(labels, rows=20_000, epsilon=1.0, **QUICK)
    assert found.labels
    assert found.points[-1].chance == 1.0


@pytest.mark.parametrize("schema", [NUMBERS, CLASSES])
def test_columns_that_are_included_have_their_own_signal(schema: dict[str, Any]) -> None:
    known = Schema.from_dict(schema)
    shape: dict[str, Any] = {"size": 2, "signal": 0.4, "rho": 0.0}
    for seed in range(3):
        made = described_table(
            known, 20_000, included=(0, 1), included_signal=0.3, seed=seed, **shape
        )
        assert not set(made.support) & {0, 1}
        hidden = [made.table.X["age"], made.table.X["smoker"]]
        mean = made.signal if schema is NUMBERS else np.log(made.signal / (1 - made.signal))
        shares = [np.corrcoef(column, mean)[0, 1] ** 2 for column in hidden]
        assert shares == pytest.approx([0.15 / 0.7] * 2, abs=0.02)
        if schema is NUMBERS:
            assert r_squared(made.outcome, made.signal) == pytest.approx(0.7, abs=0.03)
    none = described_table(known, 20_000, included=(0, 1), seed=0, **shape)
    assert abs(np.corrcoef(none.table.X["age"], none.signal)[0, 1]) < 0.03


# Plans ------------------------------------------------------------------------------------------


COVARIATES: dict[str, Any] = {"always_include": ["age", "smoker"], "included_signal": 0.2}


def test_covariates_are_included_and_not_looked_for() -> None:
    """They are in every release, so what is judged is the other columns."""
    asked = QUICK | {"size": 3, "draws": 30}
    found = plan(NUMBERS, rows=200, models=False, **COVARIATES, **asked)
    assert found.asked["always_include"] == ["age", "smoker"]
    assert (found.asked["true_columns"], found.asked["included_signal"]) == (1, 0.2)
    first, *_, last = found.points
    assert last.chance == last.share == 1.0
    for point in found.points:  # one column is looked for: found, or not
        assert point.chance == point.share
    assert first.chance < 0.9


def test_a_plan_that_counts_covariates_as_found_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The twin: columns that cannot be missed make every share look better."""
    asked = QUICK | {"size": 3, "draws": 30, "signals": [0.02]}
    given: dict[str, Any] = {"rows": 300, "epsilon": 0.01, "models": False, **COVARIATES}
    honest = plan(NUMBERS, **given, **asked).points[0]
    assert honest.share < 0.6  # of four columns one is true
    true = foretelling.described_table

    def all_true(*args: Any, **options: Any) -> Any:
        made = true(*args, **options)
        return replace(made, support=(*options["included"], *made.support))

    monkeypatch.setattr(foretelling, "described_table", all_true)
    broken = plan(NUMBERS, **given, **asked).points[0]
    assert broken.chance == 0.0
    assert broken.share != honest.share


def test_models_know_of_covariates() -> None:
    """With them a model explains what they do, too."""
    asked = QUICK | {"size": 3, "signals": [0.3]}
    point = plan(NUMBERS, rows=20_000, epsilon=3.0, **COVARIATES, **asked).points[-1]
    assert point.best == pytest.approx(0.5, abs=0.06)
    assert point.quality is not None
    assert point.quality > 0.38


def test_the_command_knows_covariates(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    lines = [f"{name} = {json.dumps(said)}" for name, said in LINES.items() if name != "iron"]
    target = '[target]\nname = "cost"\nbounds = [0, 1000]'
    path.write_text("\n".join(["[columns]", *lines, target]).replace('{"ordered":', "{ordered ="))
    words = ["plan", "--schema", str(path), "--rows", "2000", "--size", "3", "--signals", "0.5"]
    words += ["--tables", "1", "--draws", "5", "--json", "--included-signal", "0.2"]
    result = CliRunner().invoke(app, [*words, "--always-include", "age,smoker"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["asked"]["always_include"] == ["age", "smoker"]
    assert told["points"][-1]["chance"] == 1.0
    result = CliRunner().invoke(app, [*words, "--always-include", "height"])
    assert result.exit_code == 2
    assert "height" in result.output


# More plans -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("schema", [NUMBERS, CLASSES])
def test_more_epsilon_is_better_and_the_best_is_reached(schema: dict[str, Any]) -> None:
    found = dpsubset.plan(schema, rows=500, **(QUICK | {"tables": 3}))
    first, *_, last = found.points
    assert [p.epsilon for p in found.points] == [0.1, 0.3, 1.0, 3.0, 10.0]
    assert first.share < 0.8
    assert last.share > 0.95
    assert last.chance > 0.9
    assert first.quality is not None
    assert last.quality is not None
    assert first.quality < last.quality <= last.best + 0.02
    assert last.quality > last.best - 0.1
    needed = found.needed()[0.6]
    assert needed is not None
    assert 0.1 < needed <= 10


@pytest.mark.slow
def test_rows_are_found_for_an_epsilon() -> None:
    found = plan(NUMBERS, epsilon=2.0, models=False, **QUICK)
    assert found.over == "rows"
    assert {p.epsilon for p in found.points} == {2.0}
    assert all(p.quality is None for p in found.points)
    needed = found.needed()[0.6]
    assert needed is not None
    assert 300 <= needed < 30_000


@pytest.mark.slow
def test_fewer_simulated_rows_at_a_larger_epsilon_say_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The short cut for large tables, compared with the slow way."""
    lines = {f"x{k}": [0, 1] for k in range(8)}
    schema = {"columns": lines, "target": {"name": "y", "bounds": [0, 1]}}
    given: dict[str, Any] = {"rows": 8000, "signals": [0.3], "models": False, "epsilon": 0.3}
    slow = plan(schema, tables=6, draws=40, size=2, **given)
    monkeypatch.setattr(foretelling, "_CELLS", 8)
    quick = plan(schema, tables=6, draws=40, size=2, **given)
    for one, other in zip(slow.points, quick.points, strict=True):
        assert one.share == pytest.approx(other.share, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_an_open_size_is_planned_for(neighbours: str) -> None:
    given = QUICK | {"size": "auto"}
    found = plan(NUMBERS, rows=600, max_size=4, true_columns=2, neighbours=neighbours, **given)
    first, *_, last = found.points
    assert first.chance < last.chance
    assert last.chance > 0.7  # about false_columns of the releases have one column too many
    assert found.asked["size"] == "auto"
    assert found.asked["true_columns"] == 2


def test_time_is_bounded_and_a_table_is_simulated_in_any_case() -> None:
    found = plan(NUMBERS, rows=500, models=False, seconds=0.001, **(QUICK | {"tables": 50}))
    assert {p.tables for p in found.points} == {1}


def test_every_point_is_told() -> None:
    told: list[tuple[int, int]] = []
    plan(NUMBERS, rows=500, models=False, progress=lambda *at: told.append(at), **QUICK)
    assert told == [(k, 5) for k in range(1, 6)]


def test_points_add_up_to_means() -> None:
    one = Point(10, 1.0, 0.3, 1, 1.0, 0.5, 0.2, 0.3, 0)
    other = Point(10, 1.0, 0.3, 3, 0.0, 0.9, 0.6, 0.7, 1)
    both = Point(10, 1.0, 0.3) + one + other
    assert both == Point(
        10, 1.0, 0.3, 4, 0.25, pytest.approx(0.8), pytest.approx(0.5), pytest.approx(0.6), 1
    )


@pytest.mark.parametrize(
    ("chances", "expected"),
    [
        ([0.0, 0.0, 0.5], None),
        ([1.0, 1.0, 1.0], 1.0),
        ([0.0, 0.8, 1.0], pytest.approx(np.sqrt(1000))),
        ([0.95, 0.5, 1.0], pytest.approx(10 * 10**0.8)),  # it must stay there
        ([0.0, 0.9, 0.9], pytest.approx(10.0)),
    ],
)
def test_what_is_needed(chances: list[float], expected: Any) -> None:
    points = tuple(Point(5, e, 0.3, 1, c) for e, c in zip([1.0, 10.0, 100.0], chances, strict=True))
    found = Plan(points, share=0.9, over="epsilon", labels=False, asked={})
    assert found.needed() == {0.3: expected}
    *words, head, _, _, _, empty, _ = str(found).splitlines()
    assert (head.split()[0], empty) == ("signal", "")
    named = [line.partition("  ")[0] for line in words[:-1]]
    assert named == ["signal", "right columns", "true found", "R^2", "best"]


def test_numbers_of_rows_are_written_out() -> None:
    points = tuple(Point(n, 1.0, 0.3, 1, c) for n, c in ((1000, 0.0), (10_000, 1.0)))
    found = Plan(points, share=0.9, over="rows", labels=False, asked={})
    assert found.sentences() == [
        "R^2 0.3: about 7,900 rows for the right columns in 90% of releases"
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"signals": [1.0]}, "signals must lie between 0 and 1"),
        ({"signals": []}, "signals is empty"),
        ({"share": 0}, "share"),
        ({"balance": 1.5}, "balance"),
        ({"rho": 1}, "rho"),
        ({"spread": -1}, "spread"),
        ({"decay": 2}, "decay"),
        ({"decay": 0}, "decay"),
        ({"rows": 3}, "rows"),
        ({"size": 7}, "between 1 and 6"),
        ({"features": 9}, "describes 6 columns"),
        ({"loss": "logistic"}, "logistic"),
        ({"tables": 0}, "tables"),
        ({"seconds": 0}, "seconds"),
        ({"always_include": ["weight"]}, "weight"),
        ({"always_include": ["age", "smoker"]}, "leaves no column"),
        ({"included_signal": 0.2}, "name them"),
        ({"always_include": ["age"], "included_signal": 0.2}, "too much together"),
        ({"always_include": ["age"], "included_signal": 1.5}, "included_signal must lie between"),
    ],
)
def test_mistakes_are_told_before_anything_is_simulated(
    options: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foretelling, "_one", lambda *a: pytest.fail("simulated"))
    with pytest.raises(InputError, match=expected):
        plan(NUMBERS, **{"rows": 100, "size": 2, **options})


def test_families_of_columns_are_written_out() -> None:
    book = {
        "columns": {"lab_*": [0, 1]},
        "default": {"bounds": [0, 9]},
        "target": {"bounds": [0, 1]},
    }
    with pytest.raises(InputError, match="--features"):
        foretelling.schema_of(book)
    assert foretelling.schema_of(book, 4).names == ("lab_1", "1", "lab_2", "2")
    with pytest.raises(InputError, match="not int"):
        foretelling.schema_of(3)


# The command ------------------------------------------------------------------------------------


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    path = tmp_path / "schema.toml"
    path.write_text(
        '[columns]\nage = [0, 100]\nsex = "0/1"\n"lab_*" = [0, 9]\n'
        '[target]\nname = "cost"\nbounds = [0, 10]\n'
    )
    return path


def run(*words: Any) -> Any:
    return CliRunner().invoke(app, ["plan", *map(str, words)])


@pytest.mark.slow
def test_the_command_answers_and_draws(schema_file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    words = ["--schema", schema_file, "--features", 6, "--rows", 2000, "--size", 2]
    words += ["--tables", 1, "--draws", 5, "--signals", "0.3,0.6"]
    result = run(*words, "--output", picture)
    assert result.exit_code == 0, result.output
    assert "R^2 0.3: epsilon" in result.stdout
    assert "chance of the right columns" in picture.read_text()
    answer = json.loads(run(*words, "--json").stdout)
    assert answer["over"] == "epsilon"
    assert len(answer["points"]) == 10
    assert answer["asked"]["n_columns"] == 6


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "--features"),
        (["--features", 6, "--snr", 5], "--signals"),
        (["--features", 6, "--signals", "a"], "between 0 and 1"),
    ],
)
def test_the_command_refuses(schema_file: Path, words: list[Any], expected: str) -> None:
    result = run("--schema", schema_file, *words)
    assert result.exit_code == 2
    assert expected in result.stderr


def test_the_command_needs_one_of_two() -> None:
    assert "--schema or --features is missing" in run().stderr
    assert "--rows is for a plan by --schema" in run("--features", 9, "--rows", 10).stderr


# The rule ---------------------------------------------------------------------------------------


def selection(**more: Any) -> Selection:
    schema = Schema.of(None, 30, (0, 10), Target((0.0, 1.0)))
    return Selection(**({"schema": schema, "size": 3} | more))


@pytest.mark.slow
def test_the_rule_agrees_with_simulation() -> None:
    """Far on either side of its threshold, nearly none and nearly all columns are found."""
    lines = {f"x{k}": [0, 10] for k in range(30)}
    schema = {"columns": lines, "target": {"name": "y", "bounds": [0, 1]}}
    found = plan(schema, rows=3000, size=3, signals=[0.3], models=False, tables=2, draws=20)
    for point in found.points:
        own = advantage(selection(epsilon=point.epsilon), point.rows, point.signal)
        assert not (own > 1.0 and point.share < 0.5)
        assert not (own < -2.5 and point.share > 0.5)
    assert found.points[0].share < 0.5 < found.points[-1].share


def test_the_rule_has_a_direction() -> None:
    def of(rows: int = 1000, **more: Any) -> float:
        return advantage(selection(**more), rows)

    assert of(500) < of(5000)
    assert of(epsilon=0.1) < of(epsilon=1.0)
    assert of(size=6) < of(size=2)
    assert of(mechanism="stepwise") < of(loss="squared", mechanism="exponential") + 10
    assert of(schema=Schema.of(None, 3, (0, 1), Target((0.0, 1.0)))) == np.inf


def test_the_rule_reckons_with_the_loss_and_window_that_are_used() -> None:
    """From epsilon n = 1000 on the default is squared loss within a window (T44)."""
    for rows, same in ((900, {"loss": "huber:0.2", "radius": 0.5}), (5000, {"window_share": 0.04})):
        default, named = selection(), selection(**same)
        if rows == 5000:
            named = selection(**same, loss="squared")
        assert advantage(default, rows) == pytest.approx(advantage(named, rows))
    without = selection(loss="squared", radius=0.75)
    assert advantage(selection(), 5000) > advantage(without, 5000) + 1.0


def test_the_rule_asks_nothing_of_the_rows() -> None:
    """Neighbours, and any two tables with as many rows, are told the same."""
    rng = np.random.default_rng(0)
    asked = selection(epsilon=0.1)
    X = rng.uniform(0, 10, (200, 30))
    texts = {
        likely_noise(asked, asked.problem(dpsubset.data.Table(X, y)))
        for y in (np.zeros(200), X[:, 0] / 10, rng.random(200))
    }
    assert len(texts) == 1
    assert "likely noise" in str(texts.pop())
    private = selection(epsilon=0.1, neighbours="add-remove")
    assert likely_noise(private, private.problem(dpsubset.data.Table(X, np.zeros(200)))) is None


@pytest.mark.parametrize("command", ["select", "fit"])
def test_one_line_at_the_end(command: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (300, 5))
    rows = [",".join("abcdey"), *(",".join(map(str, r)) for r in np.c_[X, X[:, 0]].round(3))]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    lines = "".join(f"{name} = [0, 10]\n" for name in "abcde")
    (tmp_path / "s.toml").write_text(f'[columns]\n{lines}[target]\nname = "y"\nbounds = [0, 10]\n')
    words = [command, str(tmp_path / "t.csv"), "--schema", str(tmp_path / "s.toml"), "--size", "2"]
    words += ["--output", str(tmp_path / "o.json"), "--epsilon"]
    noisy = CliRunner().invoke(app, [*words, "0.05"])
    assert noisy.stderr.splitlines()[-1].startswith("warning: the answer is likely noise")
    assert "likely noise" not in CliRunner().invoke(app, [*words, "50"]).stderr


def test_a_model_without_columns_predicts_for_every_row() -> None:
    schema = Schema.from_dict(NUMBERS)
    made = described_table(schema, 50, size=1, signal=0.1)
    model = dpsubset.SubsetRegressor(schema=schema, n_features_to_select="auto", epsilon=0.01)
    for seed in range(20):
        fitted = model.set_params(random_state=seed).fit(made.table.X, made.table.y)
        assert fitted.predict(made.table.X).shape == (50,)
        if not fitted.support_.any():
            return
    pytest.fail("no model was without columns")


def test_such_a_model_predicts_for_every_row_of_a_file(tmp_path: Path) -> None:
    schema = Schema.from_dict(NUMBERS)
    made = described_table(schema, 50, size=1, signal=0.1)
    asked = Model(schema=schema, size="auto", epsilon=0.01, max_size=6)
    empty = (replace(asked, seed=seed).release(made.table) for seed in range(20))
    model = next(one for one in empty if not one.columns)
    (tmp_path / "m.json").write_text(write_model(model))
    made.table.X.write_csv(tmp_path / "t.csv")
    made.table.X.write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        words = ["predict", str(tmp_path / "m.json"), str(tmp_path / name)]
        assert len(CliRunner().invoke(app, words).stdout.splitlines()) == 51
