"""What people read: guarantees as tables and plain sentences, in terminals and in notebooks."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

from dpsubset import (
    Exponential,
    LassoStability,
    Ledger,
    MarkovChain,
    Mistakes,
    Problem,
    SampleAggregate,
    SubsetRegressor,
    SubsetSelector,
    TopR,
)
from dpsubset.coefficients import ObjectivePerturbation
from dpsubset.limits import Limits
from dpsubset.mechanisms import Release
from dpsubset.privacy import Guarantee, compose, compose_disjoint

ONE = Guarantee("exponential mechanism", 1.0, "replace-one", 4.0, rho=0.125)
HOSTILE = "<script>alert('x')</script>&\"\x1b[2J"

PRINTED = {
    ONE: """\
mechanism    exponential mechanism
epsilon      1
neighbours   one row replaced
sensitivity  4
randomness   operating system
Whatever is released, its chance differs by a factor of at most e^1 = 2.72 between any two \
tables that differ in one person's row.""",
    Guarantee("lasso-stability mechanism", 0.5, "add-remove", 1.0, delta=1e-6): """\
mechanism    lasso-stability mechanism
epsilon      0.5
delta        1e-06
neighbours   one row added or removed
sensitivity  1
randomness   operating system
Whatever set of answers one looks at, its chance differs by a factor of at most e^0.5 = 1.65, \
plus at most 1e-06, between any table and the same table without one person's row.""",
    compose([ONE, Guarantee("objective perturbation", 0.5, "replace-one", 2.0)]): """\
mechanism   exponential mechanism followed by objective perturbation
epsilon     1.5
neighbours  one row replaced
randomness  operating system
Whatever is released, all parts together, its chance differs by a factor of at most \
e^1.5 = 4.49 between any two tables that differ in one person's row.""",
    replace(ONE, epsilon=40.0, condition="it rains", randomness="seeded"): """\
mechanism    exponential mechanism
epsilon      40
neighbours   one row replaced
condition    it rains
sensitivity  4
randomness   SEEDED, for experiments only: anyone who knows the seed can undo the protection
Only if the condition above holds, and if the randomness were not seeded: whatever is released, \
its chance differs by a factor of at most e^40 (so large that it protects hardly anyone) between \
any two tables that differ in one person's row.""",
}


@pytest.mark.parametrize(("guarantee", "text"), PRINTED.items())
def test_guarantees_print_as_tables_and_a_plain_sentence(guarantee: Guarantee, text: str) -> None:
    assert str(guarantee) == text
    assert text.splitlines()[-1].count(".  ") == 0
    assert "rounding" not in text
    assert guarantee.to_dict()["sentence"] == guarantee.sentence != text
    assert guarantee.to_dict()["precision"] == guarantee.precision


def test_disjoint_parts_are_named_alongside_each_other() -> None:
    both = compose_disjoint([ONE, replace(ONE, mechanism="top-R mechanism")])
    assert "exponential mechanism alongside top-R mechanism\n" in str(both)


@pytest.mark.parametrize(
    "epsilon", [1e-300, 1e-9, 1e-5, 0.001, 0.01, 0.0999, 0.1, 1 / 3, 0.7, 1.0, 2.3, 4.6, 7.0, 10.0]
)
def test_the_factor_is_rounded_up_and_close(epsilon: float) -> None:
    text = str(replace(ONE, epsilon=epsilon))
    power, shown = re.search(r"at most e\^\(?([\d.e+-]+?)\)? = ([\d.,]+) between", text).groups()
    assert float(power) >= epsilon
    value, true = Decimal(shown.replace(",", "")), Decimal(epsilon).exp()
    assert value >= true
    assert value - 1 <= Decimal("1.25") * (true - 1) or value - true <= Decimal("1e-5")


def test_factors_that_nobody_can_picture_are_not_written_out() -> None:
    assert "e^0 = 1 between" in str(replace(ONE, epsilon=0.0))
    for epsilon in (10.5, 40.0, 710.0, 1e300):
        shown = str(replace(ONE, epsilon=epsilon)).splitlines()[-1]
        assert not re.search(r"= \d", shown)
        assert "hardly anyone" in shown


def test_a_printed_sensitivity_is_never_below_the_true_one() -> None:
    for value in (1 / 3, math.pi, math.e * 1e7):
        shown = replace(ONE, sensitivity=value)
        assert float(re.search(r"sensitivity +(\S+)", str(shown))[1]) >= value
        assert float(re.search(r"sensitivity (\S+);", shown.sentence)[1]) >= value


# Notebooks


class Reader(HTMLParser):
    """The tags and the text of HTML; every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        assert all(name == "style" for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


PLAIN = {"table", "tr", "th", "td", "p"}


def test_html_of_guarantees_and_releases() -> None:
    for shown in (ONE, Release((1, 4), ONE)):
        seen = Reader(shown._repr_html_())
        assert seen.tags == PLAIN
        assert "one row replaced" in seen.text
        assert "at most e^1 = 2.72 between" in seen.text
    assert "1, 4" in seen.text


def test_hostile_names_are_only_text(tmp_path: Path) -> None:
    hostile = replace(ONE, mechanism=HOSTILE, condition=HOSTILE)
    ledger = Ledger(tmp_path / f"{HOSTILE.replace('/', '')}.db", epsilon=9.0, table=HOSTILE)
    with ledger.charge(hostile, {"table": HOSTILE}) as record:
        record({"columns": [HOSTILE]})
    for shown in (hostile, Release((1,), hostile), ledger):
        html = shown._repr_html_()
        assert Reader(html).tags <= PLAIN
        assert "alert(" in Reader(html).text
        assert "<script" not in html
        assert "\x1b" not in html
    assert "\x1b" not in f"{hostile}{ledger}"


def test_html_of_a_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.db", epsilon=9.0, delta=1e-6)
    assert "not named" in Reader(ledger._repr_html_()).text
    for i in range(60):
        with ledger.charge(replace(ONE, epsilon=0.1), {"table": "t"} if i else {}) as record:
            record({"columns": [f"c{i}"]})
    seen = Reader(ledger._repr_html_()).text.splitlines()
    for part in ("t", "epsilon 9, delta 1e-06", "epsilon 6, delta 0", "epsilon 3, delta 1e-06"):
        assert part in seen
    assert "The last 50 of 60 entries" in seen
    assert seen.count("released") == 1 + 50
    assert str(60) in seen
    assert str(10) not in seen


def fitted(kind: Any, **options: Any) -> Any:
    X = np.random.default_rng(0).uniform(-1, 1, (80, 3))
    frame = pd.DataFrame(X, columns=["<script>a", "b", "c"])
    given = {"n_features_to_select": 1, "bounds_X": (-1, 1), "bounds_y": (-1, 1), **options}
    return kind(**given).fit(frame, X[:, 0])


@pytest.mark.parametrize("kind", [SubsetSelector, SubsetRegressor])
def test_html_of_estimators(kind: Any) -> None:
    bare = kind(n_features_to_select=1, bounds_X=(-1, 1), bounds_y=(-1, 1))
    for shown in (bare._repr_html_(), bare._repr_mimebundle_()["text/html"]):
        assert kind.__name__ in shown
        assert "one row replaced" not in shown
    done = fitted(kind, epsilon=2000.0)
    for shown in (done._repr_html_(), done._repr_mimebundle_()["text/html"]):
        assert kind.__name__ in shown
        assert shown.endswith(done._released_html())
        assert Reader(done._released_html()).tags == PLAIN
        assert "&lt;script&gt;a" in shown
        assert "one row replaced" in shown
    with config_context(display="text"):
        assert not hasattr(done, "_repr_html_")
        assert set(done._repr_mimebundle_()) == {"text/plain"}


def test_html_of_an_estimator_without_names_of_columns() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (80, 3))
    done = SubsetSelector(
        n_features_to_select=1, epsilon=2000.0, bounds_X=(-1, 1), bounds_y=(-1, 1)
    )
    assert "\n0\n" in Reader(done.fit(X, X[:, 0])._released_html()).text


# Texts of releases, problems and mechanisms


def test_texts_of_a_release() -> None:
    full = replace(ONE, delta=1e-6, condition="it rains", randomness="seeded")
    assert repr(Release((1, 4), full)) == (
        "<Release: columns 1, 4; exponential mechanism, epsilon 1, delta 1e-06, replace-one, "
        "on a condition, SEEDED>"
    )
    assert str(Release((1, 4), ONE)) == f"columns 1, 4\n\n{ONE}"
    assert str(Release((), ONE)).startswith("columns none\n")


def problem(rows: int = 7351, **options: Any) -> Problem:
    X = np.zeros((rows, 6))
    shape = {"size": 2, "x_bound": 1.0, "y_bound": 0.5, "radius": 2.0}
    return Problem(X, X[:, 0], **{**shape, **options})


def test_texts_of_a_problem_are_public() -> None:
    shown = repr(problem(include=[0], exclude=[1, 2], loss="huber:0.2", ridge=3.0))
    assert shown == (
        "<Problem: 2 of 6 columns, 1 included, 2 excluded; loss=Huber(0.2), x_bound=1, "
        "y_bound=0.5, radius=2, ridge=3>"
    )
    assert repr(problem()) == repr(problem(12))
    assert "7351" not in repr(problem()) + str(problem())


MECHANISMS = {
    "Exponential(epsilon=1.0)": Exponential(1),
    "Exponential(epsilon=1.0, neighbours='add-remove', sensitivity='paper')": Exponential(
        1, neighbours="add-remove", sensitivity="paper"
    ),
    "TopR(epsilon=1.0)": TopR(1),
    "TopR(epsilon=1.0, count=3, trials=10, accounting='sharp')": TopR(
        1, count=3, trials=10, accounting="sharp"
    ),
    "Mistakes(epsilon=1.0, delta=1e-06, otherwise='exponential')": Mistakes(
        1, delta=1e-6, otherwise="exponential"
    ),
    "MarkovChain(epsilon=1.0, limits=Limits(nodes=3, seconds=None), steps=5)": MarkovChain(
        1, steps=5, limits=Limits(nodes=3)
    ),
    "SampleAggregate(epsilon=1.0, blocks=9)": SampleAggregate(1, blocks=9),
    "LassoStability(epsilon=1.0)": LassoStability(1),
    "LassoStability(epsilon=1.0, delta=1e-08, repeats=2)": LassoStability(1, 1e-8, repeats=2),
    "ObjectivePerturbation(epsilon=1.0)": ObjectivePerturbation(1),
}


@pytest.mark.parametrize(("text", "mechanism"), MECHANISMS.items())
def test_texts_of_mechanisms_are_calls_without_defaults(text: str, mechanism: Any) -> None:
    assert repr(mechanism) == text
    again = eval(text, {type(mechanism).__name__: type(mechanism), "Limits": Limits})
    assert {k: repr(v) for k, v in vars(again).items()} == {
        k: repr(v) for k, v in vars(mechanism).items()
    }


def test_a_solver_that_is_not_the_usual_one_is_shown() -> None:
    given = TopR(1.0, solver="outer-approximation", accept_gap=True)
    assert "solver=OuterApproximation(tolerance=0.005" in repr(given)
    assert "accept_gap=True" in repr(given)
