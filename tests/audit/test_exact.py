"""The exact audit's own arithmetic, the worst-case search, draws and replays, with broken twins."""

from __future__ import annotations

import dataclasses
import logging
import math
import random
import warnings
from typing import Any

import numpy as np
import pytest
from audit_broken import BROKEN, Discarding, QuarterSensitivity

from dpsubset import Exponential, Mistakes, PermuteAndFlip, Problem, SampleAggregate, TopR, audit
from dpsubset.audit.exact import excess, ratio
from dpsubset.audit.tables import rows_of
from dpsubset.errors import InputError, RefusedError
from dpsubset.privacy import NEIGHBOURS

RNG = np.random.default_rng(5)
ROWS = RNG.choice([-1.0, 1.0], (6, 5))


def problem(rows: np.ndarray = ROWS, **options: Any) -> Problem:
    shape = {"size": 2, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "loss": "absolute"}
    return Problem(rows[:, :-1], rows[:, -1], **{**shape, **options})


def equal_and_not() -> tuple[Problem, Problem]:
    """A table on which all columns are alike, and a neighbour on which one is better."""
    rows = np.ones((3, 4))
    other = np.vstack([rows[:2], [1.0, -1.0, -1.0, 1.0]])
    return problem(rows, size=1), problem(other, size=1)


# ---- laws compared ------------------------------------------------------------------------------


def test_ratio_and_excess_by_hand() -> None:
    p = {(0,): math.log(0.5), (1,): math.log(0.5)}
    q = {(0,): math.log(0.8), (1,): math.log(0.1), (): math.log(0.1)}
    assert ratio(p, q) == ((), math.inf)
    assert ratio(p, p) == ((0,), 0.0)
    assert excess(p, q, 0.0) == pytest.approx(0.4)
    assert excess(p, q, math.log(2.0)) == pytest.approx(0.3)  # 0.5 - 2 * 0.1
    assert excess(p, q, 10.0) == pytest.approx(0.1)  # the refusal, which p never gives
    assert excess({(0,): 0.0}, {(0,): 0.0}, 0.0) == 0.0


@pytest.mark.parametrize("relation", NEIGHBOURS)
def test_an_audit_names_the_pair_and_the_support(relation: str) -> None:
    others = audit.neighbouring(problem(), 40, relation)
    report = audit.exact(QuarterSensitivity(1.0, neighbours=relation), problem(), others)
    assert not report.passed
    first = report.violations[0]
    assert first.support is not None
    law = {}
    for name, table in (("a", problem()), ("b", others[first.pair])):
        supports, logs = QuarterSensitivity(1.0, neighbours=relation).probabilities(table)
        law[name] = dict(zip(map(tuple, supports.tolist()), logs, strict=True))
    gap = abs(law["a"][first.support] - law["b"][first.support])
    assert gap == pytest.approx(first.epsilon)
    assert gap > 1.0
    for words in ("VIOLATED", "pair", str(first.support), "Claimed: The permute-and-flip"):
        assert words in str(report)
    good = audit.exact(PermuteAndFlip(1.0, neighbours=relation), problem(), others)
    assert good.passed
    assert good.epsilon <= 1.0
    assert "PASSED" in str(good)


def test_refusals_are_outcomes() -> None:
    """A mechanism that refuses on one table only is caught by its refusal."""
    equal, other = equal_and_not()
    report = audit.exact(Discarding(1.0), equal, [other])
    assert not report.passed
    assert report.epsilon == math.inf


def test_different_shapes_are_no_neighbours() -> None:
    with pytest.raises(InputError, match="differ in their rows only"):
        audit.exact(Exponential(1.0), problem(), [problem(ridge=1.0)])


def test_the_conditional_guarantee_of_mistakes_is_not_enough() -> None:
    """Without a test the mechanism breaks epsilon on some neighbours, and the audit shows it."""
    found = [
        audit.exact(Mistakes(1.0), q, audit.neighbouring(q, 60, random_state=seed))
        for seed in range(5)
        for q in [problem(np.random.default_rng(seed).choice([-1.0, 1.0], (6, 5)))]
    ]
    assert not all(report.passed for report in found)
    assert all(report.claimed.condition for report in found)


def test_tables_must_be_neighbours() -> None:
    more = problem(np.vstack([ROWS, ROWS[:1]]))
    two = problem(np.vstack([-ROWS[:2], ROWS[2:]]))
    for other in (more, two):
        for look in (audit.sampled, lambda m, a, b: audit.exact(m, a, [b])):
            with pytest.raises(InputError, match="no neighbours under replace-one"):
                look(Exponential(1.0), problem(), other)
    with pytest.raises(InputError, match="no neighbours under add-remove"):
        audit.exact(Exponential(1.0, neighbours="add-remove"), problem(), [problem()])
    with pytest.raises(InputError, match="at least one neighbour"):
        audit.exact(Exponential(1.0), problem(), [])


def test_chances_that_are_too_small_to_add_up_are_compared() -> None:
    """Beyond float64's range a ratio counts all the same where delta is 0."""

    class Underflow(Exponential):
        def _law(self, problem: Problem, supports: Any, scores: Any) -> Any:
            logs = np.full(scores.size, -800.0 - 50.0 * rows_of(problem).sum())
            logs[0] = 0.0
            return logs

    report = audit.exact(Underflow(1.0), problem(), audit.neighbouring(problem(), 3))
    assert report.delta < 1e-100
    assert not report.passed


# ---- the worst neighbour ------------------------------------------------------------------------


@pytest.mark.parametrize("relation", NEIGHBOURS)
@pytest.mark.parametrize("loss", ["absolute", "hinge"])
def test_the_search_finds_worse_neighbours_than_chance(relation: str, loss: str) -> None:
    options = {"loss": loss, "y_bound": None, "classes": (-1, 1)} if loss == "hinge" else {}
    q = problem(**options)
    mechanism = PermuteAndFlip(1.0, neighbours=relation)
    other, report = audit.worst(mechanism, q, starts=3)
    assert report.passed
    assert report.pairs == 1
    typical = np.median(
        [audit.exact(mechanism, q, [n]).epsilon for n in audit.neighbouring(q, 20, relation)]
    )
    assert report.epsilon > typical
    assert abs(other.n_rows - q.n_rows) == (relation == "add-remove")
    a, b = (set(map(tuple, rows_of(one).tolist())) for one in (q, other))
    assert max(len(a - b), len(b - a)) <= 1
    assert not audit.worst(QuarterSensitivity(2.0, neighbours=relation), q)[1].passed


# ---- draws --------------------------------------------------------------------------------------


def clear_pair() -> tuple[Problem, Problem]:
    """Two tables of two rows that a mechanism may tell apart well."""
    rows = np.array([[1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0]])
    other = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, -1.0]])
    return problem(rows, size=1), problem(other, size=1)


@pytest.mark.slow
def test_draws_bound_epsilon_from_below() -> None:
    """The bound exceeds the true value with a chance of at most 1e-6, at this confidence."""
    q, other = clear_pair()
    for mechanism in (Exponential(3.0), PermuteAndFlip(3.0), TopR(3.0, count=2)):
        true = audit.exact(mechanism, q, [other]).epsilon
        found = audit.sampled(
            mechanism, q, other, draws=10_000, confidence=1 - 1e-6, random_state=1
        )
        assert 0.3 * true < found.epsilon <= true
        assert found.passed
        assert "PASSED" in str(found)


@pytest.mark.slow
def test_draws_catch_a_quarter_of_the_sensitivity() -> None:
    q, other = clear_pair()
    found = audit.sampled(QuarterSensitivity(1.0), q, other, draws=20_000, random_state=1)
    assert not found.passed
    assert "VIOLATED" in str(found)


def test_draws_of_a_function() -> None:
    def leaky(q: Problem, count: int, rng: Any) -> list[int]:
        return [q.n_rows] * count

    rows = problem(np.vstack([ROWS, ROWS[:1]]))
    assert not audit.sampled(leaky, problem(), rows, draws=200, epsilon=1.0).passed
    with pytest.raises(InputError, match="epsilon that the function claims"):
        audit.sampled(leaky, problem(), rows)
    with pytest.raises(InputError, match="confidence"):
        audit.sampled(Exponential(1.0), problem(), problem(), confidence=1.0)


# ---- replays ------------------------------------------------------------------------------------


def heavy(q: Problem) -> bool:
    return bool(rows_of(q).sum() > ROWS.sum())


def warns(q: Problem, rng: np.random.Generator) -> None:
    if heavy(q):
        warnings.warn("large sums", stacklevel=1)


def prints(q: Problem, rng: np.random.Generator) -> None:
    print(f"{rows_of(q).sum()}")


def logs(q: Problem, rng: np.random.Generator) -> None:
    logging.getLogger("somewhere").debug("sum %s", rows_of(q).sum())


def raises(q: Problem, rng: np.random.Generator) -> None:
    if heavy(q):
        raise ValueError("no answer")


def tells(q: Problem, rng: np.random.Generator) -> None:
    raise InputError(f"the sum is {rows_of(q).sum()}")


def global_random(q: Problem, rng: np.random.Generator) -> None:
    random.random()


BAD = {
    "warnings": warns,
    "printed words": prints,
    "logged words": logs,
    "endings": raises,
    "global random states": global_random,
}


@pytest.mark.parametrize("kind", BAD)
def test_a_replay_finds_what_differs(kind: str) -> None:
    report = audit.replay(BAD[kind], problem(), audit.neighbouring(problem(), 20))
    assert not report.passed
    assert {d.kind for d in report.differences} == {kind}
    assert kind in str(report)


def test_a_replay_reads_the_words_of_errors() -> None:
    report = audit.replay(tells, problem(), audit.neighbouring(problem(), 5))
    assert [d.kind for d in report.differences if "InputError" in d.first]


def test_random_numbers_are_noted() -> None:
    def draws(q: Problem, rng: np.random.Generator) -> None:
        rng.random(5 if heavy(q) else 3)

    report = audit.replay(draws, problem(), audit.neighbouring(problem(), 20))
    assert report.passed
    assert {d.kind for d in report.differences} == {"random numbers"}
    assert "running time" in str(report.differences[0])


@pytest.mark.parametrize("relation", NEIGHBOURS)
def test_our_mechanisms_say_the_same_for_all_neighbours(relation: str) -> None:
    others = audit.neighbouring(problem(), 15, relation)
    for mechanism in (
        Exponential(1.0, neighbours=relation),
        PermuteAndFlip(1.0, neighbours=relation),
        Mistakes(2.0, delta=0.3, neighbours=relation),
        SampleAggregate(1.0, blocks=2, neighbours=relation),
    ):
        report = audit.replay(mechanism, problem(), others)
        assert report.passed, str(report)
        assert report.neighbours == 15


def test_a_discarded_trial_is_found_and_a_covered_refusal_is_told_apart() -> None:
    equal, other = equal_and_not()
    report = audit.replay(Discarding(1.0), equal, [other])
    assert not report.passed
    assert "UnprovenError" in str(report)

    def tested(q: Problem, rng: np.random.Generator) -> None:
        if heavy(q):
            raise RefusedError("the test did not pass")

    report = audit.replay(tested, problem(), audit.neighbouring(problem(), 20))
    assert report.passed
    assert {d.kind for d in report.differences} == {"covered refusal"}

    def telling(q: Problem, rng: np.random.Generator) -> None:
        raise RefusedError(f"the sum is {rows_of(q).sum()}")

    assert not audit.replay(telling, problem(), audit.neighbouring(problem(), 20)).passed

    class Refusing(Exponential):  # its guarantee has no delta, so it covers no refusal
        def _sampler(self, problem: Problem) -> Any:
            tested(problem, np.random.default_rng(0))
            return super()._sampler(problem)

    assert not audit.replay(Refusing(1.0), problem(), audit.neighbouring(problem(), 20)).passed


def test_a_replay_compares_all_numbers_of_a_guarantee() -> None:
    class Told(Exponential):
        def guarantee(self, problem: Problem) -> Any:
            said = (("x", 1.0 + 1e-12 * abs(rows_of(problem).sum())),)
            return dataclasses.replace(super().guarantee(problem), bounds=said)

    report = audit.replay(Told(1.0), problem(), audit.neighbouring(problem(), 5))
    assert {d.kind for d in report.differences if not d.harmless} == {"guarantees"}


def test_all_broken_mechanisms_are_used() -> None:
    assert len(BROKEN) == 3
