"""Every public name has a docstring that a documentation tool can parse, with an example.

The examples themselves run as doctests.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import pytest
from numpydoc.validate import validate

from dpsubset import TopR
from dpsubset.docstrings import documented

ROOMS = (
    "dpsubset",
    "dpsubset.audit",
    "dpsubset.certificate",
    "dpsubset.coefficients",
    "dpsubset.data",
    "dpsubset.errors",
    "dpsubset.estimators",
    "dpsubset.losses",
    "dpsubset.mechanisms",
    "dpsubset.model_file",
    "dpsubset.planning",
    "dpsubset.plot",
    "dpsubset.privacy",
    "dpsubset.search",
)
# What is left to the writer: a second paragraph where the first line says it all, and "see also",
# which the pages of the reference say once for all names of a room.
FREE = {"ES01", "SA01"}


def public() -> dict[str, Any]:
    """Return all public classes and functions, by where they are defined."""
    found = {}
    for room in ROOMS:
        module = import_module(room)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found


PUBLIC = public()


def faults(name: str) -> list[str]:
    return [f"{code} {text}" for code, text in validate(name)["errors"] if code not in FREE]


def test_the_rooms_hold_what_users_meet() -> None:
    assert len(PUBLIC) > 100
    assert {"dpsubset.problem.Problem", "dpsubset.privacy.ledger.Ledger"} <= set(PUBLIC)


def test_docstrings_are_numpydoc_with_an_example() -> None:
    found = {name: faults(name) for name in PUBLIC}
    assert not {name: told for name, told in found.items() if told}
    assert not [name for name in PUBLIC if ">>>" not in (inspect.getdoc(PUBLIC[name]) or "")]


def without_words() -> None:
    pass


def without_example(known: int) -> None:
    """Do nothing.

    Parameters
    ----------
    unknown : int
        Is not there.
    """


def test_twins_a_bad_docstring_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    import dpsubset.errors as home

    for twin in (without_words, without_example):
        monkeypatch.setattr(home, twin.__name__, twin, raising=False)
    assert [f[:4] for f in faults("dpsubset.errors.without_words")] == ["GL08"]
    assert {f[:4] for f in faults("dpsubset.errors.without_example")} == {"PR01", "PR02", "EX01"}


def test_shared_parameters_come_from_bases_in_the_order_of_the_signature() -> None:
    text = inspect.getdoc(TopR) or ""
    heads = [line.partition(" : ")[0] for line in text.splitlines() if " : " in line]
    assert heads == list(inspect.signature(TopR).parameters)
    assert "The budget of one release." in text  # of Mechanism
    assert '"branch-and-bound", whose answers are exact' in text  # of Searching
    assert text.index("Parameters") < text.index("Examples")


def test_a_class_without_a_docstring_is_left_alone() -> None:
    """As Python runs it with -OO."""
    kind = type("Bare", (), {})
    assert documented(kind) is kind
    assert kind.__doc__ is None
