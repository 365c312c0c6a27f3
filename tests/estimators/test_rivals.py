"""Rivals by name: in the selector, in models and in the command, with their own promises."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from dpsubset import LassoStability, MarkovChain, SampleAggregate, SubsetRegressor, SubsetSelector
from dpsubset.cli import app
from dpsubset.errors import InputError, RefusedError
from dpsubset.mechanisms.named import BASELINES, make_mechanism

WEAKER = pytest.mark.filterwarnings("ignore:the .* mechanism (is private only|may fail)")
OPTIONS: dict[str, Any] = {
    "n_features_to_select": 2,
    "bounds_X": (0, 10),
    "bounds_y": (-10, 10),
    "random_state": 0,
}


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(0, 10, (2000, 6))
    return X, X[:, 1] - X[:, 4]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("markov-chain", MarkovChain),
        ("sample-aggregate", SampleAggregate),
        ("lasso-stability", LassoStability),
    ],
)
@WEAKER
def test_rivals_by_name(name: str, kind: type, table: tuple[np.ndarray, np.ndarray]) -> None:
    assert type(make_mechanism(name, 1.0, neighbours="replace-one")) is kind
    chosen = SubsetSelector(**OPTIONS, mechanism=name, epsilon=20.0).fit(*table)
    assert chosen.get_support(indices=True).tolist() == [1, 4]
    model = SubsetRegressor(**OPTIONS, mechanism=name, epsilon=40.0).fit(*table)
    assert np.flatnonzero(model.coef_).tolist() == [1, 4]
    assert model.guarantee_.epsilon == pytest.approx(40.0)
    assert model.guarantee_.delta == (1e-6 if name == "lasso-stability" else 0.0)
    assert (model.guarantee_.condition is not None) == (name == "markov-chain")


def test_a_weaker_promise_is_told_before_it_is_bought(
    table: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LassoStability, "experiment", None)  # a warning as error comes first
    with pytest.raises(UserWarning, match="may fail to protect with a chance of 1e-06"):
        SubsetSelector(**OPTIONS, mechanism="lasso-stability").fit(*table)


@WEAKER
def test_a_refusal_is_one_text_and_leaves_no_model(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = table
    texts = set()
    for y in (np.zeros(2000), np.random.default_rng(1).uniform(-10, 10, 2000)):
        model = SubsetRegressor(**OPTIONS, mechanism="lasso-stability")
        with pytest.raises(RefusedError) as caught:
            model.fit(X, y)
        texts.add(str(caught.value))
        assert not hasattr(model, "coef_")
    assert len(texts) == 1


@pytest.mark.parametrize("name", ["sample-aggregate", "lasso-stability"])
def test_what_rests_on_no_score_has_no_rule_for_it(name: str) -> None:
    with pytest.raises(InputError, match="does not rest on the sensitivity"):
        make_mechanism(name, 1.0, neighbours="replace-one", sensitivity="paper")


def test_the_command_knows_them(table: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    X, y = table
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(6)])
    frame.with_columns(y=pl.Series(y)).write_csv(tmp_path / "t.csv")
    (tmp_path / "b.toml").write_text("[default]\nbounds = [-10, 10]\n")
    common = [str(tmp_path / "t.csv"), "--target", "y", "--bounds", str(tmp_path / "b.toml")]
    for name in BASELINES:
        epsilon = ["--epsilon", "30", "--size", "2", "--mechanism", name]
        done = CliRunner().invoke(app, ["select", *common, *epsilon, "--quiet"])
        assert (done.exit_code, done.stdout) == (0, "x1\nx4\n"), done.output
    refused = ["--epsilon", "0.01", "--size", "2", "--mechanism", "lasso-stability"]
    ended = CliRunner().invoke(app, ["select", *common, *refused])
    assert ended.exit_code == 1
    assert ended.stderr.startswith("refused: the test that comes before a release did not pass")
    assert ended.stdout == ""
