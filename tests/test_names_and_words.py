"""Lists of names on the command line, the loss that is not named, and what `fit` says first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dpsubset import SubsetClassifier, SubsetSelector
from dpsubset.cli import app
from dpsubset.cli.asked import listed, two_classes
from dpsubset.errors import InputError
from dpsubset.losses import Squared

NAMES = ["a", "b", "a,b", 'say "hi"', '"quoted"', "c d"]


@pytest.fixture
def typed(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, len(NAMES)))
    frame = pd.DataFrame(X, columns=NAMES).assign(
        y=X[:, 2], label=np.where(X[:, 2] > 0, "x,1", "z")
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    lines = [f"{json.dumps(name)} = [-1, 1]" for name in [*NAMES, "y"]]
    (tmp_path / "b.toml").write_text("\n".join(["[columns]", *lines]))
    given = [str(tmp_path / "t.csv"), "--bounds", str(tmp_path / "b.toml"), "--json"]
    return [*given, "--epsilon", "50", "--size", "2"]


def asked(typed: list[str], *more: str, command: str = "select") -> dict[str, Any]:
    shown = CliRunner().invoke(app, [command, *typed, *more])
    assert shown.exit_code == 0, shown.output
    found: dict[str, Any] = json.loads(shown.output)
    return found


QUOTED = 'a,"a,b","say ""hi"""'


def test_lists_hold_names_with_commas_and_quotes(typed: list[str]) -> None:
    told = asked(typed, "--target", "y", "--features", QUOTED, "--features", "c d")
    assert told["asked"]["features"] == ["a", "a,b", 'say "hi"', "c d"]
    whole = ["--target", "y", "--features", ",".join(['"a,b"', "a", "b", '"""quoted"""', '"c d"'])]
    told = asked(typed, *whole, "--exclude", 'b,"""quoted"""', "--always-include", '"a,b"')
    assert told["asked"]["exclude"] == ["b", '"quoted"']
    assert told["asked"]["always_include"] == ["a,b"]
    assert "a,b" in told["released"]["columns"]


def test_options_may_be_repeated_and_a_plain_name_is_itself(typed: list[str]) -> None:
    more = ["--features", "a", "--features", 'b,"a,b"', "--features", 'say "hi"']
    told = asked(typed, "--target", "y", *more, "--exclude", "a", "--exclude", "b")
    assert told["asked"]["features"] == ["a", "b", "a,b", 'say "hi"']
    assert told["asked"]["exclude"] == ["a", "b"]


def test_classes_may_hold_commas(typed: list[str]) -> None:
    features = ["--target", "label", "--features", QUOTED]
    for classes in (["--classes", '"x,1",z'], ["--classes", '"x,1"', "--classes", "z"]):
        told = asked(typed, *features, *classes)
        assert told["asked"]["classes"] == ["x,1", "z"]
        assert told["asked"]["loss"] == "brier"


def test_a_name_as_typed_is_meant_where_its_parts_are_not_known() -> None:
    assert listed(["a,b"], "--exclude", ["a,b", "c"]) == ("a,b",)
    assert listed(["a,b"], "--exclude", ["a,b", "a", "b"]) == ("a", "b")
    assert listed(['"a,b"'], "--exclude", ["a,b", "a", "b"]) == ("a,b",)
    assert listed(['"a'], "--exclude", ['"a']) == ('"a',)
    for wrong in ('"a', "a,", ""):
        with pytest.raises(InputError, match="--exclude"):
            listed([wrong], "--exclude", ["a"])


def test_labels_without_a_loss_have_brier(typed: list[str]) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 3))
    y = np.where(X[:, 1] > 0, "yes", "no")
    shape: dict[str, Any] = {"n_features_to_select": 1, "bounds_X": (-1, 1), "epsilon": 20.0}
    selector = SubsetSelector(classes=("no", "yes"), **shape).fit(X, y)
    assert selector.release_.asked["loss"] == "brier"
    assert (
        SubsetSelector(bounds_y=(-1, 1), **shape | {"epsilon": 3.0})
        .fit(X, X[:, 1])
        .release_.asked["loss"]
        == "huber:0.2"
    )
    model = SubsetClassifier(classes=("no", "yes"), **shape).fit(X, y)
    assert model.get_params()["loss"] is None
    with pytest.raises(InputError, match="--classes is for the losses of labels"):
        two_classes(["a", "b"], Squared())


def test_fit_says_when_an_exact_draw_may_take_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (1200, 6))
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(y=0.5 * X[:, 0])
    frame.to_csv(tmp_path / "t.csv", index=False)
    lines = [f"{name} = [-1, 1]" for name in "abcdefy"]
    (tmp_path / "b.toml").write_text("\n".join(["[columns]", *lines]))
    typed = [str(tmp_path / "t.csv"), "--target", "y", "--bounds", str(tmp_path / "b.toml")]
    typed += ["--size", "5", "--loss", "absolute", "--output", str(tmp_path / "m.json"), "--quiet"]
    quick = CliRunner().invoke(app, ["fit", *typed, "--epsilon", "4"])
    assert quick.exit_code == 0, quick.output
    assert "an exact draw" not in quick.stderr
    monkeypatch.setattr("dpsubset.selection._LONG", 0.0)
    slow = CliRunner().invoke(app, ["fit", *typed, "--epsilon", "8"])
    assert slow.exit_code == 0, slow.output
    assert "an exact draw of 5 columns" in slow.stderr
