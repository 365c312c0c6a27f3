"""Labels of two classes become -1 and +1; what they may be, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsubset import Problem
from dpsubset.errors import InputError
from dpsubset.labels import as_labels, named_classes

FEW = settings(max_examples=80, derandomize=True, deadline=None)
CODE = 10**17  # the code of a class, of more digits than float64 holds

PAIRS: list[Any] = [
    (-1, 1),
    (0, 1),
    (False, True),
    ("no", "yes"),
    (0.5, 2.5),
    ("", "a"),
    ("ä", "年"),
    (CODE, CODE + 1),
    (Decimal("0.5"), Decimal("1.5")),
]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_larger_of_two_classes_is_plus_one(pair: tuple[Any, Any]) -> None:
    low, high = pair
    expected = [1.0, -1.0, -1.0, 1.0]
    given = [high, low, low, high]
    for labels in (given, tuple(given), np.array(given), np.array(given, dtype=object)):
        np.testing.assert_array_equal(as_labels(labels), expected)
    np.testing.assert_array_equal(as_labels(np.array(given)[:, None]), expected)


@pytest.mark.parametrize("pair", [("no", "yes"), (0, 1), (True, False), (np.int8(3), 2.5)], ids=str)
def test_the_second_of_two_named_classes_is_plus_one(pair: tuple[Any, Any]) -> None:
    first, second = pair
    for classes in (pair, list(pair), np.array(pair)):
        np.testing.assert_array_equal(as_labels([second, first], classes), [1, -1])
        np.testing.assert_array_equal(as_labels([first, first], classes), [-1, -1])
        assert as_labels([], classes).shape == as_labels(np.empty(0), classes).shape == (0,)


def test_truth_values_and_numbers_are_the_same_classes() -> None:
    np.testing.assert_array_equal(as_labels([True, False], (0, 1)), [1, -1])
    np.testing.assert_array_equal(as_labels([1.0, 0.0], (False, True)), [1, -1])
    for labels in (["0", "1"], np.array(["0", "1"])):
        with pytest.raises(InputError, match="other than the two classes"):
            as_labels(labels, (0, 1))
    with pytest.raises(InputError, match="other than the two classes"):
        as_labels([0, 1], ("0", "1"))


def test_flipped_labels_have_the_same_scores() -> None:
    """Which of the classes found in a table is +1 depends on its rows, and must not show."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (40, 4)), rng.choice([-1.0, 1.0], 40)
    for loss in ("hinge", "logistic"):
        one, two = (
            Problem(X, labels, size=2, x_bound=1.0, radius=1.0, ridge=0.5, loss=loss)
            for labels in (y, -y)
        )
        for support in ([0, 1], [1, 3]):
            assert one.score(support) == pytest.approx(two.score(support), abs=1e-8)


def test_how_to_name_classes_is_said_in_the_users_words() -> None:
    with pytest.raises(InputError, match=r"name them: classes=\(first, second\)"):
        as_labels([1, 1])
    with pytest.raises(InputError, match="name them: --classes a,b"):
        as_labels([1, 1], option="--classes a,b")
    with pytest.raises(InputError, match="regression loss, such as squared"):
        as_labels([1.5, 2.5, 3.5])


def test_names_of_classes() -> None:
    assert named_classes(["a", "b"]) == ("a", "b")
    assert named_classes(np.array([0, 1])) == (0, 1)
    wrong: list[Any] = ["ab", b"ab", (1,), (1, 1), (1, "a"), {1, 2}, {1: 2, 3: 4}, None, np.inf]
    for classes in [*wrong, (0, np.inf), (0, 10**400), ([1], [2]), np.eye(2), range(2)]:
        with pytest.raises(InputError, match="two different classes"):
            named_classes(classes)


entries = st.one_of(
    st.integers(-1, 1),
    st.booleans(),
    st.floats(),
    st.sampled_from(["a", "b", "7351", None, 1j, b"a", 10**400, Decimal("NaN"), Decimal(1)]),
)


@FEW
@given(
    labels=st.lists(entries, max_size=4),
    container=st.sampled_from([list, tuple, lambda e: np.array(e, dtype=object)]),
    classes=st.sampled_from([None, (0, 1), ("a", "b")]),
)
def test_any_labels_give_signs_or_an_error_of_ours(
    labels: list[Any], container: Any, classes: Any
) -> None:
    message = ""
    try:
        signs = as_labels(container(labels), classes)
    except InputError as error:
        message = f"{error}{error.__cause__ or ''}"
    assert "7351" not in message
    if not message:
        assert signs.dtype == np.float64
        assert set(signs) <= {-1.0, 1.0}
        assert len({(isinstance(label, str), label) for label in labels}) == len(set(signs))
