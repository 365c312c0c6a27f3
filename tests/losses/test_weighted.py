"""T36: public weights of two classes; the loss, its bounds, all mechanisms, coefficients, words."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare
from typer.testing import CliRunner

from dpsubset import (
    Exponential,
    MarkovChain,
    Mistakes,
    PermuteAndFlip,
    Problem,
    SampleAggregate,
    SubsetClassifier,
    SubsetSelector,
    TopR,
    search,
)
from dpsubset.arrays import Floats
from dpsubset.audit import exact_pairs, families
from dpsubset.audit.densities import Law, derivatives, make_grid
from dpsubset.cli import app
from dpsubset.coefficients import ObjectivePerturbation
from dpsubset.cuts.minorant import row_curvature
from dpsubset.errors import InputError
from dpsubset.labels import Labels
from dpsubset.losses import Brier, Hinge, HuberHinge, Logistic, Loss, Offset, Weighted, check
from dpsubset.mechanisms.offset import PrivateOffset, moved, with_target

RELATIONS = ("replace-one", "add-remove")
PLAIN: tuple[Loss, ...] = (Logistic(), Hinge(), HuberHinge(0.5), Brier())
LOSSES = (*PLAIN, Offset(Logistic(), -2.0), Offset(Hinge(), 0.7))
WEIGHTS = ((1.0, 5.0), (0.4, 0.05))


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_weighted_loss_keeps_its_word(loss: Loss) -> None:
    for weights, t_bound in itertools.product(WEIGHTS, (0.2, 3.0)):
        check(Weighted(loss, weights), t_bound=t_bound)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_largest_and_spread_are_those_of_a_grid(loss: Loss) -> None:
    for weights, t_bound in itertools.product(WEIGHTS, (0.1, 1.0, 4.0)):
        weighted, t = Weighted(loss, weights), np.linspace(-t_bound, t_bound, 2001)
        values = [
            weight * loss.value(np.full(t.size, label), t)
            for label, weight in zip((-1.0, 1.0), weights, strict=True)
        ]
        assert weighted.largest(1.0, t_bound) == pytest.approx(max(v.max() for v in values))
        assert weighted.spread(1.0, t_bound) == pytest.approx(max(np.ptp(v) for v in values))


def test_weights_of_one_are_no_weights() -> None:
    rng = np.random.default_rng(0)
    y, t = rng.choice([-1.0, 1.0], 50), rng.normal(size=50)
    one = Weighted(Logistic(), (1, 1))
    assert one.value(y, t).tolist() == Logistic().value(y, t).tolist()
    assert one.slopes(y, t).tolist() == Logistic().slopes(y, t).tolist()
    assert one == Weighted(Logistic(), (1.0, 1.0))
    assert hash(one) == hash(Weighted(Logistic(), (1.0, 1.0)))
    assert one != Weighted(Logistic(), (1.0, 2.0))
    assert one != Weighted(Hinge(), (1.0, 1.0))
    assert one != Logistic()


def posed(n: int = 60, p: int = 5, **more: Any) -> Problem:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (n, p))
    y = np.where(X[:, 1] + 0.5 * rng.normal(size=n) > 0.8, 1.0, -1.0)
    shape = {"size": 2, "x_bound": 1.0, "radius": 1.5, "ridge": 0.5, "classes": (-1, 1)}
    return Problem(X, y, **{"loss": "logistic", "class_weights": (1, 4), **shape, **more})


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("loss", ["logistic", "hinge", "huber_hinge", "huber_logistic"])
def test_scores_are_those_of_rows_that_are_repeated(loss: str) -> None:
    """A weight of 4 is four copies of a row: searches, scores and draws agree."""
    plain = posed(loss=loss, class_weights=None)
    X, y = plain.design.take(range(5)), plain.y
    copies = np.repeat(np.arange(y.size), np.where(y > 0, 4, 1))
    shape: dict[str, Any] = {"x_bound": 1.0, "radius": 1.5, "ridge": 0.5, "classes": (-1, 1)}
    repeated = Problem(X[copies], y[copies], size=2, loss=loss, **shape)
    weighted = posed(loss=loss)
    supports = list(itertools.combinations(range(5), 2))
    scores = [repeated.score(s) for s in supports]
    assert [weighted.score(s) for s in supports] == pytest.approx(scores, abs=1e-6)
    assert search.best(weighted).support == search.best(repeated).support
    found = [f.score for f in search.top(weighted, 4)]
    assert found == pytest.approx(sorted(scores)[:4], abs=1e-6)
    assert weighted.sensitivity() == pytest.approx(4 * repeated.sensitivity())


@pytest.mark.parametrize("mechanism", [PermuteAndFlip, Exponential])
def test_draws_follow_the_enumerated_distribution(mechanism: Any) -> None:
    problem, private = posed(), mechanism(20.0)
    listed, logs = private.probabilities(problem)
    drawn = Counter(map(tuple, private.draw(problem, 3000, random_state=0).tolist()))
    counts = np.array([drawn[tuple(s)] for s in listed.tolist()], dtype=float)
    means = 3000 * np.exp(logs)
    rare = means < 5
    counts, means = (np.append(v[~rare], v[rare].sum()) for v in (counts, means))
    kept = means > 0
    assert chisquare(counts[kept], means[kept]).pvalue > 1e-4


def test_minorants_lie_below_a_weighted_loss() -> None:
    problem = posed(n=40)
    t = np.linspace(-2, 2, 401)
    for t0 in np.random.default_rng(0).uniform(-2, 2, (10, 40)):
        value, slope, gamma = row_curvature(problem, t0, np.full(40, 2.0))
        for i in range(40):
            below = value[i] + slope[i] * (t - t0[i]) + gamma[i] * (t - t0[i]) ** 2
            at = problem.loss.value(np.full(t.size, problem.y[i]), t)
            assert (below <= at + 1e-9).all()
    assert gamma.max() > 0


# ---- audits -------------------------------------------------------------------------------------


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("mechanism", [PermuteAndFlip, Exponential, TopR])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_no_distribution_moves_by_more_than_epsilon(
    loss: str, neighbours: str, mechanism: Any
) -> None:
    for family in itertools.islice(families(loss, neighbours, 0), 3):
        problems = [
            with_target(q, Labels(q.y, named=True), Weighted(q.loss, (1.0, 5.0)))
            for q in family.problems
        ]
        assert exact_pairs(mechanism(1.0, neighbours=neighbours), problems, family.pairs).passed


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("loss", PLAIN, ids=repr)
def test_epsilon_is_nearly_attained_and_the_plain_sensitivity_is_caught(
    loss: Loss, neighbours: str
) -> None:
    class Forgetful(Exponential):
        def kappa(self, problem: Problem) -> float:
            assert isinstance(problem.loss, Weighted)
            own = problem.loss.loss.spread(1.0, problem.radius * math.sqrt(problem.size))
            return super().kappa(problem) * problem.sensitivity() / own

    pull = np.tile([0.5, 0.5, 1.0], (400, 1))
    lead = np.tile([0.5, 0.0, 1.0], (2000, 1))
    tables = [
        np.vstack([pull, lead, [1.0, -1.0, -1.0]]),
        np.vstack([pull, lead, [-1.0, 1.0, -1.0]]),
    ]
    if neighbours == "add-remove":
        tables[1] = tables[1][:-1]
    shape: dict[str, Any] = {"size": 1, "x_bound": 1.0, "radius": 0.4, "classes": (-1, 1)}
    problems = [
        Problem(t[:, :-1], t[:, -1], loss=loss, class_weights=(5.0, 1.0), **shape) for t in tables
    ]
    sound = exact_pairs(Exponential(1.0, neighbours=neighbours), problems, [(0, 1)])
    assert sound.passed
    assert sound.epsilon > 0.9
    assert not exact_pairs(Forgetful(1.0, neighbours=neighbours), problems, [(0, 1)]).passed


def test_every_mechanism_takes_weights_or_says_that_they_do_nothing() -> None:
    problem = posed(n=200)
    for mechanism in (TopR(2.0), Mistakes(2.0), MarkovChain(2.0, steps=50)):
        assert mechanism.experiment(problem, 0).support
    with pytest.raises(InputError, match="class weights would do nothing"):
        SampleAggregate(2.0).release(problem)


@dataclass(frozen=True)
class WeightedLaw(Law):
    """The law of coefficients where rows have weights."""

    weights: tuple[float, float] = (1.0, 1.0)

    def around(self, beta: Floats) -> tuple[Floats, Floats]:
        w = np.where(self.y > 0, self.weights[1], self.weights[0])
        slope, curve = (w * d for d in derivatives(self.loss, self.y, beta @ self.rows.T))
        gradient = slope @ self.rows + 2 * self.ridge * beta
        outer = self.rows[:, :, None] * self.rows[:, None, :]
        hessian = np.tensordot(curve, outer, 1) + 2 * self.ridge * np.eye(beta.shape[1])
        return gradient, hessian


def excess(loss: str, neighbours: str, size: int) -> float:
    """Return the largest log ratio of densities above the budget."""
    rng, weights = np.random.default_rng(size), (1.0, 6.0)
    rows, others = rng.choice([-1.0, 1.0], (4, size + 1)), rng.choice([-1.0, 1.0], (5, size + 1))
    others[:2] = [[1.0] * (size + 1), [-1.0] * size + [1.0]]
    tables = [np.vstack([rows, other]) for other in others]
    pairs = list(itertools.combinations(range(5), 2))
    if neighbours == "add-remove":
        tables, pairs = [*tables, rows], [(i, 5) for i in range(5)]
    mechanism = ObjectivePerturbation(2.0, neighbours=neighbours, curvature_share=0.4)
    problem = Problem(
        tables[0][:, :-1],
        tables[0][:, -1],
        size=size,
        x_bound=1.0,
        radius=1.0,
        loss=loss,
        classes=(-1, 1),
        class_weights=weights,
    )
    given = mechanism.constants(problem)
    grid = make_grid(1, 1.0, 80) if size == 1 else make_grid(2, 1.0, 14, 20)
    laws = [
        WeightedLaw(
            loss,
            t[:, :-1],
            t[:, -1],
            given.ridge,
            1.0,
            given.scale,
            False,
            parts=given.parts,
            weights=weights,
        ).on(grid)
        for t in tables
    ]
    worst = max(float(np.abs(laws[i] - laws[j]).max()) for i, j in pairs)
    return worst - given.noise_epsilon - given.curvature_epsilon


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("loss", ["logistic", "huber_hinge:0.5", "huber_logistic:0.5"])
def test_densities_of_coefficients_keep_the_budget(loss: str, neighbours: str, size: int) -> None:
    assert excess(loss, neighbours, size) <= 1e-9


@pytest.mark.parametrize("bound", ["steepest", "most_curved"])
def test_bounds_without_the_weights_are_caught(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = getattr(Weighted, bound)
    monkeypatch.setattr(Weighted, bound, lambda self, *a: whole(self, *a) / max(self.weights))
    assert max(excess("huber_hinge:0.5", "add-remove", k) for k in (1, 2)) > 0.1


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_offset_of_a_weighted_loss_keeps_epsilon(neighbours: str) -> None:
    private, rng, worst = PrivateOffset(3.0, neighbours), np.random.default_rng(0), 0.0
    for n in (1, 5, 60):
        for _ in range(20):
            y, row = rng.choice([-1.0, 1.0], n), rng.choice([-1.0, 1.0], 1)
            other = np.append(y if neighbours == "add-remove" else y[:-1], row)
            one, two = (
                private.probabilities(
                    Problem(
                        np.ones((v.size, 1)),
                        v,
                        size=1,
                        loss="logistic",
                        x_bound=1.0,
                        radius=1.0,
                        classes=(-1, 1),
                        class_weights=(0.2, 3.0),
                    )
                )[1]
                for v in (y, other)
            )
            worst = max(worst, float(np.abs(one - two).max()))
    assert 1.0 < worst <= 3.0 * (1 + 1e-9)


def test_an_offset_goes_below_the_weights() -> None:
    problem = posed()
    assert moved(problem, 1.5).loss == Weighted(Offset(Logistic(), 1.5), (1, 4))
    y = np.repeat([1.0, -1.0], [100, 900])
    drawn = PrivateOffset(50.0, "replace-one").probabilities(
        Problem(
            np.ones((1000, 1)),
            y,
            size=1,
            loss="logistic",
            x_bound=1.0,
            radius=1.0,
            classes=(-1, 1),
            class_weights=(1, 9),
        )
    )
    assert drawn[0][np.argmax(drawn[1])] == 0.0  # log odds of 9 * 100 to 900


# ---- words --------------------------------------------------------------------------------------

WRONG: list[tuple[Any, str]] = [
    ("balanced", "computed from it"),
    ((1,), "two numbers"),
    ((0, 1), "between 0.001 and 1000"),
    ((1, math.inf), "two numbers"),
    ((True, 1), "two numbers"),
    (3, "two numbers"),
    ({"no": 1}, "for the two classes"),
    ({"no": 1, "maybe": 2}, "for the two classes"),
]


@pytest.mark.parametrize(("given", "expected"), WRONG, ids=range(len(WRONG)))
def test_wrong_weights_are_refused(given: Any, expected: str) -> None:
    X, y = np.eye(4), np.array(["no", "yes", "no", "yes"])
    shape: dict[str, Any] = {"n_features_to_select": 1, "bounds_X": (0, 1)}
    for kind in (SubsetSelector, SubsetClassifier):
        with pytest.raises(InputError, match=expected):
            kind(classes=("no", "yes"), class_weights=given, **shape).fit(X, y)
    with pytest.raises(InputError, match="must be public"):
        SubsetSelector(loss="logistic", class_weights=(1, 2), **shape).fit(X, y)
    with pytest.raises(InputError, match="holds numbers"):
        SubsetSelector(bounds_y=(0, 1), class_weights=(1, 2), **shape).fit(X, np.arange(4.0))
    with pytest.raises(InputError, match="hinge, logistic, huber_hinge and huber_logistic"):
        Weighted(Weighted(Logistic(), (1, 1)), (1, 1))


@pytest.mark.slow
def test_estimators_and_the_command_take_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 3))
    y = np.where(X[:, 1] + 0.3 * rng.normal(size=3000) > 0.9, "yes", "no")
    shape: dict[str, Any] = {"n_features_to_select": 1, "bounds_X": (-1, 1), "epsilon": 20.0}
    named = {"classes": ("no", "yes"), "random_state": 0}
    plain = SubsetClassifier(**shape, **named).fit(X, y)
    heavy = SubsetClassifier(class_weights={"yes": 8, "no": 1}, **shape, **named).fit(X, y)
    assert (heavy.predict(X) == "yes").mean() > 1.5 * (plain.predict(X) == "yes").mean()
    selector = SubsetSelector(class_weights=(1, 8), **shape, **named).fit(X, y)
    assert selector.release_.asked["class_weights"] == {"no": 1.0, "yes": 8.0}
    assert selector.release_.asked["loss"] == "brier"
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "b.toml").write_text("[columns]\na = [-1, 1]\nb = [-1, 1]\nc = [-1, 1]\n")
    typed = [str(tmp_path / "t.csv"), "--target", "y", "--bounds", str(tmp_path / "b.toml")]
    typed += ["--size", "1", "--epsilon", "20", "--classes", "no,yes"]
    told = CliRunner().invoke(app, ["select", *typed, "--class-weights", "yes=8,no=1", "--json"])
    assert told.exit_code == 0, told.output
    asked = json.loads(told.output)["asked"]
    assert asked["class_weights"] == {"no": 1.0, "yes": 8.0}
    assert asked["loss"] == "brier"
    model = tmp_path / "m.json"
    fit = ["fit", *typed, "--class-weights", "yes=8,no=1", "--output", str(model)]
    assert CliRunner().invoke(app, fit).exit_code == 0
    assert json.loads(model.read_text())["asked"]["class_weights"] == {"no": 1.0, "yes": 8.0}
    for wrong in ("balanced", "yes=8", "yes=8,no=a", "yes=1,maybe=2"):
        refused = CliRunner().invoke(app, ["select", *typed, "--class-weights", wrong])
        assert refused.exit_code == 2, wrong
