"""Names of very many columns: a sequence like any other."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsubset.data import Schema, many_names
from dpsubset.data.many_names import ManyNames
from dpsubset.data.target import Target


@given(st.lists(st.text(max_size=5), max_size=20))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_sequence_like_any_other(names: list[str]) -> None:
    found = ManyNames(names)
    assert list(found) == names
    assert len(found) == len(names)
    assert [found[j] for j in range(-len(names), len(names))] == names * 2
    assert found[1:-1] == names[1:-1]
    assert found == tuple(names)
    assert found == ManyNames(names)
    assert found != ManyNames([*names, "x"])
    assert found != (*names, "x")
    assert found.repeated() == (len(set(names)) < len(names))


def test_equal_hashes_of_unlike_names_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_names, "hash", lambda _: 7, raising=False)
    assert not ManyNames(["a", "b", "c"]).repeated()
    assert ManyNames(["a", "b", "a"]).repeated()


def test_no_place_beyond_the_end() -> None:
    with pytest.raises(IndexError):
        ManyNames(["a"])[1]


@pytest.mark.parametrize("names", [None, ("a", 'b"', "ü"), tuple(f"rs{j}" for j in range(20_000))])
def test_fingerprints_are_those_of_the_whole_text(names: tuple[str, ...] | None) -> None:
    p = 2 if names is None else len(names)
    plain = {"names": names, "target": ["y", (0.0, 1.0), None]}
    expected = hashlib.sha256(json.dumps(plain).encode())
    for side in (0.0, 2.0):
        expected.update(np.full(p, side).tobytes())
    many = None if names is None else ManyNames(names)
    for given_names in (names, many):
        schema = Schema.of(given_names, p, (0, 2), Target((0.0, 1.0)), "y")
        assert schema.sha256 == expected.hexdigest()
