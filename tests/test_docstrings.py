"""Every public name has a docstring that a documentation tool can parse, with an example.

The examples themselves run as doctests.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from numpydoc.validate import validate

from dpsubset import TopR, search
from dpsubset.coefficients import noisy_statistics, objective_perturbation
from dpsubset.docstrings import documented, documented_like

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
# "See also" is said once for all names of a room, on its page of the reference (a test looks).
# Below the names of `dpsubset` itself a first line that says it all needs no second paragraph.
FREE = {"SA01"}
BRIEF = FREE | {"ES01"}


def public(*rooms: str) -> dict[str, Any]:
    """Return all public classes and functions, by where they are defined."""
    found = {}
    for room in rooms:
        module = import_module(room)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found


PUBLIC, FIRST = public(*ROOMS), public("dpsubset")


def faults(name: str) -> list[str]:
    free = FREE if name in FIRST else BRIEF
    return [f"{code} {text}" for code, text in validate(name)["errors"] if code not in free]


def test_the_rooms_hold_what_users_meet() -> None:
    assert len(PUBLIC) > 100
    assert {"dpsubset.problem.Problem", "dpsubset.privacy.ledger.Ledger"} <= set(PUBLIC)


def test_docstrings_are_numpydoc_with_an_example() -> None:
    found = {name: faults(name) for name in PUBLIC}
    assert not {name: told for name, told in found.items() if told}
    assert not [name for name in PUBLIC if ">>>" not in (inspect.getdoc(PUBLIC[name]) or "")]


def test_pages_of_the_reference_say_what_else_to_see() -> None:
    pages = sorted((Path(__file__).parents[1] / "docs" / "reference").glob("*.md"))
    assert len(pages) > 12
    for page in pages:
        if page.stem != "index":
            assert re.search(r"See also: \[[^]]+\]\(\.\./", page.read_text()), page


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


def test_functions_share_parameters_too() -> None:
    for function in (search.top, search.best_by_mistakes, noisy_statistics, objective_perturbation):
        text = inspect.getdoc(function) or ""
        heads = [line.partition(" : ")[0] for line in text.splitlines() if " : " in line]
        parameters = inspect.signature(function).parameters
        assert [head.lstrip("*") for head in heads] == list(parameters), function
    assert "Who searches; the default proves" in (inspect.getdoc(search.top) or "")  # of best


def test_a_class_without_a_docstring_is_left_alone() -> None:
    """As Python runs it with -OO."""
    kind = type("Bare", (), {})
    assert documented(kind) is kind
    assert kind.__doc__ is None
    bare = lambda: None  # noqa: E731
    assert documented_like(TopR)(bare) is bare
    assert bare.__doc__ is None
