"""Guarantees as values: composition, comparison, concentrated privacy, JSON (T29, T30)."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest

from dpsubset import Exponential, Guarantee, Mistakes, PermuteAndFlip, Problem, TopR
from dpsubset.audit import families
from dpsubset.errors import InputError
from dpsubset.privacy import compose, compose_disjoint
from dpsubset.privacy.guarantee import schema

ONE = Guarantee("exponential mechanism", 1.0, "replace-one", 4.0, rho=0.125)
TWO = Guarantee("objective perturbation", 0.5, "replace-one", 2.0, precision=0.0, delta=1e-6)


def problem(**options: Any) -> Problem:
    X = np.eye(4)
    shape = {"size": 2, "x_bound": 1.0, "y_bound": 0.5, "radius": 2.0}
    return Problem(X, X[:, 0], **{**shape, **options})


# ---- composition --------------------------------------------------------------------------------


def test_epsilons_and_deltas_add_up_as_decimals() -> None:
    both = compose([ONE, TWO])
    assert (both.epsilon, both.delta, both.sensitivity) == (1.5, 1e-6, None)
    assert both.precision == ONE.precision
    assert both.rho is None  # one has a delta
    many = compose([replace(ONE, epsilon=0.1, rho=0.1**2 / 8)] * 30)
    assert many.epsilon == 3.0
    assert many.rho == pytest.approx(30 * 0.1**2 / 8)
    assert many.mechanism == "exponential mechanism, 30 times"
    assert compose([ONE]).epsilon == 1.0


def test_seeds_conditions_and_bounds_are_kept() -> None:
    seeded = replace(ONE, randomness="seeded", bounds=(("x", 1.0), ("y", 2.0)))
    other = replace(ONE, condition="pigs fly", bounds=(("x", 1.0), ("y", 3.0)))
    both = compose([seeded, other])
    assert both.randomness == "seeded"
    assert both.condition == "pigs fly"
    assert both.bounds == (("x", 1.0),)


def test_disjoint_rows_cost_the_worst() -> None:
    both = compose_disjoint([ONE, replace(ONE, epsilon=2.0, rho=0.5)])
    assert (both.epsilon, both.delta, both.rho) == (2.0, 0.0, 0.5)
    assert compose_disjoint([ONE, TWO]).delta == 1e-6
    assert "alongside" in compose_disjoint([ONE, TWO]).mechanism


@pytest.mark.parametrize("add", [compose, compose_disjoint])
def test_what_cannot_be_put_together(add: Any) -> None:
    with pytest.raises(InputError, match="at least one"):
        add([])
    with pytest.raises(InputError, match="different neighbour relations"):
        add([ONE, replace(ONE, neighbours="add-remove")])
    with pytest.raises(InputError, match="only guarantees"):
        add([ONE, 1.0])


# ---- comparison ---------------------------------------------------------------------------------


def test_what_implies_what() -> None:
    weaker = replace(ONE, epsilon=2.0, rho=None)
    assert ONE.implies(ONE)
    assert ONE.implies(weaker)
    assert not weaker.implies(ONE)
    assert not ONE.implies(replace(weaker, rho=0.1))
    assert not TWO.implies(replace(TWO, delta=0.0))
    assert not replace(ONE, condition="x").implies(weaker)
    assert replace(ONE, condition="x").implies(replace(weaker, condition="x"))
    assert not replace(ONE, randomness="seeded").implies(weaker)
    added = replace(ONE, neighbours="add-remove")
    assert added.implies(weaker)  # a replacement is a removal and an addition
    assert not added.implies(replace(weaker, epsilon=1.9))
    assert not replace(ONE, epsilon=0.1).implies(added)


def test_a_condition_does_not_reach_over_two_rows() -> None:
    given = replace(ONE, neighbours="add-remove", condition="x")
    with pytest.raises(InputError, match="table in between"):
        given.for_replace_one()
    assert not given.implies(replace(ONE, epsilon=9.0, rho=None, condition="x"))


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_an_added_row_twice_bounds_a_replaced_row(loss: str) -> None:
    """Laws of an add-remove mechanism on replace-one neighbours: at most twice epsilon."""
    family = next(families(loss, "replace-one", 1))
    mechanism = PermuteAndFlip(1.0, neighbours="add-remove")
    laws = [mechanism.probabilities(q)[1] for q in family.problems]
    worst = max(float(np.abs(laws[i] - laws[j]).max()) for i, j in family.pairs)
    assert 0.2 < worst <= mechanism.guarantee(family.problems[0]).for_replace_one().epsilon


# ---- concentrated privacy -----------------------------------------------------------------------


def divergence(p: np.ndarray, q: np.ndarray, alpha: float) -> float:
    return float(np.log(np.sum(np.exp(alpha * p + (1 - alpha) * q))) / (alpha - 1))


def worst_divergence(mechanism: Any, relation: str, alpha: float) -> float:
    """Return the largest divergence of order alpha, in units of alpha, over 500 pairs or so."""
    found = 0.0
    source = families("absolute", relation, 2)
    for _ in range(8):
        family = next(source)
        laws = [mechanism.probabilities(q)[1] for q in family.problems]
        for i, j in family.pairs:
            for p, q in ((laws[i], laws[j]), (laws[j], laws[i])):
                found = max(found, divergence(p, q, alpha) / alpha)
    return found


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("alpha", [1.01, 2.0, 20.0])
def test_the_bounded_range_bounds_all_divergences(relation: str, alpha: float) -> None:
    epsilon = 2.0
    for mechanism in (
        Exponential(epsilon, neighbours=relation),
        TopR(epsilon, count=3, neighbours=relation),
    ):
        rho = mechanism.guarantee(problem()).rho
        assert rho == epsilon**2 / 8
        assert worst_divergence(mechanism, relation, alpha) <= rho + 1e-9
    flips = PermuteAndFlip(epsilon, neighbours=relation)
    assert flips.guarantee(problem()).rho is None
    assert worst_divergence(flips, relation, alpha) <= epsilon**2 / 2


def test_permute_and_flip_has_no_bounded_range() -> None:
    """Its log ratios span more than epsilon on some pair, which the exponential one's never do."""
    spans = {}
    for mechanism in (PermuteAndFlip(1.0), Exponential(1.0)):
        widest = 0.0
        for _, family in zip(range(40), families("absolute", "replace-one", 2), strict=False):
            laws = np.array([mechanism.probabilities(q)[1] for q in family.problems])
            widest = max(widest, *(float(np.ptp(laws[i] - laws[j])) for i, j in family.pairs))
        spans[mechanism.name] = widest
    assert spans["exponential mechanism"] <= 1.0 + 1e-9
    assert spans["permute-and-flip mechanism"] > 1.0


def test_epsilon_at_a_delta() -> None:
    many = compose([replace(ONE, epsilon=0.1, rho=0.1**2 / 8)] * 100)
    rho = 100 * 0.1**2 / 8
    expected = rho + 2 * math.sqrt(rho * math.log(1e6))
    assert many.epsilon_at(1e-6) == pytest.approx(expected)
    assert many.epsilon_at(0.0) == many.epsilon == 10.0
    assert ONE.epsilon_at(1e-6) == 1.0  # concentrated privacy is worse for one release
    assert TWO.epsilon_at(1e-7) == math.inf
    assert TWO.zcdp() is None


# ---- JSON ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        ONE,
        TWO,
        compose([ONE, TWO]),
        replace(ONE, condition="x", randomness="seeded"),
        Mistakes(1.0).guarantee(problem()),
        Mistakes(1.0, delta=1e-6).guarantee(problem()),
        PermuteAndFlip(1.0, neighbours="add-remove").guarantee(problem()),
    ],
)
def test_json_and_back(given: Guarantee) -> None:
    text = json.dumps(given.to_dict())
    jsonschema.validate(json.loads(text), schema())
    assert Guarantee.from_dict(json.loads(text)) == given
    assert json.loads(text)["sentence"] == given.sentence


def test_the_schema_is_a_schema_and_can_refuse() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    good = ONE.to_dict()
    wrong = [
        good | {"epsilon": -1},
        good | {"epsilon": "1"},
        good | {"neighbours": "x"},
        good | {"more": 1},
        {k: v for k, v in good.items() if k != "delta"},
    ]
    for one in wrong:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(one, schema())
        if "more" not in one:
            with pytest.raises(InputError):
                Guarantee.from_dict(one)
    for nonsense in (None, 3, [], "x", {}):
        with pytest.raises(InputError, match="not a guarantee"):
            Guarantee.from_dict(nonsense)


def test_bounds_and_slack_are_stated() -> None:
    promise = Exponential(1.0).guarantee(problem())
    assert dict(promise.bounds) == {"x": 1.0, "y": 0.5, "radius": 2.0}
    assert promise.precision > 0
    assert "also 0.125-zCDP" in promise.sentence


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": True},
        {"delta": "x"},
        {"rho": -1.0},
        {"mechanism": 3},
        {"condition": 3},
        {"randomness": "dice"},
        {"neighbours": "x"},
    ],
)
def test_nonsense_is_no_guarantee(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        replace(ONE, **wrong)
