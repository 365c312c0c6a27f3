"""A ledger is for one table: it takes a name, keeps it, and refuses others; old ledgers go on."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from dpsubset import Exponential, Ledger, Problem
from dpsubset.cli import app
from dpsubset.errors import BudgetError, InputError, LedgerError
from dpsubset.privacy import Guarantee

OLD = Path(__file__).parents[1] / "data" / "ledger_version_1.db"  # made by dpsubset 0.1.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


@pytest.fixture
def old(path: Path) -> Path:
    shutil.copyfile(OLD, path)
    return path


def promise(epsilon: float = 0.1) -> Guarantee:
    return Guarantee("exponential mechanism", epsilon, "replace-one", 1.0)


def spend(ledger: Ledger, epsilon: float = 0.1, **asked: Any) -> None:
    with ledger.charge(promise(epsilon), asked) as record:
        record({"support": [3]})


def test_who_charges_may_be_told_in_old_ledgers_too(old: Path) -> None:
    before = [entry.by for entry in Ledger(old).history()]
    assert set(before) == {None}
    spend(Ledger(old, by="A. Miller"))
    spend(Ledger(old))
    assert [entry.by for entry in Ledger(old).history()] == [*before, "A. Miller", None]
    assert "A. Miller" in Ledger(old)._repr_html_()


def keeps_to(ledger: Ledger, other: str) -> bool:
    """Whether a charge for another table is refused: nothing runs, and no byte is written."""
    before, ran, said = ledger.path.read_bytes(), False, ""
    try:
        with ledger.charge(promise(), {"table": other}) as record:
            ran = True
            record({})
    except InputError as error:
        said = str(error)
    words = (repr(other), repr(ledger.table), "nothing was spent", "begin another ledger")
    told = all(word in said for word in words)
    return told and not ran and ledger.path.read_bytes() == before


def test_a_name_from_the_beginning(path: Path) -> None:
    ledger = Ledger(path, epsilon=1.0, table="study 7")
    assert keeps_to(ledger, "study 8")
    spend(ledger, table="study 7")
    spend(ledger)  # a bare mechanism names nothing
    assert keeps_to(Ledger(path), "study 8")
    assert [entry.table for entry in ledger.history()] == ["study 7", None]
    assert ledger.table == Ledger(path, table="study 7").table == "study 7"
    assert "(table 'study 7')" in str(ledger)
    for other in ({"table": "study 8"}, {"epsilon": 1.0, "table": "study 8"}):
        with pytest.raises(InputError, match="is for the table 'study 7'"):
            Ledger(path, **other)
    assert ledger.spent == (0.2, 0.0)


def test_the_first_charge_with_a_name_gives_it(path: Path) -> None:
    ledger = Ledger(path, epsilon=1.0)
    assert "(table not named)" in str(ledger)
    spend(ledger)
    assert ledger.table is None
    spend(ledger, table="patients.csv")
    assert ledger.table == "patients.csv"
    assert keeps_to(ledger, "others.csv")
    spend(ledger)
    spend(ledger, table="patients.csv")


def test_a_charge_that_is_refused_gives_no_name(path: Path) -> None:
    ledger = Ledger(path, epsilon=1.0)
    with pytest.raises(BudgetError):
        spend(ledger, 2.0, table="a")
    assert ledger.table is None
    spend(ledger, table="b")
    assert ledger.table == "b"


def test_a_ledger_without_a_name_is_given_one_later(path: Path) -> None:
    Ledger(path, epsilon=1.0)
    assert Ledger(path, table="study 7").table == "study 7"
    assert keeps_to(Ledger(path), "study 8")


def test_a_name_cannot_be_changed_in_the_file(path: Path) -> None:
    Ledger(path, epsilon=1.0, table="a")
    connection = sqlite3.connect(path)
    changes = ("UPDATE subject SET name = '\"b\"'", "DELETE FROM subject")
    for change in (*changes, "INSERT INTO subject VALUES ('\"b\"')"):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(change)
    connection.close()


@pytest.mark.parametrize("name", ["a\nb", "ü\x00'\"", "\udc80", "<script>", "x" * 5000])
def test_names_of_every_kind(path: Path, name: str) -> None:
    ledger = Ledger(path, epsilon=1.0)
    spend(ledger, table=name)
    spend(ledger, table=name)
    assert Ledger(path, table=name).table == name
    assert str(ledger).isprintable()
    assert "<script>" not in ledger._repr_html_()


def test_two_ways_to_write_a_letter_are_one_name(path: Path) -> None:
    spend(ledger := Ledger(path, epsilon=1.0, table="u\u0308.csv"), table="\u00fc.csv")
    assert ledger.table == "\u00fc.csv"


@pytest.mark.parametrize("bad", ["", "  ", 5, ["a"], True])
def test_names_that_are_none(path: Path, bad: Any) -> None:
    with pytest.raises(InputError, match="name of a table"):
        Ledger(path, epsilon=1.0, table=bad)
    assert not path.exists()
    ledger = Ledger(path, epsilon=1.0)
    with pytest.raises(InputError, match="name of a table"):
        spend(ledger, table=bad)
    assert ledger.history() == []


def unchecked(self: Ledger, guarantee: Guarantee, asked: Any) -> Any:
    """A broken twin: no name is looked at."""
    return CHARGE(self, guarantee, {})


@contextmanager
def checked_late(self: Ledger, guarantee: Guarantee, asked: Any) -> Iterator[Any]:
    """Another: the name is looked at once the spend is written."""
    with CHARGE(self, guarantee, {}) as record:
        CHARGE(self, guarantee, asked).__enter__()
        yield record


CHARGE = Ledger.charge


@pytest.mark.parametrize("twin", [unchecked, checked_late])
def test_broken_twins(path: Path, twin: Callable[..., Any], monkeypatch: Any) -> None:
    ledger = Ledger(path, epsilon=1.0, table="a")
    assert keeps_to(ledger, "b")
    monkeypatch.setattr(Ledger, "charge", twin)
    assert not keeps_to(ledger, "b")


# Old ledgers


def test_an_old_ledger_is_read_and_left_as_it_is(old: Path) -> None:
    before = old.read_bytes()
    ledger = Ledger(old)
    assert (ledger.epsilon, ledger.delta, ledger.neighbours) == (3.0, 1e-6, "replace-one")
    assert ledger.spent == (1.75, 5e-7)
    assert [entry.outcome for entry in ledger.history()] == ["released", "released", "failed"]
    assert ledger.history()[0].released == {"columns": ["x1"]}
    assert ledger.history()[0].guarantee.mechanism == "permute-and-flip mechanism"
    assert ledger.table == "patients.csv"  # of study/patients.csv, as the command wrote
    assert "patients.csv" in str(ledger)
    assert "patients.csv" in ledger._repr_html_()
    assert old.read_bytes() == before


def test_an_old_ledger_goes_on(old: Path) -> None:
    ledger = Ledger(old)
    assert keeps_to(ledger, "others.csv")  # and is still an old one
    spend(ledger, 1.0, table="patients.csv")
    assert keeps_to(ledger, "others.csv")
    assert Ledger(old, epsilon=3.0).table == "patients.csv"
    assert ledger.spent == (2.75, 5e-7)
    assert [entry.number for entry in ledger.history()] == [1, 2, 3, 4]
    with pytest.raises(BudgetError):
        spend(ledger, 0.3, table="patients.csv")


def schema(path: Path) -> set[Any]:
    connection = sqlite3.connect(path)
    found = set(connection.execute("SELECT type, name, sql FROM sqlite_master"))
    connection.close()
    return found


def test_an_old_ledger_becomes_what_a_new_one_is(old: Path) -> None:
    new = old.with_name("new.db")
    Ledger(new, epsilon=3.0)
    assert schema(old) < schema(new)
    assert {name for _, name, _ in schema(new) - schema(old)} == {
        *("subject", "subject_is_one", "subject_stays", "subject_remains")
    }
    spend(Ledger(old))
    assert schema(old) == schema(new)


def test_an_old_ledger_of_several_tables_takes_the_next_name(old: Path) -> None:
    connection = sqlite3.connect(old)
    row = "'t', 'now', '0.1', '0.0', ?, (SELECT guarantee FROM entries LIMIT 1), 'failed', NULL"
    connection.execute(f"INSERT INTO entries VALUES (4, {row})", (json.dumps({"table": "b"}),))
    connection.commit()
    connection.close()
    ledger = Ledger(old)
    assert ledger.table is None
    spend(ledger, table="c")
    assert ledger.table == "c"


def test_versions_to_come_are_refused(path: Path) -> None:
    Ledger(path, epsilon=1.0)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    with pytest.raises(LedgerError, match="not a ledger of this version"):
        Ledger(path)


def test_a_damaged_name(path: Path) -> None:
    for damage in ("5", "{", "null"):
        ledger = Ledger(path, epsilon=1.0)
        connection = sqlite3.connect(path)
        connection.execute("INSERT INTO subject VALUES (?)", (damage,))
        connection.commit()
        connection.close()
        with pytest.raises(LedgerError, match="damaged"):
            spend(ledger, table="a")
        assert ledger.history() == []
        path.unlink()


# The command


def run(*words: Any) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).uniform(0, 10, (300, 4))
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(4)]).with_columns(y=pl.Series(X[:, 1]))
    (tmp_path / "moved").mkdir()
    for name in ("t.csv", "moved/t.csv", "other.csv"):
        frame.write_csv(tmp_path / name)
    (tmp_path / "b.toml").write_text("[default]\nbounds = [0, 10]\n")
    return tmp_path


def call(folder: Path, command: str, table: str) -> Result:
    model = ["--output", folder / "m.json"] if command == "fit" else []
    return run(
        command, folder / table, "--target", "y", "--size", 1, "--bounds", folder / "b.toml",
        "--epsilon", 0.5, "--ledger", folder / "budget.db", *model,
    )  # fmt: skip


@pytest.mark.parametrize("first", ["select", "fit"])
@pytest.mark.parametrize("second", ["select", "fit"])
def test_the_command_names_the_file_without_its_folder(
    folder: Path, first: str, second: str
) -> None:
    ledger = Ledger(folder / "budget.db", epsilon=2.0)
    assert call(folder, first, "t.csv").exit_code == 0
    assert ledger.table == "t.csv"
    other = call(folder, second, "other.csv")
    assert (other.exit_code, other.stdout) == (2, "")
    assert "is for the table 't.csv', and this is for the table 'other.csv'" in other.stderr
    assert call(folder, second, "moved/t.csv").exit_code == 0
    assert [entry.table for entry in ledger.history()] == ["t.csv", "t.csv"]


def test_what_the_command_shows(folder: Path) -> None:
    begun = run("ledger", folder / "budget.db", "--epsilon", 2, "--table", "t.csv")
    assert "(table 't.csv'): epsilon 0 of 2 spent, 2 left" in begun.stdout
    assert call(folder, "select", "t.csv").exit_code == 0
    X = np.eye(4)
    problem = Problem(X, X[0], size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    Exponential(0.5, ledger=folder / "budget.db").release(problem)
    lines = run("ledger", folder / "budget.db").stdout.splitlines()
    assert ["table not named" in line for line in lines] == [False, False, False, False, True]
    assert json.loads(run("ledger", folder / "budget.db", "--json").stdout)["table"] == "t.csv"
    assert run("ledger", folder / "budget.db", "--table", "u.csv").exit_code == 2
