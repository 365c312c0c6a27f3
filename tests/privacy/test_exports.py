"""Guarantees told to dp_accounting and to OpenDP, tested against the real libraries (T30)."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting import pld, rdp
from opendp.mod import OpenDPException

from dpsubset import (
    Exponential,
    Mistakes,
    PermuteAndFlip,
    Problem,
    SampleAggregate,
    SubsetClassifier,
    SubsetRegressor,
    SubsetSelector,
)
from dpsubset.errors import InputError
from dpsubset.mechanisms import as_measurement
from dpsubset.privacy import compose, to_dp_event

RELATION = {
    "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    "add-remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
}


def table(rows: int = 8) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).choice([-1.0, 1.0], (rows, 4))
    return X, X[:, 1]


def problem(rows: int = 8, **options: Any) -> Problem:
    shape = {"size": 1, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
    return Problem(*table(rows), **{**shape, **options})


# ---- dp_accounting ------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_one_pure_release_has_its_epsilon(epsilon: float) -> None:
    """A PLD accountant that is told of one release finds its epsilon again, at delta 0 or so."""
    event = to_dp_event(PermuteAndFlip(epsilon).guarantee(problem()))
    accountant = pld.PLDAccountant(RELATION["replace-one"])
    accountant.compose(event)
    assert accountant.get_epsilon(1e-12) == pytest.approx(epsilon, abs=1e-3)


@pytest.mark.parametrize("relation", RELATION)
def test_many_exponential_mechanisms(relation: str) -> None:
    """The RDP accountant is at most a little above our own conversion, and far below the sum."""
    promise = Exponential(0.1, neighbours=relation).guarantee(problem())
    event = to_dp_event(promise)
    assert event == dp_accounting.ZCDpEvent(0.1**2 / 8)
    accountant = rdp.RdpAccountant(neighboring_relation=RELATION[relation])
    accountant.compose(event, 200)
    ours = compose([promise] * 200).epsilon_at(1e-6)
    assert accountant.get_epsilon(1e-6) <= ours * 1.02 < 20.0


def test_many_flips_compose_better_than_they_add() -> None:
    promise = PermuteAndFlip(0.1).guarantee(problem())
    accountant = pld.PLDAccountant(RELATION["replace-one"])
    accountant.compose(to_dp_event(promise), 200)
    found = accountant.get_epsilon(1e-6)
    assert found <= compose([promise] * 200).epsilon_at(1e-6) < 20.0


def test_add_remove_takes_concentrated_events() -> None:
    promise = PermuteAndFlip(1.0, neighbours="add-remove").guarantee(problem())
    assert to_dp_event(promise) == dp_accounting.ZCDpEvent(0.5)
    with pytest.raises(InputError, match="concentrated=True"):
        to_dp_event(promise, concentrated=False)
    assert to_dp_event(Exponential(1.0).guarantee(problem()), concentrated=False) == (
        dp_accounting.RandomizedResponseDpEvent(2 / (math.e + 1), 2)
    )


def test_what_accountants_cannot_hold() -> None:
    with pytest.raises(InputError, match="condition"):
        to_dp_event(Mistakes(1.0).guarantee(problem()))
    with pytest.raises(InputError, match="delta"):
        to_dp_event(Mistakes(1.0, delta=1e-6).guarantee(problem()))
    with pytest.raises(InputError, match="seeded"):
        to_dp_event(Exponential(1.0).experiment(problem(), 0).guarantee)


# ---- OpenDP -------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATION)
def test_a_measurement_releases_and_knows_its_price(relation: str) -> None:
    mechanism = PermuteAndFlip(50.0, neighbours=relation)
    measurement = as_measurement(mechanism, problem(400))
    assert measurement.output_measure == dp.max_divergence()
    assert measurement(table(400)) == [1]
    assert measurement.map(1) == 50.0
    assert measurement.map(3) == 150.0
    assert measurement.check(1, 50.0)
    assert not measurement.check(1, 49.9)


def test_a_measurement_draws_by_the_mechanisms_law() -> None:
    """Chances of the best support, by 400 releases; false alarm 1e-6."""
    mechanism = Exponential(4.0)
    supports, logs = mechanism.probabilities(problem())
    best = int(np.argmax(logs))
    measurement = as_measurement(mechanism, problem())
    hits = sum(tuple(measurement(table())) == tuple(supports[best]) for _ in range(400))
    chance = math.exp(logs[best])
    assert 0.2 < chance < 0.9
    assert abs(hits - 400 * chance) < 5 * math.sqrt(400 * chance * (1 - chance))


def test_approximate_and_concentrated_measures() -> None:
    mechanism = Mistakes(1.0, delta=1e-6, otherwise="exponential")
    measurement = as_measurement(mechanism, problem())
    assert measurement.map(1) == (1.0, 1e-6)
    assert measurement.map(2) == (2.0, pytest.approx(1e-6 * (1 + math.e)))
    assert len(measurement(table())) == 1
    assert as_measurement(Exponential(1.0), problem(), concentrated=True).map(2) == 0.5
    with pytest.raises(InputError, match="zero-concentrated"):
        as_measurement(mechanism, problem(), concentrated=True)


def test_shapes_are_checked() -> None:
    fixed = as_measurement(Exponential(1.0), problem())
    private = as_measurement(SampleAggregate(1.0, blocks=2, neighbours="add-remove"), problem())
    X, y = table()
    assert len(private((X[:5], y[:5]))) == 1
    for wrong in ((X[:5], y[:5]), (X[:, :2], y), (X,), X):
        with pytest.raises((OpenDPException, TypeError)):
            fixed(wrong)
    with pytest.raises(InputError, match="condition"):
        as_measurement(Mistakes(1.0), problem())


def estimators() -> dict[str, Any]:
    asked: dict[str, Any] = {"n_features_to_select": 1, "epsilon": 50.0, "bounds_X": (-1, 1)}
    return {
        "selector": SubsetSelector(**asked, bounds_y=(-1, 1)),
        "regressor": SubsetRegressor(**asked, bounds_y=(-1, 1)),
        "classifier": SubsetClassifier(**asked, classes=("no", "yes")),
    }


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("name", list(estimators()))
@pytest.mark.parametrize("relation", RELATION)
def test_estimators_fit_through_a_context(name: str, relation: str) -> None:
    """As OpenDP's own: the context holds the rows and the budget, and answers a fitted model."""
    X, y = table(400)
    target = np.where(y > 0, "yes", "no") if name == "classifier" else y
    asked = estimators()[name].set_params(neighbours=relation)
    fit = asked.measurement(n_samples=400, n_features=4)
    asked.set_params(epsilon=1e9)  # too late: what the map says is what is run
    context = dp.Context.compositor(
        data=(X, target),
        privacy_unit=(fit.input_metric, 1),
        privacy_loss=(fit.output_measure, 100.0),
        split_evenly_over=2,
        domain=fit.input_domain,
    )
    found = context(fit)
    assert found.get_support(indices=True).tolist() == [1]
    assert fit.map(1) == found.guarantee_.epsilon == 50.0
    assert context(fit) is not found
    with pytest.raises(OpenDPException):
        context(fit)
    assert not hasattr(asked, "support_")


def test_measurements_of_one_context_have_one_domain() -> None:
    fit = estimators()["selector"].measurement(n_samples=8, n_features=4)
    assert fit.input_domain == as_measurement(Exponential(1.0), problem()).input_domain
    other = estimators()["selector"].measurement(n_samples=31, n_features=4)
    assert fit.input_domain != other.input_domain


def test_what_no_measurement_can_hold_is_refused() -> None:
    with pytest.raises(InputError, match="random_state"):
        estimators()["selector"].set_params(random_state=0).measurement(8, 4)
    with pytest.raises(InputError, match="condition"):
        estimators()["selector"].set_params(mechanism="mistakes").measurement(8, 4)
    with pytest.raises(InputError, match="n_samples"):
        estimators()["selector"].measurement(0, 4)
