"""Recorded runs of the published solvers: never beaten, matched where they were exact.

One case travels with the tests. The others lie outside the repository, in `shared/reference`
beside it, and are checked wherever that folder exists.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oracle import mistakes_of

from dpsubset import Problem, search

HERE = Path(__file__).resolve().parent
OWN = HERE / "data" / "reference_squared_small.npz"
SHARED = HERE.parents[1] / "shared" / "reference"
OTHERS = sorted(SHARED.glob("squared_*.npz"))
HINGE = sorted(SHARED.glob("hinge_*.npz"))
INEXACT = 4e-3  # how far, in units of the sensitivity, the recorded hinge fits may be off
RELATIVE = 1e-6
EXACT_BUCKETS = 2  # the recorded searches were exact for no and for one mistake, not beyond


class Recorded:
    """A recorded case: the problem, and the supports and scores that the solver gave."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as stored:
            names = ("size", "radius", "ridge", "x_bound", "y_bound")
            parameters = {name: stored[name].item() for name in names}
            loss = path.stem.partition("_")[0] if path in HINGE else "squared"
            self.problem = Problem(stored["X"], stored["y"], loss=loss, **parameters)
            self.supports = stored["supports"]
            self.scores = stored["scores"]
            self.mistakes_supports = stored["mistakes_supports"]
            self.mistakes_scores = stored["mistakes_scores"]


@pytest.fixture(scope="module", params=[OWN, *OTHERS], ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> Recorded:
    return Recorded(request.param)


def test_scores_of_recorded_supports(recorded: Recorded) -> None:
    supports = [*recorded.supports.tolist(), *recorded.mistakes_supports.tolist()]
    ours = np.array([recorded.problem.score(support) for support in supports])
    theirs = np.concatenate([recorded.scores, recorded.mistakes_scores])
    assert np.all(ours <= theirs * (1 + RELATIVE))
    assert np.all(ours >= theirs * (1 - RELATIVE))


def test_best_equals_the_recorded_one(recorded: Recorded) -> None:
    found = search.best(recorded.problem)
    assert found.proven
    assert found.support == tuple(recorded.supports[0].tolist())
    assert found.score == pytest.approx(recorded.scores[0], rel=RELATIVE)


def test_top_is_never_above_the_recorded_list(recorded: Recorded) -> None:
    count = len(recorded.scores)
    found = search.top(recorded.problem, count)
    scores = np.array([one.score for one in found])
    assert len({one.support for one in found}) == count
    assert all(one.proven for one in found)
    assert np.all(scores <= recorded.scores * (1 + RELATIVE))
    # The recorded list is exact (best and all one-swaps) up to our first support with two swaps.
    swaps = mistakes_of(np.array([one.support for one in found]), found[0].support)
    exact = int(np.argmax(swaps > 1)) if np.any(swaps > 1) else count
    np.testing.assert_allclose(scores[:exact], recorded.scores[:exact], rtol=RELATIVE)
    assert exact > 100


def test_buckets_are_never_above_the_recorded_ones(recorded: Recorded) -> None:
    found = search.best_by_mistakes(recorded.problem)
    scores = np.array([one.score for one in found])
    assert all(one.proven for one in found)
    assert np.all(scores <= recorded.mistakes_scores * (1 + RELATIVE))
    first = slice(0, EXACT_BUCKETS)
    np.testing.assert_allclose(scores[first], recorded.mistakes_scores[first], rtol=RELATIVE)
    for one, support in zip(found[first], recorded.mistakes_supports[first], strict=True):
        assert one.support == tuple(support.tolist())


@pytest.mark.parametrize("path", HINGE, ids=lambda path: path.stem)
def test_hinge_is_never_above_the_recorded_objective(path: Path) -> None:
    """The recorded fits are inexact, and the searches beyond one mistake were not the best."""
    recorded = Recorded(path)
    problem, off = recorded.problem, INEXACT * recorded.problem.sensitivity("largest")
    supports = [*recorded.supports.tolist(), *recorded.mistakes_supports.tolist()]
    ours = np.array([problem.score(support) for support in supports])
    theirs = np.concatenate([recorded.scores, recorded.mistakes_scores])
    assert np.all(ours <= theirs + problem.slack)
    assert np.all(ours >= theirs - off)
    listed = search.top(problem, len(recorded.scores))
    buckets = search.best_by_mistakes(problem)
    assert all(one.proven for one in [*listed, *buckets])
    assert listed[0].support == tuple(recorded.supports[0].tolist())
    for found, scores in ((listed, recorded.scores), (buckets, recorded.mistakes_scores)):
        values = np.array([one.score for one in found])
        assert np.all(values <= scores + problem.slack)
    np.testing.assert_allclose(listed[0].score, recorded.scores[0], rtol=0, atol=off)


PAPER = 0.005  # the tolerance of the recorded searches


@pytest.mark.slow
@pytest.mark.parametrize("path", [OWN, *OTHERS, *HINGE], ids=lambda path: path.stem)
def test_outer_approximation_reaches_the_papers_tolerance(path: Path) -> None:
    """Best, best two-swap and every bucket on HiGHS, against our own proven searches."""
    problem = Recorded(path).problem
    count = 2 + (problem.n_columns - problem.size) * problem.size
    for ours, exact in (
        (search.top(problem, count, solver="outer-approximation"), search.top(problem, count)),
        (
            search.best_by_mistakes(problem, solver="outer-approximation"),
            search.best_by_mistakes(problem),
        ),
    ):
        assert len(ours) == len(exact)
        for found, wanted in zip(ours, exact, strict=True):
            assert found.proven
            assert found.gap <= PAPER * found.score
            rounding = 1e-9 * wanted.score
            assert -rounding <= found.score - wanted.score <= found.gap + rounding
