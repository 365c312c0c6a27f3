"""Losses by name, and losses of one's own."""

from collections.abc import Iterator

import pytest

from dpsubset.errors import InputError
from dpsubset.losses import (
    LOSSES,
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Quantile,
    Squared,
    as_loss,
    register,
)


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """Forget the losses that a test registers."""
    before = dict(LOSSES)
    yield
    LOSSES.clear()
    LOSSES.update(before)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("squared", Squared()),
        ("absolute", Absolute()),
        ("huber", Huber(0.1)),
        ("huber:0.2", Huber(0.2)),
        ("huber:5", Huber(5)),
        ("quantile", Quantile(0.5)),
        ("quantile:0.9", Quantile(0.9)),
        ("hinge", Hinge()),
        ("logistic", Logistic()),
    ],
)
def test_a_name_gives_its_loss(name: str, loss: Loss) -> None:
    assert as_loss(name) == loss
    assert type(as_loss(name)) is type(loss)
    assert as_loss(loss) is loss
    assert hash(as_loss(name)) == hash(loss)


def test_parameters_tell_losses_apart() -> None:
    assert Huber(0.1) != Huber(0.2)
    assert Quantile(0.5) != Absolute()
    assert Hinge() != Logistic()
    assert len({as_loss(name) for name in LOSSES}) == len(LOSSES)
    shown = [repr(as_loss(name)) for name in ("huber:0.2", "quantile:0.9", "absolute", "hinge")]
    assert shown == ["Huber(0.2)", "Quantile(0.9)", "Absolute()", "Hinge()"]


@pytest.mark.parametrize(
    "unknown", ["hinge?", "", ":0.1", "Squared", ["squared"], None, 3, Squared]
)
def test_unknown_names_are_refused_with_the_known_ones(unknown: object) -> None:
    with pytest.raises(InputError, match=f"allowed: {', '.join(sorted(LOSSES))}"):
        as_loss(unknown)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad",
    [
        "huber:x",
        "huber:0.1,0.2",
        "quantile:0.9:1",
        "squared:2",
        "hinge:1",
        "absolute:0.5",
        "huber:",
        "hinge:",
    ],
)
def test_parameters_that_are_not_understood(bad: str) -> None:
    with pytest.raises(InputError, match="a parameter is one number, as in huber"):
        as_loss(bad)


@pytest.mark.parametrize("bad", ["huber:0", "huber:-1", "huber:nan", "huber:inf", "huber:1e7"])
def test_parameters_out_of_range_for_huber(bad: str) -> None:
    with pytest.raises(InputError, match="c must be a number between"):
        as_loss(bad)


@pytest.mark.parametrize("bad", ["quantile:0", "quantile:1", "quantile:nan", "quantile:-0.5"])
def test_parameters_out_of_range_for_quantile(bad: str) -> None:
    with pytest.raises(InputError, match="tau must be a number between 0 and 1"):
        as_loss(bad)


@pytest.mark.parametrize("bad", [True, "0.1", None])
def test_parameters_of_a_wrong_type(bad: object) -> None:
    with pytest.raises(InputError, match="c must be"):
        Huber(bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="tau must be"):
        Quantile(bad)  # type: ignore[arg-type]


class Cheaper(Squared):
    """A loss that nothing else knows of: its smaller maximum would break every guarantee."""

    def largest(self, y_bound: float, t_bound: float) -> float:
        return 1.0


class Doubled(Squared):
    name = "doubled"


def test_a_loss_that_is_not_registered_is_refused() -> None:
    with pytest.raises(InputError, match="unknown loss"):
        as_loss(Cheaper())
    with pytest.raises(InputError, match="unknown loss 'doubled'"):
        as_loss("doubled")


def test_registered_losses_are_known_by_name() -> None:
    assert register(Doubled) is Doubled
    assert register(Doubled) is Doubled  # a second time changes nothing
    assert type(as_loss("doubled")) is Doubled
    given = Doubled()
    assert as_loss(given) is given


def test_a_name_belongs_to_one_loss() -> None:
    with pytest.raises(InputError, match="of the name 'squared' exists; choose another"):
        register(Cheaper)
    assert LOSSES["squared"] is Squared


def test_register_asks_for_a_name_and_all_parts() -> None:
    class Nameless(Loss):
        value = Squared.value
        conjugate = Squared.conjugate
        largest = Squared.largest
        rows = staticmethod(Squared.rows)

    class Named(Squared):
        name = "two words"

    class Partial(Loss):
        name = "partial"
        value = Squared.value

    for wrong in (Nameless, Named):
        with pytest.raises(InputError, match="needs a name"):
            register(wrong)
    with pytest.raises(InputError, match="lacks conjugate, largest, rows"):
        register(Partial)  # type: ignore[type-abstract]


@pytest.mark.parametrize("wrong", [Doubled(), "doubled", int, None])
def test_register_takes_a_subclass_of_loss(wrong: object) -> None:
    with pytest.raises(InputError, match="takes a subclass"):
        register(wrong)  # type: ignore[arg-type]
