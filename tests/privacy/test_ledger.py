"""What a ledger allows, refuses, writes down and survives; and the `ledger=` of all that spend."""

from __future__ import annotations

import copy
import math
import os
import pickle
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from dpsubset import (
    Exponential,
    LassoStability,
    Ledger,
    MarkovChain,
    Mistakes,
    PermuteAndFlip,
    Problem,
    SampleAggregate,
    SubsetClassifier,
    SubsetRegressor,
    SubsetSelector,
    TopR,
)
from dpsubset.coefficients import NoisyStatistics, ObjectivePerturbation
from dpsubset.errors import (
    BudgetError,
    DpsubsetError,
    InputError,
    LedgerError,
    RefusedError,
    UnprovenError,
)
from dpsubset.limits import Limits
from dpsubset.privacy import Guarantee
from dpsubset.privacy import ledger as module

SHARED = "/dev/shm"  # forcing to disk takes most of a charge's time, and no test here is about it


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=SHARED if os.path.isdir(SHARED) else None) as name:
        yield Path(name) / "budget.db"


def promise(epsilon: float = 0.1, delta: float = 0.0, neighbours: str = "replace-one") -> Guarantee:
    return Guarantee("exponential mechanism", epsilon, neighbours, 1.0, delta=delta)


def spend(ledger: Any, epsilon: float = 0.1, delta: float = 0.0, **asked: Any) -> None:
    with ledger.charge(promise(epsilon, delta), asked) as record:
        record({"support": [3]})


def spend_while(ledger: Ledger, happens: Callable[[], object]) -> None:
    """Let something happen between a spend and its outcome."""
    with ledger.charge(promise(), {}) as record:
        record({"support": [3]})
        happens()


def refuses(ledger: Any, epsilon: float, delta: float = 0.0) -> bool:
    """Whether a charge is refused; then its block has not run, and nothing is spent."""
    before, ran = (ledger.spent, len(ledger.history())), False
    try:
        with ledger.charge(promise(epsilon, delta), {}) as record:
            ran = True
            record({})
    except BudgetError:
        assert not ran
        assert (ledger.spent, len(ledger.history())) == before
        return True
    return False


def exact(value: float) -> Fraction:
    return Fraction(Decimal(repr(value)))


# Sums


def test_thirty_tenths_fit_in_three(path: Path) -> None:
    ledger = Ledger(path, epsilon=3.0)
    for i in range(30):
        spend(ledger, i=i)
    assert ledger.spent == (3.0, 0.0)
    assert ledger.remaining == (0.0, 0.0)
    for least in (0.1, 1e-9, 1e-20):
        assert refuses(ledger, least)
    assert [entry.asked["i"] for entry in ledger.history()] == list(range(30))


def test_sums_are_those_of_the_decimals(path: Path) -> None:
    """As float64 three tenths are more than 0.3, and ten are less than 1."""
    three, ten = Ledger(path, epsilon=0.3), Ledger(f"{path}2", epsilon=1.0)
    for _ in range(3):
        spend(three)
    for _ in range(10):
        spend(ten)
    assert refuses(three, 1e-20)
    assert refuses(ten, 1e-17)


def test_large_and_small_together(path: Path) -> None:
    ledger = Ledger(path, epsilon=1e6)
    spend(ledger, 999_999.0)
    for _ in range(20):
        spend(ledger, 1e-9)
    assert refuses(ledger, 1.0)
    spend(ledger, 0.99999998)
    assert ledger.spent == (1e6, 0.0)
    assert refuses(ledger, 1e-20)


def test_what_remains_can_be_spent(path: Path) -> None:
    """It is rounded down: nobody is promised what there is not."""
    for i, used in enumerate((1e-20, 1e-9, 0.1, 1 / 3, 123_456.789, 999_999.9999999)):
        ledger = Ledger(f"{path}{i}", epsilon=1e6)
        spend(ledger, used)
        left = ledger.remaining[0]
        assert 0 <= 1_000_000 - exact(used) - exact(left) <= exact(math.ulp(1e6))
        spend(ledger, left)
        assert exact(ledger.spent[0]) >= exact(used)


class Floats:
    """A broken twin: it adds float64 numbers as they are."""

    def __init__(self, path: object, epsilon: float) -> None:
        self.epsilon, self.sum, self.entries = epsilon, 0.0, 0

    @property
    def spent(self) -> tuple[float, float]:
        return self.sum, 0.0

    def history(self) -> range:
        return range(self.entries)

    @contextmanager
    def charge(self, guarantee: Guarantee, asked: object) -> Iterator[Callable[[Any], None]]:
        if self.sum + guarantee.epsilon > self.epsilon:
            raise BudgetError
        self.sum, self.entries = self.sum + guarantee.epsilon, self.entries + 1
        yield bool


def agrees(kind: Any, path: object, budget: float, epsilons: list[float]) -> bool:
    """Whether a ledger allows exactly what fits, by fractions."""
    ledger, total = kind(path, epsilon=budget), Fraction(0)
    for epsilon in epsilons:
        fits = total + exact(epsilon) <= exact(budget)
        if refuses(ledger, epsilon) == fits:
            return False
        total += exact(epsilon) if fits else 0
    return abs(exact(ledger.spent[0]) - total) <= exact(math.ulp(float(total)))


DECIMALS = st.builds(
    lambda digits, shift: float(f"{digits}e{shift}"), st.integers(1, 999), st.integers(-12, 4)
)
ANY = st.floats(1e-20, 1e20)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_any_charges_against_fractions(data: st.DataObject) -> None:
    epsilons = data.draw(st.lists(st.one_of(DECIMALS, ANY), min_size=1, max_size=12))
    # A budget near the sum of some of them, where the last digit decides.
    near = float(sum(exact(e) for e in data.draw(st.lists(st.sampled_from(epsilons), min_size=1))))
    budget = data.draw(st.sampled_from([near, np.nextafter(near, 0), np.nextafter(near, np.inf)]))
    with tempfile.TemporaryDirectory(dir=SHARED if os.path.isdir(SHARED) else None) as name:
        assert agrees(Ledger, Path(name) / "a", min(max(float(budget), 1e-20), 1e20), epsilons)


def test_broken_twin_of_the_sums(path: Path) -> None:
    for budget, epsilons in ((0.3, [0.1] * 3), (1.0, [0.1] * 10 + [1e-17])):
        assert agrees(Ledger, f"{path}{budget}", budget, epsilons)
        assert not agrees(Floats, None, budget, epsilons)


def test_delta_has_a_budget_too(path: Path) -> None:
    ledger, pure = Ledger(path, epsilon=3.0, delta=1e-6), Ledger(f"{path}2", epsilon=3.0)
    spend(ledger, 0.1, 6e-7)
    assert refuses(ledger, 0.1, 4.000001e-7)
    spend(ledger, 0.1, 4e-7)
    spend(ledger)  # pure charges still fit
    assert refuses(ledger, 0.1, 1e-15)
    assert refuses(ledger, 2.8, 0.0)
    assert ledger.spent == (0.3, 1e-6)
    assert ledger.remaining == (2.7, 0.0)
    assert refuses(pure, 0.1, 1e-15)
    assert (pure.delta, ledger.delta) == (0.0, 1e-6)


@pytest.mark.parametrize("bad", [-0.1, -1e-9, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_a_charge_is_never_a_gift(path: Path, name: str, bad: float) -> None:
    ledger = Ledger(path, epsilon=1.0, delta=0.1)
    spend(ledger, 0.5)
    with pytest.raises((InputError, BudgetError)):  # noqa: SIM117
        with ledger.charge(promise(**{"epsilon": 0.1, name: bad}), {}):
            pytest.fail("the block ran")
    assert ledger.spent == (0.5, 0.0)


# What is written down


def test_history(path: Path) -> None:
    ledger = Ledger(path, epsilon=3.0, delta=1e-5, neighbours="replace-one")
    with ledger.charge(promise(0.5, 1e-6), {"size": 3, "names": ["a", "ü"]}) as record:
        (during,) = ledger.history()
        record({"support": [1, 4]})
    (entry,) = Ledger(path).history()
    assert (during.outcome, during.released) == ("spent", None)
    assert (entry.number, entry.outcome, entry.released) == (1, "released", {"support": [1, 4]})
    assert entry.asked == {"size": 3, "names": ["a", "ü"]}
    kept = entry.guarantee if isinstance(entry.guarantee, dict) else entry.guarantee.to_dict()
    assert (kept["epsilon"], kept["delta"], kept["neighbours"]) == (0.5, 1e-6, "replace-one")
    assert abs(datetime.fromisoformat(entry.time) - datetime.now(UTC)) < timedelta(days=1)
    for part in ("0.5", "3", "replace-one"):
        assert part in str(ledger)


class Peculiar(BaseException):
    """An error of nobody's."""


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RefusedError, "refused"),
        (UnprovenError, "refused"),
        (InputError, "failed"),
        (MemoryError, "failed"),
        (KeyboardInterrupt, "failed"),
        (SystemExit, "failed"),
        (GeneratorExit, "failed"),
        (StopIteration, "failed"),
        (sqlite3.OperationalError, "failed"),
        (Peculiar, "failed"),
    ],
)
@pytest.mark.parametrize("recorded", [False, True])
def test_outcomes(path: Path, error: type[BaseException], outcome: str, recorded: bool) -> None:
    """The error comes out as it went in, and the budget stays spent."""
    ledger = Ledger(path, epsilon=1.0)
    thrown = error("why")

    def work() -> None:
        with ledger.charge(promise(), {}) as record:
            if recorded:
                record({"support": [1]})
            raise thrown

    with pytest.raises(error) as caught:
        work()
    (entry,) = ledger.history()
    assert caught.value is thrown
    assert (entry.outcome, entry.released) == (outcome, None)
    assert ledger.spent == (0.1, 0.0)


def test_charges_inside_each_other(path: Path) -> None:
    """No lock is held while a block runs."""
    ledger = Ledger(path, epsilon=0.3)
    with ledger.charge(promise(), {}) as outer:
        with Ledger(path).charge(promise(), {}) as inner:
            spend(ledger)
            assert refuses(ledger, 0.1)
            inner({"which": 2})
        outer({"which": 1})
    assert [entry.released for entry in ledger.history()] == [
        {"which": 1},
        {"which": 2},
        {"support": [3]},
    ]


@pytest.mark.parametrize(
    ("guarantee", "asked"),
    [
        (promise(neighbours="add-remove"), {}),
        (promise(), {"what": object()}),
        (promise(), None),
        ("exponential", {}),
        (None, {}),
    ],
)
def test_mistakes_in_what_is_asked_spend_nothing(path: Path, guarantee: Any, asked: Any) -> None:
    ledger = Ledger(path, epsilon=1.0)
    with pytest.raises(InputError), ledger.charge(guarantee, asked):
        pytest.fail("the block ran")
    assert ledger.spent == (0.0, 0.0)
    assert ledger.history() == []


def test_a_release_that_cannot_be_written_is_not_released(path: Path) -> None:
    ledger = Ledger(path, epsilon=1.0)
    with pytest.raises((InputError, LedgerError)), ledger.charge(promise(), {}) as record:
        record({"support": object()})
    assert ledger.history()[0].outcome in ("spent", "failed")
    assert ledger.spent == (0.1, 0.0)


def test_a_refusal_says_what_is_asked_and_what_is_left(path: Path) -> None:
    """And does not round what is left up to what is asked."""
    ledger = Ledger(path, epsilon=0.4999999999)
    spend(ledger, 0.4)
    with pytest.raises(BudgetError, match="nothing was spent") as caught:
        spend(ledger, 0.1)
    assert str(caught.value).count("0.1") == 1
    assert "0.09" in str(caught.value)


@pytest.mark.parametrize("clock", [lambda i: 0.0, lambda i: 2e9 - 86_400.0 * 365 * i])
def test_a_clock_that_goes_back(
    path: Path, clock: Callable[[int], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.fromtimestamp(clock(now), tz)

    ledger = Ledger(path, epsilon=0.5)
    monkeypatch.setattr(time, "time", lambda: clock(now))
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * clock(now)))
    monkeypatch.setattr(module, "datetime", Clock, raising=False)
    for now in range(5):
        spend(Ledger(path), i=now)
    entries = ledger.history()
    assert [entry.asked["i"] for entry in entries] == list(range(5))
    assert [entry.number for entry in entries] == list(range(1, 6))
    times = [entry.time for entry in entries]
    assert times == sorted(times, reverse=True)  # the clock was asked, and is not believed
    assert refuses(ledger, 1e-9)
    assert ledger.spent == (0.5, 0.0)


# Files


def test_an_existing_ledger_keeps_its_budget(path: Path) -> None:
    Ledger(path, epsilon=3.0, delta=1e-6, neighbours="add-remove")
    for same in ({}, {"epsilon": 3.0}, {"epsilon": 3}, {"delta": 1e-6, "neighbours": "add-remove"}):
        ledger = Ledger(str(path), **same)
        assert (ledger.epsilon, ledger.delta, ledger.neighbours) == (3.0, 1e-6, "add-remove")
    for name, other in (("epsilon", 3.1), ("delta", 0.0), ("neighbours", "replace-one")):
        with pytest.raises(InputError, match=name):
            Ledger(path, **{"epsilon": 3.0, name: other})
    assert Ledger(path).epsilon == 3.0


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": "3"},
        {"epsilon": True},
        {"epsilon": 1.0, "delta": -1e-9},
        {"epsilon": 1.0, "delta": float("nan")},
        {"epsilon": 1.0, "delta": 1.5},
        {"epsilon": 1.0, "neighbours": "friends"},
        {"delta": 1e-6},
        {},
    ],
)
def test_bad_budgets_make_no_file(path: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Ledger(path, **bad)
    assert os.listdir(path.parent) == []


def foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE entries (number INTEGER)")
    connection.commit()
    connection.close()


def truncated(path: Path, pages: int) -> None:
    ledger = Ledger(path, epsilon=3.0)
    for _ in range(40):
        spend(ledger, 0.01, text="x" * 200)
    all_pages = path.stat().st_size // 4096
    assert all_pages > 4
    os.truncate(path, 4096 * (pages % all_pages))


SPOILT: dict[str, Callable[[Path], object]] = {
    "not a database": lambda path: path.write_bytes(b"age,dose\n1,2\n" * 100),
    "noise": lambda path: path.write_bytes(np.random.default_rng(0).bytes(9000)),
    "a directory": lambda path: path.mkdir(),
    "empty": lambda path: path.touch(),
    "a foreign database": foreign,
    "one page": lambda path: truncated(path, 1),
    "all but one page": lambda path: truncated(path, -1),
    "a header only": lambda path: path.write_bytes(b"SQLite format 3\x00"),
    "missing": lambda path: None,
    "a link to nothing": lambda path: path.symlink_to(path.parent / "nothing"),
}


def everything(ledger: Ledger) -> None:
    for look in (lambda: ledger.spent, lambda: ledger.remaining, ledger.history, ledger.__str__):
        look()
    spend(ledger, 1e-9)


def contents(path: Path) -> Any:
    return path.read_bytes() if path.is_file() else path.exists()


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_files_that_are_no_ledger(path: Path, spoil: Callable[[Path], object]) -> None:
    """They are refused with the path in the text, and left alone."""
    spoil(path)
    before = contents(path)
    # A missing file is what a budget is for, and an empty one may be what a dying creator left.
    creating = spoil in [SPOILT[kind] for kind in ("missing", "a link to nothing", "empty")]
    for budget in [None] if creating else [None, 3.0]:
        with pytest.raises((InputError, LedgerError)) as caught:
            everything(Ledger(path, epsilon=budget))
        assert path.name in str(caught.value)
        assert contents(path) == before


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_ledger_that_is_spoilt_while_in_use(path: Path, spoil: Callable[[Path], object]) -> None:
    ledger = Ledger(path, epsilon=3.0)
    spend(ledger)
    path.unlink()
    spoil(path)
    before = contents(path)
    for use in (lambda: ledger.spent, lambda: ledger.remaining, ledger.history, ledger.__str__):
        with pytest.raises((InputError, LedgerError)):
            use()
    with pytest.raises((InputError, LedgerError)), ledger.charge(promise(), {}):
        pytest.fail("the block ran")
    assert contents(path) == before  # above all, a new ledger does not take its place


def test_a_ledger_that_is_gone_when_the_outcome_is_written(path: Path) -> None:
    ledger = Ledger(path, epsilon=3.0)
    with pytest.raises(LedgerError):
        spend_while(ledger, path.unlink)
    assert not path.exists()


def test_a_ledger_that_is_another_when_the_outcome_is_written(path: Path) -> None:
    """An older copy was put back, or a new one begun: the spend is not in it, so no release."""
    ledger = Ledger(path, epsilon=3.0)
    old = path.read_bytes()
    with pytest.raises(LedgerError):
        spend_while(ledger, lambda: path.write_bytes(old))
    assert ledger.history() == []


@pytest.mark.parametrize(
    "name", ["a b.db", "a?mode=memory", "a#b", "a%41", "ü", "a'\"b", "-", ":memory:"]
)
def test_names_of_files(path: Path, name: str) -> None:
    """A ledger is in the file of its name and in no other."""
    other = path.parent / name
    spend(Ledger(other, epsilon=1.0))
    assert os.listdir(path.parent) == [name]
    assert Ledger(other).spent == (0.1, 0.0)


def test_places_where_no_file_can_be(path: Path) -> None:
    for nowhere in (path / "below", path.parent / "no" / "such"):
        path.touch()
        with pytest.raises((InputError, LedgerError), match=path.parent.name):
            Ledger(nowhere, epsilon=1.0)
    for bad in (None, 5, b"budget.db", "", str(path.parent / "a\x00b"), path.parent / ("a" * 300)):
        for budget in (None, 1.0):
            with pytest.raises((InputError, LedgerError)):
                Ledger(bad, epsilon=budget)  # type: ignore[arg-type]
    assert os.listdir(path.parent) == ["budget.db"]


def only_own_errors(path: Path) -> int:
    """Use a file in every way; return how many were refused, by errors of dpsubset's own."""
    for other in path.parent.glob(f"{path.name}-*"):
        other.unlink()  # a journal that an earlier try made SQLite begin
    refused = 0
    for use in (everything, lambda ledger: ledger.history(), str, lambda ledger: ledger.spent):
        try:
            use(Ledger(path))
        except DpsubsetError:
            refused += 1
    return refused


def test_flipped_bytes_and_torn_ends(path: Path) -> None:
    """Whatever the bytes of the file, errors are dpsubset's own."""
    ledger = Ledger(path, epsilon=3.0)
    for _ in range(8):
        spend(ledger, 0.25, size=3, names=["a", "b"])
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    used = np.flatnonzero(np.frombuffer(whole, dtype=np.uint8))
    refused = 0
    for place in rng.choice(used, 300):
        path.write_bytes(whole[:place] + rng.bytes(1) + whole[place + 1 :])
        refused += only_own_errors(path)
    assert refused > 100
    for size in rng.choice(len(whole), 30):
        path.write_bytes(whole[:size])
        refused += only_own_errors(path)


def test_locked_for_too_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(path, epsilon=3.0)
    connect = sqlite3.connect
    holder = connect(path, isolation_level=None)
    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda *given, **options: connect(*given, **{**options, "timeout": 0.05}),
    )
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerError), ledger.charge(promise(), {}):
        pytest.fail("the block ran")
    with pytest.raises(LedgerError):
        ledger.history()
    holder.execute("ROLLBACK")
    with pytest.raises(LedgerError):
        spend_while(ledger, lambda: holder.execute("BEGIN EXCLUSIVE"))
    holder.execute("ROLLBACK")
    holder.close()
    assert [entry.outcome for entry in ledger.history()] == ["spent"]
    spend(ledger)


def test_copies_share_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    ledger = Ledger("budget.db", epsilon=0.3)
    monkeypatch.chdir("/")
    for other in (pickle.loads(pickle.dumps(ledger)), copy.deepcopy(ledger), ledger):
        spend(other)
    assert refuses(Ledger(path), 1e-9)
    assert eval(repr(ledger), {"Ledger": Ledger}).spent == (0.3, 0.0)


# Mechanisms, coefficients and estimators

ROWS = 120


def table(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(-1, 1, (rows, 4))
    return X, 0.9 * X[:, 0]


def problem(rows: int = ROWS, loss: str = "squared") -> Problem:
    X, y = table(rows)
    return Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0, loss=loss)


MECHANISMS: dict[str, Callable[..., Any]] = {
    "exponential": lambda **given: Exponential(0.1, **given),
    "permute-and-flip": lambda **given: PermuteAndFlip(0.1, **given),
    "top-r": lambda **given: TopR(0.1, **given),
    "top-r, weaker": lambda **given: TopR(0.1, count=2, trials=10, accounting="sharp", **given),
    "mistakes": lambda **given: Mistakes(0.1, **given),
    "markov-chain": lambda **given: MarkovChain(0.1, steps=20, **given),
    "sample-aggregate": lambda **given: SampleAggregate(0.1, blocks=3, **given),
    "lasso-stability": lambda **given: LassoStability(0.1, 1e-6, blocks=3, **given),
    "mistakes with a test": lambda **given: Mistakes(0.1, delta=1e-6, **given),
}
COEFFICIENTS: dict[str, Callable[..., Any]] = {
    "objective": lambda **given: ObjectivePerturbation(0.1, **given),
    "objective, gaussian": lambda **given: ObjectivePerturbation(0.1, delta=1e-6, **given),
    "statistics": lambda **given: NoisyStatistics(0.1, **given),
}
COMMON = {"n_features_to_select": 1, "epsilon": 0.1, "bounds_X": (-1, 1)}
ESTIMATORS: dict[str, Callable[..., Any]] = {
    "selector": lambda **given: SubsetSelector(**COMMON, bounds_y=(-1, 1), **given),
    "regressor": lambda **given: SubsetRegressor(**COMMON, bounds_y=(-1, 1), **given),
    "classifier": lambda **given: SubsetClassifier(**COMMON, classes=(0, 1), **given),
}
SPENDERS = MECHANISMS | COEFFICIENTS | ESTIMATORS
WORK = ("_sampler", "_chains", "_fit_chains", "_fit")  # where a table and randomness meet


def release(name: str, spender: Any, rows: int = ROWS) -> Any:
    """Spend once; a refusal by a test that is part of the mechanism is an outcome as well."""
    try:
        if name in MECHANISMS:
            return spender.release(problem(rows)).support
        if name in COEFFICIENTS:
            return spender.release(problem(rows), [0]).values
        X, y = table(rows)
        return spender.fit(X, np.where(y > 0, 1, 0) if name == "classifier" else y).support_
    except RefusedError:
        return None


def epsilon_of(entry: Any) -> float:
    kept = entry.guarantee
    return float(kept["epsilon"] if isinstance(kept, dict) else kept.epsilon)


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note whenever a mechanism meets the table."""
    seen: list[str] = []

    def noting(name: str, work: Any) -> Any:
        return lambda *given, **options: seen.append(name) or work(*given, **options)

    kinds = {type(make()) for make in (MECHANISMS | COEFFICIENTS).values()}
    for kind in kinds:
        for name in WORK:
            if hasattr(kind, name):
                monkeypatch.setattr(kind, name, noting(name, getattr(kind, name)))
    return seen


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("name", SPENDERS)
def test_one_release_is_one_charge(path: Path, name: str, worked: list[str]) -> None:
    ledger = Ledger(path, epsilon=1.0, delta=1e-3)
    spender = SPENDERS[name](ledger=ledger)
    released = release(name, spender)
    assert worked
    (entry,) = ledger.history()
    assert entry.outcome == ("refused" if released is None else "released")
    assert (entry.released is None) == (released is None)
    least = 0.1 if name != "top-r, weaker" else 0.101
    assert ledger.spent[0] == epsilon_of(entry) >= least
    assert ledger.spent[1] == (1e-6 if name in TESTED else 0.0)
    # A path will do, and a second release is a second charge.
    release(name, SPENDERS[name](ledger=str(path)))
    assert len(ledger.history()) == 2
    assert epsilon_of(ledger.history()[1]) == epsilon_of(entry)


TESTED = ("lasso-stability", "mistakes with a test", "objective, gaussian")


@pytest.mark.parametrize("name", SPENDERS)
def test_without_budget_nothing_runs(path: Path, name: str, worked: list[str]) -> None:
    ledger = Ledger(path, epsilon=0.09, delta=1e-3)
    with pytest.raises(BudgetError):
        release(name, SPENDERS[name](ledger=ledger))
    assert worked == []
    assert (ledger.spent, ledger.history()) == ((0.0, 0.0), [])


@pytest.mark.parametrize("name", ["exponential", "objective", "regressor"])
def test_broken_twin_of_the_charges(
    path: Path, name: str, worked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    charge = Ledger.charge

    @contextmanager
    def late(self: Ledger, guarantee: Guarantee, asked: Any) -> Iterator[Any]:
        yield bool
        with charge(self, guarantee, asked):
            pass

    monkeypatch.setattr(Ledger, "charge", late)
    with pytest.raises(BudgetError):
        release(name, SPENDERS[name](ledger=Ledger(path, epsilon=0.09)))
    assert worked  # it is seen


@pytest.mark.parametrize("name", TESTED)
def test_without_delta_nothing_runs(path: Path, name: str, worked: list[str]) -> None:
    with pytest.raises(BudgetError):
        release(name, SPENDERS[name](ledger=Ledger(path, epsilon=9.0)))
    assert worked == []


@pytest.mark.parametrize("name", SPENDERS)
def test_another_relation_is_refused(path: Path, name: str, worked: list[str]) -> None:
    ledger = Ledger(path, epsilon=1.0, delta=1e-3, neighbours="add-remove")
    with pytest.raises(InputError, match="replace-one"):
        release(name, SPENDERS[name](ledger=ledger))
    assert worked == []
    assert ledger.history() == []


@pytest.mark.parametrize("name", SPENDERS)
def test_the_entry_does_not_tell_the_number_of_rows(path: Path, name: str) -> None:
    """Under add-remove it is private, and whoever reads the ledger reads its entries."""
    ledger = Ledger(path, epsilon=1.0, delta=1e-3, neighbours="add-remove")
    for rows in (ROWS, ROWS + 1):
        spender = SPENDERS[name](ledger=ledger, neighbours="add-remove")
        release(name, spender, rows)
    first, second = ledger.history()
    assert first.asked == second.asked
    assert first.guarantee == second.guarantee
    assert str(ROWS) not in f"{first.asked} {first.guarantee}"


@pytest.mark.parametrize("name", MECHANISMS)
def test_draws_and_experiments(path: Path, name: str, worked: list[str]) -> None:
    plain, ledger = SPENDERS[name](), Ledger(path, epsilon=0.5, delta=4e-6)
    mechanism = SPENDERS[name](ledger=ledger)
    drawn = mechanism.draw(problem(), 3, random_state=0)
    assert np.array_equal(drawn, plain.draw(problem(), 3, random_state=0))
    cost = 3 * exact(plain.guarantee(problem()).epsilon)
    assert ledger.spent == pytest.approx((float(cost), 3e-6 if name in TESTED else 0.0), rel=1e-12)
    try:
        mechanism.experiment(problem(), 0)
    except RefusedError:
        assert name in TESTED
    spent = ledger.spent
    assert spent[0] == pytest.approx(float(4 * cost / 3), rel=1e-12)
    worked.clear()
    with pytest.raises(BudgetError):
        mechanism.draw(problem(), 4)
    with pytest.raises(InputError):
        mechanism.probabilities(problem())
    assert mechanism.draw(problem(), 0).shape == (0, 1)
    assert ledger.spent == spent
    assert worked == []  # nothing that is not paid meets the table


def test_draws_cost_what_they_say(path: Path) -> None:
    """Three draws at 0.1 cost 0.3, though their sum in float64 is larger."""
    Exponential(0.1, ledger=Ledger(path, epsilon=0.3)).draw(problem(), 3)
    assert Ledger(path).spent == (0.3, 0.0)


def test_many_draws_are_a_short_entry(path: Path) -> None:
    ledger = Ledger(path, epsilon=1e3)
    Exponential(0.1, ledger=ledger).draw(problem(), 200, random_state=0)
    (entry,) = ledger.history()
    assert len(str(entry.guarantee)) < 1000


WRONG: dict[str, Callable[[Ledger], Any]] = {
    "count": lambda ledger: Exponential(1.0, ledger=ledger).draw(problem(), -1),
    "seed": lambda ledger: Exponential(1.0, ledger=ledger).experiment(problem(), "seed"),
    "top-r": lambda ledger: TopR(1.0, count=99, ledger=ledger).release(problem()),
    "solver": lambda ledger: TopR(1.0, solver="mip", accept_gap=True, ledger=ledger).release(
        rough()
    ),
    "l1": lambda ledger: MarkovChain(1.0, ball="l1", ledger=ledger).release(rough()),
    "lasso": lambda ledger: LassoStability(1.0, method="perturbation", ledger=ledger).release(
        rough()
    ),
    "blocks": lambda ledger: LassoStability(1e-5, ledger=ledger).release(problem()),
    "statistics": lambda ledger: NoisyStatistics(1.0, ledger=ledger).release(rough(), [0]),
    "steep": lambda ledger: ObjectivePerturbation(1.0, ledger=ledger).release(rough(), [0]),
    "support": lambda ledger: ObjectivePerturbation(1.0, ledger=ledger).release(problem(), [7]),
    "coefficient seed": lambda ledger: ObjectivePerturbation(1.0, ledger=ledger).release(
        problem(), [0], "seed"
    ),
    "clip": lambda ledger: ESTIMATORS["selector"](ledger=ledger, clip=-1.0).fit(*table()),
    "coefficient loss": lambda ledger: ESTIMATORS["regressor"](
        ledger=ledger, coefficient_loss="absolute"
    ).fit(*table()),
    "delta": lambda ledger: ESTIMATORS["regressor"](ledger=ledger, delta=0.3).fit(*table()),
}


def rough() -> Problem:
    return problem(loss="absolute")


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_mistakes_that_hold_for_all_tables_cost_nothing(
    path: Path, wrong: Callable[[Ledger], Any]
) -> None:
    ledger = Ledger(path, epsilon=1e3, delta=1e-3)
    with pytest.raises(InputError):
        wrong(ledger)
    assert ledger.history() == []


def test_what_ends_in_the_work_stays_spent(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(path, epsilon=1.0, delta=1e-3)
    with pytest.raises(UnprovenError):
        MarkovChain(0.1, limits=Limits(nodes=1), ledger=ledger).release(problem())
    with pytest.raises(RefusedError):
        LassoStability(0.1, 1e-9, blocks=2, ledger=ledger).release(problem())
    for error in (MemoryError, KeyboardInterrupt):

        def fails(*given: Any, error: type[BaseException] = error) -> Any:
            raise error

        monkeypatch.setattr(Exponential, "_sampler", fails)
        with pytest.raises(error):
            Exponential(0.1, ledger=ledger).release(problem())
        monkeypatch.setattr(ObjectivePerturbation, "_fit", fails)
        with pytest.raises(error):
            ESTIMATORS["regressor"](ledger=ledger).fit(*table())
    outcomes = [entry.outcome for entry in ledger.history()]
    assert outcomes == ["refused", "refused"] + ["failed"] * 4
    assert ledger.spent == (0.6, 1e-9)


@pytest.mark.parametrize("name", SPENDERS)
def test_copies_of_spenders_share_the_ledger(path: Path, name: str) -> None:
    ledger = Ledger(path, epsilon=1.0, delta=1e-3)
    spender = SPENDERS[name](ledger=ledger)
    copies = [pickle.loads(pickle.dumps(spender)), copy.deepcopy(spender)]
    if name in ESTIMATORS:
        copies.append(clone(spender))
        assert copies[-1].get_params()["ledger"] is not None
    for other in copies:
        release(name, other)
    assert len(ledger.history()) == len(copies)
    assert "budget.db" in repr(spender)


@pytest.mark.parametrize("name", SPENDERS)
def test_a_ledger_must_be_one(path: Path, name: str) -> None:
    for bad in (5, path.parent / "missing.db", path.parent, {"epsilon": 3.0}):
        with pytest.raises((InputError, LedgerError)):
            release(name, SPENDERS[name](ledger=bad))
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fit_is_charged_whole_wherever_the_ledger_is(path: Path, name: str) -> None:
    """A mechanism object with a ledger inside a model: the coefficients must not go unpaid."""
    ledger = Ledger(path, epsilon=1.0)
    for outside in (None, ledger):
        before = len(ledger.history())
        spender = ESTIMATORS[name](mechanism=PermuteAndFlip(0.05, ledger=ledger), ledger=outside)
        spender.set_params(epsilon=0.1 if name != "selector" else 0.05)
        try:
            release(name, spender)
        except InputError:
            assert len(ledger.history()) == before
            continue
        charged = sum(exact(epsilon_of(entry)) for entry in ledger.history()[before:])
        assert charged == exact(spender.guarantee_.epsilon)


def test_a_ledger_with_two_names_is_refused(tmp_path: Path) -> None:
    """SQLite's journal has the name that was given: through another one it would not be seen."""
    ledger = Ledger(tmp_path / "budget.db", epsilon=3.0)
    os.link(tmp_path / "budget.db", tmp_path / "other.db")
    for path in ("budget.db", "other.db"):
        with pytest.raises(LedgerError, match="hard links"):
            Ledger(tmp_path / path)
    (tmp_path / "other.db").unlink()
    assert ledger.remaining[0] == 3.0
    (tmp_path / "link.db").symlink_to(tmp_path / "budget.db")
    assert Ledger(tmp_path / "link.db").remaining[0] == 3.0


@pytest.mark.parametrize("share", [0.05, 0.3, 0.37])
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.1])
def test_a_model_costs_no_more_than_its_epsilon(
    tmp_path: Path, epsilon: float, share: float
) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (30, 3))
    ledger = Ledger(tmp_path / "budget.db", epsilon=epsilon)
    SubsetRegressor(
        n_features_to_select=1, epsilon=epsilon, selection_share=share, bounds_X=(-1, 1),
        bounds_y=(-1, 1), ledger=ledger,
    ).fit(X, X[:, 0])  # fmt: skip
    assert ledger.spent[0] <= epsilon


def test_what_is_charged_is_what_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mechanism that is changed while it is charged runs as it was."""
    X = np.random.default_rng(0).uniform(-1, 1, (30, 3))
    q = Problem(X, X[:, 0], size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    mechanism = Exponential(0.01, ledger=Ledger(tmp_path / "budget.db", epsilon=3.0))
    real, used = Ledger._spend, []

    def spend(self: Ledger, *given: Any) -> str:
        mechanism.epsilon = 1e6
        return real(self, *given)

    monkeypatch.setattr(Ledger, "_spend", spend)
    sampler = Exponential._sampler
    monkeypatch.setattr(
        Exponential, "_sampler", lambda self, q: (used.append(self.epsilon), sampler(self, q))[1]
    )
    assert mechanism.release(q).guarantee.epsilon == 0.01
    assert used == [0.01]
