"""Schema files: what may be written, which faults are told, and how they fit a table."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dpsubset import Schema
from dpsubset.data import Codebook, check_file, is_bounds_only
from dpsubset.data.category import Category, Ignored
from dpsubset.data.columns import Number, Ordered, Truth
from dpsubset.data.dates import Dates
from dpsubset.data.described import LARGEST_LEVELS
from dpsubset.errors import InputError

FILE = """
rows = 5000

[columns]
age = [0, 120]
smoker = "0/1"
"lab_*" = [0, 100]
"lab_iron*" = [0, 50]
lab_note = "ignore"
visit = [2019-01-01, 2024-12-31]

[columns.region]
levels = ["north", "south", "west"]
missing = "level"

[columns.income]
bounds = [0, 2e5]
missing = "indicator"
unit = "EUR"
note = "per year"

[columns.grade]
ordered = ["low", "mid", "high"]

[columns.seen]
dates = [2019-01-01, 2024-12-31]
format = "%d.%m.%Y"

[target]
name = "cost"
bounds = [0, 1e5]
"""
NAMES = [
    *("age", "smoker", "lab_a", "lab_iron1", "lab_note", "visit", "region", "income"),
    *("grade", "seen", "cost"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "schema.toml"
    file.write_text(FILE)
    return file


def test_every_kind_of_line_is_read(path: Path) -> None:
    schema = Schema.read_toml(path, NAMES)
    kinds = dict(zip(schema.names, schema.columns, strict=True))
    assert {n: type(c) for n, c in kinds.items()} == {
        **{"age": Number, "smoker": Truth, "lab_a": Number, "lab_iron1": Number, "visit": Dates},
        **{"region": Category, "income": Number, "grade": Ordered, "seen": Dates},
    }
    assert kinds["lab_a"].span == (0.0, 100.0)
    assert kinds["lab_iron1"].span == (0.0, 50.0)  # the longer pattern
    assert kinds["income"].unit == "EUR"
    assert schema.ignored == ("lab_note",)
    assert schema.rows == 5000
    assert schema.target.limits == (0.0, 1e5)
    assert schema.groups == [[0], [1], [2], [3], [4], [5, 6, 7], [8, 9], [10], [11]]


def test_plain_values_give_the_same_schema_back(path: Path) -> None:
    import json

    schema = Schema.read_toml(path, NAMES)
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again.sha256 == schema.sha256
    assert again.to_dict() == schema.to_dict()
    assert again.columns == schema.columns


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[0, 120]", "[0, 121]"),
        ('"south", "west"', '"west", "south"'),
        ('missing = "level"', ""),
        ("rows = 5000", ""),
        ('unit = "EUR"', 'unit = "USD"'),
        ('name = "cost"\n', 'name = "cost"\nmissing = 0\n'),
        ('format = "%d.%m.%Y"', 'format = "%m.%d.%Y"'),
    ],
)
def test_the_fingerprint_covers_everything(old: str, new: str, path: Path) -> None:
    before = Schema.read_toml(path, NAMES).sha256
    assert old in FILE
    path.write_text(FILE.replace(old, new))
    assert Schema.read_toml(path, NAMES).sha256 != before


def test_exact_names_win_over_patterns_and_stars_alone_mean_more() -> None:
    book = Codebook.of({"columns": {"*": [0, 1], "a[1]*": [0, 2], "a*b": "ignore"}})
    assert book.column("a[1]x").span == (0.0, 2.0)
    assert book.column("a1x").span == (0.0, 1.0)
    schema = Schema.of_table(
        Codebook.of({"columns": {"a*b": [0, 5], "axb": [0, 7]}, "target": {"bounds": [0, 1]}}),
        ["a*b", "axb"],
    )
    assert [c.span for c in schema.columns] == [(0.0, 5.0), (0.0, 7.0)]


def columns(given: Any) -> dict[str, Any]:
    return {"columns": {"c": given}, "target": {"bounds": [0, 1]}}


WRONG = {
    "nothing": ([], "still empty"),
    "no levels": ({"levels": []}, "still empty"),
    "one level": (["only"], "one level only"),
    "a level that is no text": ({"levels": ["a", ["b"]]}, "list of texts"),
    "a level that is a date": ({"levels": ["a", date(2020, 1, 1)]}, "list of texts"),
    "an empty level": (["a", " "], "none of them empty"),
    "two levels alike": (["a", "b", " a"], "read as the same"),
    "two numbers alike": ({"levels": [1, "1.0"]}, "read as the same"),
    "truth and number": ({"levels": ["true", 1]}, "read as the same"),
    "too many levels": ([f"l{j}" for j in range(10_000)], f"at most {LARGEST_LEVELS}"),
    "a level called missing": ({"levels": ["a", "missing"], "missing": "level"}, "already"),
    "a level called level": ({"levels": ["a", "level"], "missing": "level"}, "two things"),
    "missing of a category": ({"levels": ["a", "b"], "missing": "c"}, "one of its levels"),
    "indicator of a category": ({"levels": ["a", "b"], "missing": "indicator"}, "one of its"),
    "missing of a number": ({"bounds": [0, 1], "missing": "mean"}, "within the bounds"),
    "missing out of bounds": ({"bounds": [0, 1], "missing": 2}, "within the bounds"),
    "missing of a truth value": ({"truth": True, "missing": 0.5}, "0 or 1"),
    "missing of a date": ({"dates": ["2020-01-01", "2021-01-01"], "missing": 3}, "date within"),
    "bounds reversed": ([1, 0], "must be below"),
    "three numbers": ([0, 1, 2], "has 3 numbers: write {levels"),
    "dates reversed": ({"dates": ["2021-01-01", "2020-01-01"]}, "first before the last"),
    "a format": ({"dates": ["2020-01-01", "2021-01-01"], "format": "DD/MM"}, "must tell day"),
    "two kinds": ({"bounds": [0, 1], "levels": ["a", "b"]}, "bounds and levels"),
    "no kind": ({"unit": "EUR"}, "none of them"),
    "an unknown word": ({"bounds": [0, 1], "mising": 0}, "'mising'"),
    "a unit that is no text": ({"bounds": [0, 1], "unit": 3}, "must be a text"),
    "a word": ("number", "not described"),
    "a number": (3, "not described"),
    "ignore false": ({"ignore": False}, "must be true"),
    "ignored and missing": ({"ignore": True, "missing": 0}, "ignored"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_line_is_told_by_the_schema_alone(case: str) -> None:
    given, text = WRONG[case]
    with pytest.raises(InputError, match=text):
        Schema.from_dict(columns(given))


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ({}, "does not say what the target"),
        ({"name": "y"}, "does not say what the target"),
        ({"bounds": [0, 1], "classes": ["a", "b"]}, "needs one of"),
        ({"classes": ["a"]}, "two texts"),
        ({"classes": ["a", "a"]}, "read as the same"),
        ({"classes": ["a", []]}, "two texts"),
        ({"bounds": [0, 1], "missing": "indicator"}, '"ignore" or a fixed value'),
        ({"bounds": [0, 1], "missing": 3}, "within the bounds"),
        ({"classes": ["a", "b"], "missing": "level"}, "two texts"),
        ({"name": "c", "bounds": [0, 1]}, "both describe"),
        ({"name": 3, "bounds": [0, 1]}, "name of a column"),
        ({"bound": [0, 1]}, "'bound'"),
        ({"bounds": []}, 'bounds = .lower, upper. for numbers, or "private"'),
        ({"classes": []}, "classes = .first, second. for labels"),
    ],
)
def test_a_wrong_target_is_told(target: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        Schema.from_dict({"columns": {"c": [0, 1]}, "target": target})


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        'rows = 0\n[columns]\na = []\nb = ["x"]\nnowhere = [0, 1]\n"l_*" = [0, 1]\n[target]\n'
        'name = "y"\nbounds = [1, 0]\n'
    )
    with pytest.raises(InputError) as error:
        check_file(path, ["a", "b", "y", "more"], {})
    for part in (
        "still empty: 'a'",
        "one level",
        "'nowhere'",
        "'l_*'",
        "'more'",
        "rows",
        "[target]",
    ):
        assert part in str(error.value)
    assert str(error.value).startswith("there are 7 faults")


def test_types_that_cannot_hold_what_is_said() -> None:
    book = Codebook.of({"columns": {"a": [0, 1], "b": ["x", "y"], "c": [0, 1]}})
    types = {"a": pl.Date(), "b": pl.List(pl.Int8), "c": pl.String()}
    with pytest.raises(InputError, match="there are 2 faults"):
        book.check_types(types)


def test_columns_without_a_line_and_lines_without_a_column() -> None:
    book = Codebook.of({"columns": {"a": [0, 1]}, "target": {"name": "y", "bounds": [0, 1]}})
    with pytest.raises(InputError, match="does not describe 'b'"):
        Schema.of_table(book, ["a", "b", "y"])
    with pytest.raises(InputError, match="names 'a'"):
        Schema.of_table(book, ["y"])
    with pytest.raises(InputError, match="same name"):
        Schema.of_table(book, ["a", "a", "y"])
    with pytest.raises(InputError, match="leaves no column"):
        Schema.of_table(
            Codebook.of({"columns": {"a": "ignore"}, "target": {"bounds": [0, 1]}}), ["a"]
        )


def test_another_target_is_read_by_its_own_line() -> None:
    book = Codebook.of(
        {
            "columns": {"a": [0, 3], "sex": ["f", "m"], "flag": "0/1"},
            "target": {"name": "y", "bounds": [0, 1]},
        }
    )
    names = ["a", "sex", "flag", "y"]
    other = Schema.of_table(book, names, target="a")
    assert other.target.limits == (0.0, 3.0)
    assert other.names == ("sex", "flag", "y")
    assert Schema.of_table(book, names, target="sex", labels=True).target.classes == ("f", "m")
    assert Schema.of_table(book, names, target="flag", labels=True).target.classes == (0, 1)
    with pytest.raises(InputError, match="two classes: choose a loss"):
        Schema.of_table(book, names, target="sex", labels=False)
    with pytest.raises(InputError, match="described by bounds"):
        Schema.of_table(book, names, labels=True)
    named = Schema.of_table(book, names, labels=True, classes=("lo", "hi"))
    assert named.target.classes == ("lo", "hi")


def test_patterns_need_the_names_of_a_table(path: Path) -> None:
    with pytest.raises(InputError, match="names="):
        Schema.read_toml(path)


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("[columns]\na = [0, 1]\nb = []\n[default]\nbounds = [0, 1]", True),
        ("not toml [", True),
        ("[columns]\na = [0, 1]\n[target]\nname = 'y'", False),
        ("[columns]\na = ['x', 'y']", False),
        ("[columns]\na = '0/1'", False),
        ("[columns]\n'a*' = [0, 1]", False),
        ("[columns.a]\nbounds = [0, 1]", False),
    ],
)
def test_a_file_of_bounds_alone_is_known_by_its_words(text: str, old: bool, tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text(text)
    assert is_bounds_only(path) == old


def test_an_old_file_of_bounds_is_a_schema_too(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text("[default]\nbounds = [-1, 1]\n[columns]\nage = [0, 120]\n")
    schema = Schema.read_toml(path, ["age", "x", "y"], target="y")
    assert [c.span for c in schema.columns] == [(0.0, 120.0), (-1.0, 1.0)]
    assert schema.target.limits == (-1.0, 1.0)


def test_ignored_columns_are_no_features() -> None:
    book = Codebook.of({"columns": {"a": [0, 1], "id": "ignore"}, "target": {"bounds": [0, 1]}})
    assert isinstance(book.column("id"), Ignored)
    with pytest.raises(InputError, match="choose one"):
        Schema.of_table(book, ["a", "id"], features=["id"])


def test_the_guides_example_is_a_schema() -> None:
    import re
    import tomllib

    text = (Path(__file__).parents[2] / "docs" / "schema.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", text, flags=re.S)
    book = Codebook.of(tomllib.loads(block))
    assert book.target_name == "cost"
    assert {type(column).__name__ for column in book.columns.values()} == {
        *("Number", "Truth", "Category", "Dates", "Ordered", "Ignored"),
    }


def test_the_templates_comments_are_a_schema() -> None:
    """What the template shows as examples can be copied as it stands."""
    import tomllib

    from dpsubset.data import schema_template

    shown = [
        line[4:].split("    ")[0] for line in schema_template([]).splitlines() if line[:4] == "#   "
    ]
    lines = [line for line in shown if "=" in line or line.startswith("[")]
    book = Codebook.of(tomllib.loads("[columns]\n" + "\n".join(lines)))
    assert len(book.columns) == 9


def test_truth_values_are_written_as_people_say_them() -> None:
    written = ("0/1", "yes/no", "true/false")
    books = [Codebook.of({"columns": {"a": word}}) for word in written]
    assert {book.columns["a"] for book in books} == {books[0].columns["a"]}
    with pytest.raises(InputError, match='"0/1" or "yes/no" for a truth value'):
        Codebook.of({"columns": {"a": "yes or no"}})


def test_truth_values_in_the_place_of_bounds_are_told_how_they_are_written() -> None:
    with pytest.raises(InputError, match='is written "yes/no" or "0/1"'):
        Codebook.of({"columns": {"a": [True, False]}})
    assert isinstance(Codebook.of({"columns": {"a": [0, 1]}}).columns["a"], Number)


def test_a_column_that_is_described_twice_is_named_as_such(tmp_path: Path) -> None:
    file = tmp_path / "schema.toml"
    file.write_text("[columns]\na = [0, 1]\na = [0, 2]\n")
    with pytest.raises(InputError, match=r"line 3.*Is a column described twice"):
        Codebook.read(file)
    file.write_text("[columns\na = [0, 1]\n")
    with pytest.raises(InputError) as caught:
        Codebook.read(file)
    assert "twice" not in str(caught.value)


def test_a_template_says_what_becomes_of_rows_without_a_target() -> None:
    """And what it says can be written."""
    from dpsubset.data import schema_template

    assert "missing = 0" in schema_template(["a", "y"], target="y").partition("[target]")[2]
    target = {"name": "y", "bounds": [0, 1], "missing": 0}
    Codebook.of({"columns": {"a": [0, 1]}, "target": target})
