"""What import-linter cannot say, since it sees modules and not names: read off the syntax."""

import ast
from pathlib import Path

import pytest

import dpsubset

SOURCE = Path(dpsubset.__file__).parent


def called(source: str) -> set[str]:
    """Return the names of everything that a module calls, methods by their last name."""
    functions = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in functions}


def callers(names: set[str]) -> set[str]:
    """Return the modules that call something of one of these names."""
    return {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if called(path.read_text(encoding="utf-8")) & names
    }


def asked(source: str) -> set[str]:
    """Return the names of all attributes that a module reads."""
    return {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}


def test_only_records_charge_a_ledger() -> None:
    assert callers({"charge", "charged"}) == {"records.py", "privacy/ledger.py"}


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("room", ["cli", "estimators", "planning"])
def test_what_users_touch_poses_problems_by_selections_only(room: str) -> None:
    assert not {path for path in callers({"Problem"}) if path.startswith(f"{room}/")}


def test_samplers_do_not_ask_which_loss_it_is() -> None:
    for path in (SOURCE / "sampling").rglob("*.py"):
        assert not asked(path.read_text(encoding="utf-8")) & {"quadratic", "loss"}, path


def test_twins_calls_are_seen_however_they_are_written() -> None:
    assert called("with ledger.charge(promise, {}) as write: pass") == {"charge"}
    assert called("with charged(None, promise, {}): Problem(X, y)") == {"charged", "Problem"}
    assert called("self.problem(X).gram.full()") == {"problem", "full"}
    assert asked("if self.problem.quadratic: pass") == {"problem", "quadratic"}
