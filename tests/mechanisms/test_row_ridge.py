"""A ridge for every row: scores, sensitivity, and no word of a private number of rows (T47)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpsubset import Exponential, PermuteAndFlip, Problem, audit
from dpsubset.data import Schema, Table
from dpsubset.data.target import Target
from dpsubset.errors import InputError
from dpsubset.losses import LOSSES
from dpsubset.rules import default_row_ridge
from dpsubset.selection import Selection

RELATIONS = ("replace-one", "add-remove")
KINDS = {"exponential": Exponential, "permute-and-flip": PermuteAndFlip}


def _drawn(loss: str, n: int, **more) -> Problem:
    rng = np.random.default_rng(n)
    X = rng.uniform(-1, 1, (n, 5))
    y = X[:, 0] + 0.3 * rng.standard_normal(n)
    labels = LOSSES[loss]().classification
    target = {"classes": (-1.0, 1.0)} if labels else {"y_bound": 1.0}
    y = np.where(y > 0, 1.0, -1.0) if labels else y
    shape = {"size": 2, "x_bound": 1.0, "radius": 1.0, "loss": loss, **target, **more}
    return Problem(X, y, **shape)


@pytest.mark.parametrize("loss", LOSSES)
def test_scores_are_those_of_the_whole_ridge(loss: str) -> None:
    for n in (0, 1, 30):
        by_row = _drawn(loss, n, ridge=0.5, row_ridge=0.25)
        whole = _drawn(loss, n, ridge=0.5 + 0.25 * n)
        assert by_row.ridge == whole.ridge
        assert by_row.score([0, 1]) == pytest.approx(whole.score([0, 1]), rel=1e-9)


@pytest.mark.parametrize("rule", ["tight", "largest", "paper"])
def test_a_row_moves_scores_by_its_ridge_more(rule: str) -> None:
    plain, by_row = _drawn("absolute", 9), _drawn("absolute", 9, row_ridge=0.4)
    assert by_row.sensitivity(rule) == pytest.approx(plain.sensitivity(rule) + 0.4)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.grid(every=4)
def test_exact_audits(loss: str, relation: str) -> None:
    for row_ridge, ridge in ((0.3, 0.0), (1.5, 0.2)):
        problem = _drawn(loss, 4, ridge=ridge, row_ridge=row_ridge)
        near = audit.neighbouring(problem, 40, relation, random_state=1)
        for kind in KINDS.values():
            report = audit.exact(kind(1.0, neighbours=relation), problem, near)
            assert not report.violations


def _far(count: int) -> tuple[Problem, Problem]:
    """Return neighbours whose scores of two columns move apart by more than T38 allows.

    Both columns fit all rows; the first needs the largest coefficient, 2, the other -1. The last
    row has the largest loss by the first, and none by the second.
    """
    rows = np.tile([0.5, -1.0, 1.0], (count, 1))
    more = np.vstack([rows, [1.0, 1.0, -1.0]])
    shape = {"size": 1, "x_bound": 1.0, "y_bound": 1.0, "radius": 2.0, "loss": "absolute"}
    without, with_it = (
        Problem(table[:, :2], table[:, 2], **shape, row_ridge=0.12) for table in (rows, more)
    )
    return without, with_it


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("forgotten", [False, True])
def test_the_ridge_of_a_row_is_paid_for(kind: str, forgotten: bool, monkeypatch) -> None:
    """The twin pays for the loss alone, and must be caught."""
    if forgotten:
        of_loss = {"tight": 3.0, "largest": 3.0}  # b_y + B
        monkeypatch.setattr(
            Problem, "sensitivity", lambda _, rule="tight", reach=None: of_loss[rule]
        )
    without, with_it = _far(200)
    moved = [b.score([j]) - a.score([j]) for a, b in ((without, with_it),) for j in (0, 1)]
    assert moved == pytest.approx([3.48, 0.12])
    mechanism = KINDS[kind](1.0, neighbours="add-remove")
    report = audit.exact(mechanism, without, [with_it])
    assert bool(report.violations) == forgotten
    assert report.epsilon == pytest.approx(3.36 / (3.0 if forgotten else 3.48), rel=0.01)


def _selection(relation: str, **more) -> Selection:
    schema = Schema.of(("a", "b"), 2, (-1, 1), Target((-1.0, 1.0)))
    return Selection(schema=schema, size=1, neighbours=relation, **more)


def test_losses_that_bend_little_or_not_have_one_by_default() -> None:
    numbers = {"absolute": 0.05, "quantile:0.8": 0.05, "huber": 0.01, "huber:0.2": 0.0}
    for loss, expected in numbers.items():
        chosen = _selection("replace-one", loss=loss)
        assert chosen.row_ridge == expected
        assert chosen.asked().get("row_ridge", 0.0) == expected
    assert _selection("replace-one", loss="absolute", row_ridge=0).row_ridge == 0.0
    assert _selection("replace-one").row_ridge == 0.0
    for name in LOSSES:
        expected = {"logistic": 0.002, "huber_hinge": 0.005}.get(name, 0.0)
        assert not LOSSES[name]().classification or default_row_ridge(name) == expected
    again = Selection.from_dict(_selection("add-remove", loss="absolute", row_ridge=0.2).to_dict())
    assert again.row_ridge == 0.2


@pytest.mark.parametrize("bad", [-0.1, math.inf, math.nan, "much"])
def test_bad_ones_are_refused(bad: object) -> None:
    with pytest.raises(InputError, match="row_ridge must be"):
        _selection("replace-one", row_ridge=bad)
    with pytest.raises(InputError, match="row_ridge must be"):
        Problem(np.eye(2), [0, 1], size=1, x_bound=1, y_bound=1, radius=1, row_ridge=bad)


@pytest.mark.parametrize("relation", RELATIONS)
def test_nothing_that_is_said_depends_on_the_number_of_rows(relation: str) -> None:
    """The whole ridge would tell it: guarantee, record and words have its parts only."""
    chosen = _selection(relation, loss="absolute", epsilon=20.0, seed=1)
    said = set()
    for n in (3, 700):
        X = np.random.default_rng(n).uniform(-1, 1, (n, 2))
        problem = chosen.problem(Table(X, X[:, 1]))
        release = chosen.release(problem)
        said.add((repr(problem), repr(chosen.guarantee(problem)), repr(problem.origin.asked)))
        assert "ridge=10 + 0.05 a row" in repr(problem)
        assert release.to_dict()["asked"]["row_ridge"] == 0.05
    assert len(said) == 1
