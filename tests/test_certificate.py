"""Certificates: what the page shows, what it cannot show, and what `verify` notices."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from dpsubset import Guarantee, Ledger, Release, Schema, Selection
from dpsubset.certificate import page, read_record, verify
from dpsubset.cli import app
from dpsubset.data import Table
from dpsubset.version import __version__

NASTY = ["<script>alert(1)</script>", 'a"onload="x', "x&amp;y", "\x1b[2J", "c"]
SCHEMA = """
[columns]
age = [0, 100]
dose = [0, 10]
region = ["north", "south"]
[target]
name = "cost"
bounds = [0, 10]
"""


def run(*words: Any) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def write_table(path: Path, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    dose = rng.uniform(0, 10, 200)
    pl.DataFrame(
        {
            "age": rng.uniform(0, 100, 200),
            "dose": dose,
            "region": rng.choice(["north", "south"], 200),
            "cost": np.clip(dose + rng.normal(size=200), 0, 10),
        }
    ).write_csv(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_table(tmp_path / "t.csv")
    (tmp_path / "s.toml").write_text(SCHEMA)
    assert run("ledger", tmp_path / "budget.db", "--epsilon", 50).exit_code == 0
    return tmp_path


def release(folder: Path, *more: Any) -> Result:
    asked = ["--size", 1, "--schema", folder / "s.toml", "--epsilon", 20]
    files = ["--output", folder / "r.json", "--report", folder / "r.html"]
    return run("select", folder / "t.csv", *asked, *files, "--ledger", folder / "budget.db", *more)


def check(folder: Path, *more: Any, file: str = "r.json") -> Result:
    given = ["--ledger", folder / "budget.db", "--schema", folder / "s.toml"]
    return run("verify", folder / file, *given, *more)


class Seen(HTMLParser):
    """The tags and the visible text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_a_release_and_its_certificate_from_beginning_to_end(folder: Path) -> None:
    first = run("select", folder / "t.csv", "--size", 1, "--schema", folder / "s.toml", "--ledger",
                folder / "budget.db")  # fmt: skip
    assert first.exit_code == 0, first.output
    done = release(folder)
    assert done.exit_code == 0, done.output
    assert f"Written to {folder / 'r.html'}" in done.stdout
    record = read_record(folder / "r.json")
    words = " ".join(Seen((folder / "r.html").read_text()).text)
    assert "dose" in words
    assert str(Guarantee.from_dict(record["guarantee"])).splitlines()[-1] in words
    assert record["asked"]["schema"] in words
    shown = check(folder, "--json")
    assert json.loads(shown.stdout)["sha256"] in words
    for line in ("whole budget 50 0", "spent before 1 0", "this release 20 0", "left after it 29"):
        assert line in words
    assert [c["holds"] for c in json.loads(shown.stdout)["checks"]] == [True] * 4


def test_who_made_a_release_is_in_the_ledger_and_on_the_page(folder: Path) -> None:
    assert release(folder, "--by", "Ward <7>").exit_code == 0
    (entry,) = Ledger(folder / "budget.db").history()
    assert entry.by == "Ward <7>"
    assert entry.asked == {**read_record(folder / "r.json")["asked"], "dpsubset": __version__}
    assert "Ward" not in (folder / "r.json").read_text()  # what is published does not hold it
    assert "by Ward &lt;7&gt;." in (folder / "r.html").read_text()
    told = check(folder)
    assert told.exit_code == 0
    assert "by Ward <7>; epsilon 0 of 50" in told.stdout
    assert "by Ward <7>; " in run("ledger", folder / "budget.db").stdout
    assert '"by": "Ward <7>"' in run("ledger", folder / "budget.db", "--json").stdout


@pytest.mark.parametrize("more", [["--by", " ", "--ledger"], ["--by", "me"]])
def test_who_without_a_name_or_a_ledger_is_refused(folder: Path, more: list[str]) -> None:
    more = [*more, str(folder / "budget.db")] if more[-1] == "--ledger" else more
    given = ["--size", 1, "--schema", folder / "s.toml", *more]
    refused = run("select", folder / "t.csv", *given)
    assert refused.exit_code == 2
    assert "who charges a ledger is told" in refused.stderr
    assert Ledger(folder / "budget.db").spent == (0.0, 0.0)


def test_a_model_has_a_certificate_too(folder: Path) -> None:
    files = ["--output", folder / "m.json", "--report", folder / "m.html"]
    asked = ["--size", 1, "--schema", folder / "s.toml", "--epsilon", 30]
    done = run("fit", folder / "t.csv", *asked, *files, "--ledger", folder / "budget.db")
    assert done.exit_code == 0, done.output
    released = read_record(folder / "m.json")["released"]
    words = " ".join(Seen((folder / "m.html").read_text()).text)
    assert f"intercept {released['intercept']:.6g}" in words
    holds = check(folder, file="m.json")
    assert holds.exit_code == 0, holds.output


def test_the_page_needs_nothing_from_outside(folder: Path) -> None:
    assert release(folder).exit_code == 0
    text = (folder / "r.html").read_text()
    seen = Seen(text)
    outside = {"src", "href", "action", "data", "poster"}
    assert not [tag for tag, attrs in seen.tags if outside & set(attrs)]
    assert not {"script", "link", "iframe", "img", "form"} & {tag for tag, _ in seen.tags}
    assert "url(" not in text
    assert "@import" not in text
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in (
        seen.tags
    )
    assert "@media print" in text
    assert "prefers-color-scheme: dark" in text


def test_names_with_html_in_them_are_only_names() -> None:
    guarantee = Guarantee("<b>bold</b> mechanism", 1.0, "replace-one", 4.0, condition="<i>if</i>")
    asked = {"table": NASTY[0], "target": NASTY[1], "schema": NASTY[0], "x": {"name": NASTY[0]}}
    record = Release((0, 1, 2, 3, 4), guarantee, tuple(NASTY), asked).to_dict()
    seen = Seen(page(record, day=NASTY[0]))
    plain = Seen(page(Release((0,), Guarantee("m", 1.0, "replace-one", 4.0)).to_dict()))
    assert {tag for tag, _ in seen.tags} - {"div"} <= {tag for tag, _ in plain.tags} | {"li"}
    assert not [a for _, attrs in seen.tags for a in attrs if a.startswith("on")]
    assert "\x1b" not in "".join(seen.text)
    assert NASTY[0] in "".join(seen.text)


def test_tables_with_the_same_release_have_the_same_certificate() -> None:
    """What is not released is not on the page: it is the same for all tables behind a release."""
    schema = Schema.from_dict(
        {
            "columns": {"age": [0, 1], "dose": [0, 1]},
            "target": {"name": "y", "bounds": [0, 1]},
        }
    )
    pages = set()
    for seed in range(4):
        rng = np.random.default_rng(seed)
        frame = pl.DataFrame(rng.uniform(size=(50, 2)), schema=["age", "dose"])
        selection = Selection(schema=schema, size=1, epsilon=0.5, exclude=("age",))
        released = selection.release(Table(frame, pl.Series(rng.uniform(size=50))))
        pages.add(page(released.to_dict(), day="2026-01-01"))
    assert len(pages) == 1


def test_seeds_and_conditions_are_seen_first(folder: Path) -> None:
    assert release(folder, "--seed", 1).exit_code == 0
    text = (folder / "r.html").read_text()
    assert text.index("An experiment, not a private release") < text.index("<h2>Released")
    assert "Anyone who knows the seed" in text
    assert "Nobody who sees this release" not in text
    told = check(folder)
    assert told.exit_code == 1
    assert "FAILS        draw: the randomness was seeded" in told.stdout


def test_what_was_not_checked_is_said_at_the_end(folder: Path) -> None:
    assert release(folder).exit_code == 0
    assert check(folder).stdout.endswith("\nNothing fails.\n")
    alone = run("verify", folder / "r.json").stdout
    assert alone.endswith("Nothing that was checked fails. Not checked: ledger, schema.\n")


def test_a_condition_is_said_to_be_unchecked() -> None:
    promise = Guarantee("mechanism", 1.0, "replace-one", 4.0, condition="it is separated")
    record = Release((1,), promise).to_dict()
    assert "If the condition holds: nobody who sees" in page(record)
    told = str(verify(record))
    assert "not checked  draw: private only if it is separated\n" in told
    assert "Not checked: draw, ledger, schema." in told


def test_the_schema_of_another_table_is_named_as_such(folder: Path) -> None:
    assert release(folder).exit_code == 0
    (folder / "s.toml").write_text('[columns]\nage = [0, 1]\n[target]\nname = "y"\nbounds = [0, 1]')
    told = check(folder)
    assert told.exit_code == 1
    assert "FAILS        schema: it is not the schema of this release" in told.stdout
    assert "does not say what the target 'cost' holds" in told.stdout


def test_a_file_that_is_replaced_is_said_to_be(folder: Path) -> None:
    assert "in place of" not in release(folder).stdout
    assert release(folder).stdout.count(", in place of an older file\n") == 2


def edit(folder: Path, change: Any) -> None:
    path = folder / "r.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def put(record: dict[str, Any], *path: str, value: Any) -> None:
    for name in path[:-1]:
        record = record[name]
    record[path[-1]] = value


@pytest.mark.grid(every=3)
@pytest.mark.parametrize(
    ("path", "value", "failing"),
    [
        (("guarantee", "epsilon"), 0.1, {"record", "ledger"}),
        (("guarantee", "sentence"), "It is private.", {"record", "ledger"}),
        (("released", "columns"), ["age"], {"ledger"}),
        (("released",), {"columns": ["age"], "positions": [7]}, {"record", "ledger"}),
        (("released",), {"columns": ["age"], "positions": [0]}, {"ledger"}),
        (("released",), {"columns": ["age", "dose"], "positions": [0, 1]}, {"record", "ledger"}),
        (("asked", "size"), 3, {"record", "ledger"}),
        (("asked", "exclude"), ["dose"], {"record", "ledger"}),
        (("asked", "schema"), "0" * 64, {"schema", "ledger"}),
        (("asked", "table"), "other.csv", {"ledger"}),
        (("asked", "target"), "age", {"schema", "ledger"}),
        (("asked", "loss"), None, {"ledger"}),
        (("asked",), {}, {"schema", "ledger"}),
        (("dpsubset",), "9.9", {"ledger"}),
    ],
)
def test_a_record_that_was_edited_is_noticed(
    folder: Path, path: tuple[str, ...], value: Any, failing: set[str]
) -> None:
    assert release(folder).exit_code == 0
    checksum = json.loads(check(folder, "--json").stdout)["sha256"]
    edit(folder, lambda record: put(record, *path, value=value))
    told = check(folder, "--json", "--sha256", checksum)
    assert told.exit_code == 1, told.output
    checks = json.loads(told.stdout)["checks"]
    assert {c["name"] for c in checks if c["holds"] is False} == failing | {"checksum"}


def test_an_edited_model_is_refused(folder: Path) -> None:
    files = ["--output", folder / "r.json"]
    run("fit", folder / "t.csv", "--size", 1, "--schema", folder / "s.toml", *files)
    edit(folder, lambda record: put(record, "released", "intercept", value=0.0))
    told = check(folder)
    assert told.exit_code == 2
    assert "was changed after it was written" in told.stderr


def test_a_release_that_was_never_charged_is_noticed(folder: Path) -> None:
    given = ["--size", 1, "--schema", folder / "s.toml", "--output", folder / "r.json"]
    assert run("select", folder / "t.csv", *given).exit_code == 0
    told = check(folder)
    assert told.exit_code == 1
    assert "FAILS        ledger: no entry holds this release" in told.stdout
    assert release(folder).exit_code == 0
    edit(folder, lambda r: put(r, "released", value={"columns": ["age"], "positions": [0]}))
    assert "entry 1 asks the same, and holds another answer" in check(folder).stdout


def test_another_schema_is_noticed(folder: Path) -> None:
    assert release(folder).exit_code == 0
    (folder / "s.toml").write_text(SCHEMA.replace("[0, 100]", "[0, 90]"))
    told = check(folder)
    assert told.exit_code == 1
    assert "FAILS        schema: it is not the schema of this release" in told.stdout
    (folder / "s.toml").write_text(SCHEMA.replace("age", "height"))
    assert check(folder).exit_code == 1


def test_what_is_not_given_is_said_to_be_unchecked(folder: Path) -> None:
    assert release(folder).exit_code == 0
    told = run("verify", folder / "r.json")
    assert told.exit_code == 0
    assert re.findall(r"^not checked  (\w+)", told.stdout, flags=re.M) == ["ledger", "schema"]


@pytest.mark.parametrize("more", [[], ["--features", "dose,age"], ["--exclude", "age"]])
def test_bounds_for_all_columns_take_the_header_of_the_table(folder: Path, more: list[str]) -> None:
    columns = pl.read_csv(folder / "t.csv").drop("region")
    columns.write_csv(folder / "t.csv")
    (folder / "s.toml").write_text("[default]\nbounds = [0, 100]\n")
    for option in ("--schema", "--bounds"):
        given = ["--target", "cost", "--size", 1, option, folder / "s.toml", *more]
        done = run("select", folder / "t.csv", *given, "--output", folder / "r.json")
        assert done.exit_code == 0, done.output
        without = run("verify", folder / "r.json", "--schema", folder / "s.toml")
        assert without.exit_code == 2
        assert "--table" in without.stderr
        told = run("verify", folder / "r.json", "--schema", folder / "s.toml", "--table",
                   folder / "t.csv")  # fmt: skip
        assert told.exit_code == 0, told.output


def test_labels_have_a_schema_too(folder: Path) -> None:
    table = pl.read_csv(folder / "t.csv")
    ill = pl.when(pl.col("cost") > 5).then(pl.lit("yes")).otherwise(pl.lit("no"))
    table.with_columns(cost=ill).write_csv(folder / "t.csv")
    text = SCHEMA.replace("bounds = [0, 10]\n", 'classes = ["no", "yes"]\n')
    (folder / "s.toml").write_text(text)
    assert release(folder).exit_code == 0
    assert check(folder).exit_code == 0, check(folder).output


@pytest.mark.grid(every=2)
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["none.json"], "no such file"),
        (["."], "is a folder"),
        (["r.html"], "a page for people"),
        (["budget.db"], "is a ledger: name the release file"),
        (["t.csv"], "not valid JSON"),
        (["list.json"], "not a release"),
        (["all.json"], "several releases"),
        (["empty.json"], "asked, released, guarantee, dpsubset missing or wrong"),
        (["r.json", "--ledger", "none.db"], "no such ledger"),
        (["r.json", "--ledger", "t.csv"], "cannot be used"),
        (["r.json", "--schema", "none.toml"], "none.toml"),
        (["r.json", "--schema", "s.toml", "--table", "none.csv"], "none.csv"),
    ],
)
def test_wrong_files_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], text: str
) -> None:
    monkeypatch.chdir(folder)
    assert release(folder).exit_code == 0
    for name, content in (("list", "[]"), ("all", '{"releases": []}'), ("empty", "{}")):
        (folder / f"{name}.json").write_text(content)
    told = run("verify", *words)
    assert told.exit_code == 2
    assert text in told.stderr


def test_a_certificate_is_of_one_release_and_has_its_own_file(folder: Path) -> None:
    assert release(folder, "--mechanism", "all").exit_code == 2
    same = release(folder, "--report", folder / "r.json")
    assert same.exit_code == 2
    assert "the same file" in same.stderr
    assert release(folder, "--report", folder / "t.csv").exit_code == 2
    assert not Ledger(folder / "budget.db").history()  # nothing was spent
    assert not list(folder.glob(".*partial"))


def test_a_refused_release_has_no_certificate(folder: Path) -> None:
    refused = release(folder, "--epsilon", 60)
    assert refused.exit_code == 1
    assert not (folder / "r.html").exists()
    assert not list(folder.glob(".*partial"))


def test_later_charges_do_not_change_what_was_left(folder: Path) -> None:
    assert release(folder).exit_code == 0
    before = check(folder).stdout
    asked = ["--size", 2, "--schema", folder / "s.toml", "--ledger", folder / "budget.db"]
    assert run("select", folder / "t.csv", *asked).exit_code == 0
    assert check(folder).stdout == before
    record = read_record(folder / "r.json")
    assert verify(record, ledger=folder / "budget.db").holds
    assert "left after it" in page(record, ledger=folder / "budget.db")


def test_the_record_on_the_page_is_a_release_file(folder: Path) -> None:
    assert release(folder).exit_code == 0
    text = Seen((folder / "r.html").read_text()).text
    (folder / "saved.json").write_text(next(t for t in text if t.startswith("{")))
    assert read_record(folder / "saved.json") == read_record(folder / "r.json")
    assert check(folder, file="saved.json").exit_code == 0
