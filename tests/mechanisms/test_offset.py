"""T39: a private offset; its distribution, its guarantee, and the selection that starts from it."""

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
from scipy.special import expit, logsumexp
from scipy.stats import chisquare
from typer.testing import CliRunner

from dpsubset import (
    Exponential,
    Ledger,
    PermuteAndFlip,
    Problem,
    SubsetSelector,
    search,
)
from dpsubset.audit import exact_pairs, families
from dpsubset.audit.families import Family
from dpsubset.cli import app
from dpsubset.data.frames import Table
from dpsubset.data.schema import Schema
from dpsubset.data.target import Target
from dpsubset.errors import BudgetError, InputError
from dpsubset.losses import Absolute, Hinge, HuberHinge, Logistic, Loss, Offset, as_loss, check
from dpsubset.mechanisms.offset import PrivateOffset, grid, moved
from dpsubset.privacy import as_randomness
from dpsubset.selection import Selection

RELATIONS = ("replace-one", "add-remove")
LABELLED: tuple[Loss, ...] = (Logistic(), Hinge(), HuberHinge(0.5), HuberHinge(2.0))


# ---- the loss with an offset --------------------------------------------------------------------


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("loss", LABELLED, ids=repr)
def test_a_loss_with_an_offset_keeps_its_word(loss: Loss) -> None:
    for offset, t_bound in itertools.product((-2.0, 0.0, 0.7, 4.0), (0.2, 3.0)):
        check(Offset(loss, offset), t_bound=t_bound)


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("loss", LABELLED, ids=repr)
def test_scores_with_an_offset_are_those_of_a_constant_that_costs_nothing(loss: Loss) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (60, 5)), rng.choice([-1.0, 1.0], 60)
    shape: dict[str, Any] = {"size": 2, "x_bound": 1.0, "radius": 0.8, "classes": (-1, 1)}
    problem = Problem(X, y, loss=Offset(loss, -1.3), **shape)
    supports = list(itertools.combinations(range(5), 2))
    for support in supports[:3]:
        best = min(
            float(loss.value(y, X[:, support] @ np.array([a, b]) - 1.3).sum())
            for a, b in itertools.product(np.linspace(-0.8, 0.8, 81), repeat=2)
            if a * a + b * b <= 0.64
        )
        assert best - 0.2 <= problem.score(support) <= best
    scores = [problem.score(support) for support in supports]
    found = search.best(problem)
    assert found.support == supports[int(np.argmin(scores))]
    mechanism = PermuteAndFlip(8.0)
    drawn = Counter(map(tuple, mechanism.draw(problem, 4000, random_state=0).tolist()))
    listed, logs = mechanism.probabilities(problem)
    counts = [drawn[tuple(support)] for support in listed.tolist()]
    assert chisquare(counts, 4000 * np.exp(logs)).pvalue > 1e-4


def test_equal_offsets_are_equal() -> None:
    one, other = Offset(Logistic(), 1.0), Offset(Logistic(), 1)
    assert one == other
    assert hash(one) == hash(other)
    assert one != Offset(Hinge(), 1.0)
    assert one != Offset(Logistic(), 2.0)
    assert one != Logistic()
    assert as_loss(one) is one


@pytest.mark.parametrize("offset", [math.nan, math.inf, 1e4, True, "1", None])
def test_an_offset_must_be_a_number(offset: Any) -> None:
    with pytest.raises(InputError, match="between -1000 and 1000"):
        Offset(Logistic(), offset)


@pytest.mark.parametrize("loss", [Absolute(), Offset(Logistic(), 1.0), "logistic"], ids=repr)
def test_an_offset_is_for_labels(loss: Any) -> None:
    with pytest.raises(InputError, match="hinge, logistic, huber_hinge and huber_logistic"):
        Offset(loss, 1.0)


def test_classes_must_be_named_where_there_is_an_offset() -> None:
    X, y = np.eye(2), np.array([-1.0, 1.0])
    with pytest.raises(InputError, match="classes"):
        Problem(X, y, size=1, loss=Offset(Logistic(), 1.0), x_bound=1.0, radius=1.0)


def test_the_outside_solver_does_not_take_a_loss_with_an_offset() -> None:
    pytest.importorskip("highspy")
    X, y = np.eye(3), np.array([-1.0, 1.0, 1.0])
    loss = Offset(Hinge(), 0.5)
    problem = Problem(X, y, size=1, loss=loss, x_bound=1.0, radius=1.0, classes=(-1, 1))
    with pytest.raises(InputError):
        search.best(problem, solver="mip")


# ---- the distribution of the offset -------------------------------------------------------------


def problem_of(y: Any, loss: Any = "absolute") -> Problem:
    kind = as_loss(loss)
    labels = {"classes": (-1, 1)} if kind.classification else {"y_bound": 1.0}
    return Problem(np.ones((len(y), 2)), y, size=1, loss=kind, x_bound=1.0, radius=1.0, **labels)


def law_of(y: np.ndarray, loss: str, epsilon: float, neighbours: str) -> dict[float, float]:
    """Return the log probability of every offset, row by row and number by number."""
    q = 0.8 if loss == "quantile:0.8" else 0.5
    labels = loss in ("logistic", "hinge", "huber_hinge")
    offsets = [k / 10 for k in range(-40, 41)] if labels else [k / 100 for k in range(-100, 101)]
    scores = []
    for o in offsets:
        if labels:
            scores.append(abs(sum(v > 0 for v in y) - len(y) / (1 + math.exp(-o))))
        elif loss == "huber:0.3":
            scores.append(abs(sum(max(-1.0, min(1.0, (v - o) / 0.3)) for v in y)) / 2)
        else:
            left = -math.inf if o == -1 else ((o * 100 - 1) / 100 + o) / 2  # its cell's ends
            right = math.inf if o == 1 else ((o * 100 + 1) / 100 + o) / 2
            below, above = sum(v < left for v in y), sum(v >= right for v in y)
            scores.append(max(0.0, below - q * len(y), above - (1 - q) * len(y)))
    moves = 1.0
    if neighbours == "add-remove":
        moves = 1 / (1 + math.exp(-4.0)) if labels else max(q, 1 - q)
    logs = -epsilon / (2 * moves) * np.array(scores)
    logs -= (np.array(offsets) / (1.0 if labels else 0.4)) ** 2 / 2
    return dict(zip(offsets, (logs - logsumexp(logs)).tolist(), strict=True))


@pytest.mark.grid(every=6)
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(
    "loss", ["absolute", "squared", "huber:0.3", "quantile:0.8", "logistic", "hinge"]
)
def test_draws_follow_the_enumerated_distribution(loss: str, neighbours: str) -> None:
    rng = np.random.default_rng(3)
    labels = as_loss(loss).classification
    y = rng.choice([-1.0, 1.0], 40, p=[0.8, 0.2]) if labels else rng.uniform(-0.2, 0.9, 40)
    problem, private = problem_of(y, loss), PrivateOffset(1.5, neighbours)
    known = law_of(y, loss, 1.5, neighbours)
    offsets, logs = private.probabilities(problem)
    assert offsets.tolist() == pytest.approx(list(known))
    assert logs.tolist() == pytest.approx(list(known.values()), abs=1e-9)
    randomness = as_randomness(1)
    drawn = Counter(round(private.draw(problem, randomness), 6) for _ in range(1500))
    expected = 1500 * np.exp(logs)
    seen = np.array([drawn[round(o, 6)] for o in offsets.tolist()])
    assert seen.sum() == 1500
    usual = expected >= 5.0
    counts = np.append(seen[usual], seen[~usual].sum())
    means = np.append(expected[usual], expected[~usual].sum())
    kept = means > 0.5
    assert (
        chisquare(counts[kept], means[kept] * counts[kept].sum() / means[kept].sum()).pvalue > 1e-4
    )


def tables_of(labels: bool, neighbours: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs of neighbouring targets, from none to some rows, most of them at corners."""
    rng, pairs = np.random.default_rng(5), []
    for n in (0, 1, 2, 3, 7, 30):
        for _ in range(25):
            y = rng.choice([-1.0, 1.0], n, p=(share := rng.dirichlet([1, 1])))
            row = rng.choice([-1.0, 1.0], 1, p=share[::-1])
            if not labels:
                y = np.where(rng.random(n) < 0.5, y, np.round(rng.uniform(-1, 1, n), 2))
                row = row if rng.random() < 0.6 else rng.uniform(-1, 1, 1)
            if neighbours == "add-remove":
                pairs.append((y, np.append(y, row)))
            elif n:
                pairs.append((y, np.append(y[:-1], row)))
    return pairs


def largest_ratio(private: PrivateOffset, loss: str) -> float:
    labels = as_loss(loss).classification
    worst = 0.0
    for pair in tables_of(labels, private.neighbours):
        one, other = (private.probabilities(problem_of(y, loss))[1] for y in pair)
        worst = max(worst, float(np.abs(one - other).max()))
    return worst


@pytest.mark.grid(every=8)
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("loss", ["absolute", "huber:0.3", "quantile:0.8", "logistic"])
def test_the_offset_is_private_and_half_its_sensitivity_would_not_do(
    monkeypatch: pytest.MonkeyPatch, loss: str, neighbours: str
) -> None:
    for epsilon in (0.1, 1.0, 6.0):
        private = PrivateOffset(epsilon, neighbours)
        assert private.guarantee(problem_of([], loss)).epsilon == epsilon
        assert 0.5 * epsilon < largest_ratio(private, loss) <= epsilon * (1 + 1e-9)
    whole = PrivateOffset._sensitivity
    monkeypatch.setattr(PrivateOffset, "_sensitivity", lambda self, q: whole(self, q) / 2)
    assert largest_ratio(PrivateOffset(6.0, neighbours), loss) > 6.1


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("loss", ["absolute", "huber:0.3", "quantile:0.8", "logistic"])
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_sensitivity_of_the_offset_is_attained(loss: str, neighbours: str) -> None:
    moves = 0.0
    for pair in tables_of(as_loss(loss).classification, neighbours):
        problems = [problem_of(y, loss) for y in pair]
        private = PrivateOffset(2.0, neighbours)
        delta = private._sensitivity(problems[0])
        apart = np.diff([private.probabilities(q)[1] for q in problems], axis=0)[0]
        moves = max(moves, float(np.ptp(apart)) * delta / 2.0)  # kappa times twice the move
    assert moves <= delta * (1 + 1e-9)
    assert moves > 0.6 * delta


# ---- selection from an offset -------------------------------------------------------------------


def selection_of(loss: str = "absolute", p: int = 3, **more: Any) -> Selection:
    labels = as_loss(loss).classification
    target = Target(None, ("no", "yes")) if labels else Target((0.0, 10.0))
    names = tuple(f"x{j}" for j in range(p))
    shape = {"size": 1, "loss": loss, "radius": 0.4, "ridge": 0.0, "offset_share": 0.25, **more}
    return Selection(schema=Schema.of(names, p, (-1, 1), target), **shape)


def joint_law(selection: Selection, problem: Problem) -> np.ndarray:
    """Return the log probability of every offset with every support."""
    assert selection.offset is not None
    offsets, logs = selection.offset.probabilities(problem)
    rows = [
        log + selection.made.probabilities(moved(problem, float(o)))[1]
        for o, log in zip(offsets, logs, strict=True)
    ]
    return np.concatenate(rows)


def small_family(loss: str, neighbours: str, seed: int) -> Family:
    return next(f for f in families(loss, neighbours, seed) if f.problems[0].n_columns == 3)


@pytest.mark.grid(every=12)
@pytest.mark.parametrize("mechanism", ["permute-and-flip", "exponential"])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_offset_and_columns_together_keep_epsilon(
    loss: str, neighbours: str, mechanism: str
) -> None:
    selection = selection_of(loss, neighbours=neighbours, mechanism=mechanism)
    promise = selection.guarantee()
    assert promise.epsilon == 1.0
    worst = 0.0
    for seed in range(2):
        family = small_family(loss, neighbours, seed)
        for i, j in family.pairs[:: len(family.pairs) // 3]:
            one, other = (joint_law(selection, family.problems[k]) for k in (i, j))
            assert logsumexp(one) == pytest.approx(0.0, abs=1e-9)
            worst = max(worst, float(np.abs(one - other).max()))
    assert 0.1 < worst <= 1.0 + 1e-8


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_sensitivity_without_the_offset_would_not_do(neighbours: str) -> None:
    """With it a loss moves on another part of its range, where it is steeper."""

    class Forgetful(Exponential):
        def kappa(self, problem: Problem) -> float:
            loss = problem.loss
            assert isinstance(loss, Offset)
            own = loss.loss.spread(1.0, problem.radius * math.sqrt(problem.size))
            return super().kappa(problem) * problem.sensitivity() / own

    pull = np.tile([0.5, 0.5, 1.0], (200, 1))
    lead = np.tile([0.5, 0.0, 1.0], (2000, 1))
    tables = [np.vstack([pull, lead, [1.0, -1.0, 1.0]]), np.vstack([pull, lead, [-1.0, 1.0, 1.0]])]
    if neighbours == "add-remove":
        tables[1] = tables[1][:-1]
    shape: dict[str, Any] = {"size": 1, "x_bound": 1.0, "radius": 1.0, "classes": (-1, 1)}
    problems = [
        Problem(t[:, :-1], t[:, -1], loss=Offset(Logistic(), -2.0), **shape) for t in tables
    ]
    sound = exact_pairs(Exponential(1.0, neighbours=neighbours), problems, [(0, 1)])
    assert sound.passed
    assert sound.epsilon > 0.95
    assert not exact_pairs(Forgetful(1.0, neighbours=neighbours), problems, [(0, 1)]).passed


def rows_of(n: int = 400, labels: bool = False) -> Table:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 3))
    y = 8.0 + X[:, 1]
    return Table(X, np.where(X[:, 1] > 0.7, "yes", "no") if labels else y)


@pytest.mark.parametrize("labels", [False, True])
def test_a_release_holds_offset_and_columns_and_is_charged_once(
    tmp_path: Path, labels: bool
) -> None:
    ledger = Ledger(tmp_path / "budget.db", epsilon=25.0)
    selection = selection_of("logistic" if labels else "absolute", epsilon=20.0)
    release = selection.release(rows_of(labels=labels), ledger)
    assert release.columns == ("x1",)
    assert release.offset is not None
    assert -2.5 < release.offset < -1.0 if labels else 7.5 < release.offset < 8.5
    told = release.to_dict()
    assert told["released"] == {"positions": [1], "columns": ["x1"], "offset": release.offset}
    assert told["asked"]["offset_share"] == 0.25
    assert told["asked"]["mechanism"]["epsilon"] == 15.0
    assert "private offset (epsilon 5) followed by permute-and-flip mechanism (epsilon 15)" in str(
        release.guarantee
    )
    assert f"offset {release.offset:.6g}" in str(release)
    assert "offset" in release._repr_html_()
    (entry,) = ledger.history()
    assert entry.guarantee.epsilon == 20.0
    assert entry.released == told["released"]
    with pytest.raises(BudgetError):
        selection.release(rows_of(labels=labels), ledger)


def test_the_offset_is_in_the_units_of_the_clipped_target() -> None:
    selection = selection_of(epsilon=200.0, clip=0.5, seed=0)
    release = selection.release(rows_of())  # clipped to (2.5, 7.5): nearly all rows are at the end
    assert release.offset == pytest.approx(7.5, abs=0.06)
    assert release.guarantee.randomness == "seeded"
    again = selection.release(rows_of())
    assert (again.offset, again.support) == (release.offset, release.support)


def test_a_moved_target_is_clipped_to_the_same_bound() -> None:
    problem = problem_of(np.array([-1.0, 0.0, 0.5, 1.0]))
    assert moved(problem, 0.7).y.tolist() == pytest.approx([-1.0, -0.7, -0.2, 0.3])
    assert moved(problem, 0.7).sensitivity() == problem.sensitivity()
    labels = problem_of(np.array([-1.0, 1.0]), "logistic")
    assert moved(labels, -1.5).loss == Offset(Logistic(), -1.5)
    assert moved(labels, -1.5).sensitivity() > labels.sensitivity()


def test_without_a_share_nothing_changes() -> None:
    plain, zero = selection_of(offset_share=0.0), selection_of(offset_share=0)
    assert "offset_share" not in plain.asked()
    assert plain.offset is None
    release = zero.release(rows_of())
    assert release.offset is None
    assert set(release.to_dict()["released"]) == {"positions", "columns"}


def test_shares_are_decimals() -> None:
    promise = selection_of(epsilon=3.0, offset_share=0.05).guarantee()
    assert promise.epsilon == 3.0
    assert "(epsilon 0.15) followed by permute-and-flip mechanism (epsilon 2.85)" in str(promise)


def test_the_guarantee_covers_every_offset() -> None:
    selection = selection_of("logistic", epsilon=1.0)
    problem = selection.rehearsal()
    each = [
        selection.made.guarantee(moved(problem, float(o))).precision for o in grid(problem)[::8]
    ]
    assert selection.guarantee().precision >= max(each)
    trials = {"mechanism": "top-r", "trials": 2, "accounting": "paper", "count": 2}
    finite = selection_of("logistic", **trials)
    full = finite.problem(rows_of(50, labels=True))
    most = max(finite.made.guarantee(moved(full, float(o))).epsilon for o in grid(full))
    assert finite.guarantee(full).epsilon == pytest.approx(most + 0.25)
    assert "weaker than the epsilon of 1.0 asked for" in str(finite.weaker(full))
    assert selection.weaker(problem) is None


def test_a_table_without_rows_tells_nothing() -> None:
    for loss in ("absolute", "logistic"):
        selection = selection_of(loss, neighbours="add-remove")
        offsets, logs = selection.offset.probabilities(selection.rehearsal())  # type: ignore[union-attr]
        scale = 1.0 if loss == "logistic" else 0.4
        known = np.exp(-((offsets / scale) ** 2) / 2)
        assert np.exp(logs).tolist() == pytest.approx((known / known.sum()).tolist())
        assert selection.release(selection.schema.nothing()).offset in [
            pytest.approx(selection.first.in_units(o, selection.schema.target.limits))
            for o in offsets
        ]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"offset_share": 1.0}, "0 \\(no offset\\) or a number below 1"),
    ({"offset_share": -0.1}, "number below 1"),
    ({"offset_share": math.nan}, "number below 1"),
    ({"offset_share": "0.1"}, "number below 1"),
    ({"offset_share": True}, "number below 1"),
    ({"mechanism": PermuteAndFlip(1.0)}, "mechanisms by name"),
    ({"mechanism": "sample-aggregate"}, "looks at no scores"),
    ({"mechanism": "mistakes"}, "condition on the table"),
    ({"mechanism": "markov-chain"}, "condition on the table"),
]


@pytest.mark.parametrize(("given", "expected"), WRONG, ids=range(len(WRONG)))
def test_what_an_offset_is_not_for(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        selection_of(**given)


def test_an_offset_for_labels_needs_their_names() -> None:
    schema = Schema.of(None, 2, (-1, 1), Target(None))
    with pytest.raises(InputError, match="must be public: give classes"):
        Selection(schema=schema, size=1, loss="logistic", offset_share=0.1)


def test_mistakes_with_a_test_takes_an_offset() -> None:
    selection = selection_of(mechanism="mistakes", delta=0.01, epsilon=30.0)
    assert selection.release(rows_of(3000)).columns == ("x1",)
    assert selection.guarantee().delta == 0.01


def test_estimators_and_the_command(tmp_path: Path) -> None:
    table = rows_of(600)
    selector = SubsetSelector(
        n_features_to_select=1,
        epsilon=20.0,
        bounds_X=(-1, 1),
        bounds_y=(0, 10),
        radius=0.4,
        offset_share=0.1,
    )
    assert selector.fit(table.X, table.y).get_support().tolist() == [False, True, False]
    assert selector.release_.offset == pytest.approx(8.0, abs=0.4)
    frame = pd.DataFrame(table.X, columns=["a", "b", "c"]).assign(y=table.y)
    frame.to_csv(tmp_path / "table.csv", index=False)
    bounds = "\n".join(["[columns]", *(f"{name} = [-1, 1]" for name in "abc"), "y = [0, 10]"])
    (tmp_path / "bounds.toml").write_text(bounds)
    typed = ["select", str(tmp_path / "table.csv"), "--target", "y", "--size", "1"]
    typed += ["--bounds", str(tmp_path / "bounds.toml"), "--epsilon", "20", "--radius", "0.4"]
    shown = CliRunner().invoke(app, [*typed, "--offset-share", "0.1"])
    assert shown.exit_code == 0, shown.output
    assert "\noffset " in shown.output
    assert "private offset (epsilon 2)" in shown.output
    told = CliRunner().invoke(app, [*typed, "--offset-share", "0.1", "--json"])
    assert json.loads(told.output)["released"]["offset"] == pytest.approx(8.0, abs=0.4)
    refused = CliRunner().invoke(app, [*typed, "--offset-share", "1.5"])
    assert refused.exit_code == 2
    assert "--offset-share must be 0" in refused.output


def test_log_odds_are_those_of_the_noisy_share() -> None:
    y = np.repeat([1.0, -1.0], [60, 940])
    drawn = PrivateOffset(50.0, "replace-one").draw(problem_of(y, "logistic"), as_randomness(0))
    assert expit(drawn) == pytest.approx(0.06, abs=0.01)
