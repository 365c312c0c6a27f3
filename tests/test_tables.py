"""Files: what is read, what is refused, and that no refusal shows a value of the table."""

from __future__ import annotations

import hashlib
import tempfile
import tomllib
from contextlib import suppress
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsubset.data import (
    Codebook,
    Schema,
    check_classes,
    pick_features,
    read_bounds,
    read_names,
    read_table,
    schema_template,
)
from dpsubset.errors import InputError

FEW = settings(max_examples=60, derandomize=True, deadline=None)
SECRET = "7351.90625"  # an entry of the table that no message may show


def csv_file(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path, target: str = "y", features: list[str] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, target, features)
    text = str(caught.value)
    assert SECRET not in text
    assert "7351" not in text
    assert caught.value.__cause__ is None  # nothing that quotes the table is chained
    return text


def test_csv_of_floats_integers_and_truth_values(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "a,b,c,y\n1,2.5,true,0\n-3, 4e2 ,False,1\n")
    table = read_table(path, "y")
    np.testing.assert_array_equal(table.X, [[1, 2.5, 1], [-3, 400, 0]])
    np.testing.assert_array_equal(table.y, [0, 1])
    assert table.X.dtype == table.y.dtype == np.float64


def test_csv_and_parquet_agree_to_the_last_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.normal(size=(50, 4)), schema=["a", "b", "c", "y"])
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    one, two = read_table(tmp_path / "t.csv", "b"), read_table(tmp_path / "t.parquet", "b")
    np.testing.assert_array_equal(one.X, two.X)
    np.testing.assert_array_equal(one.X, frame.select("a", "c", "y").to_numpy())
    np.testing.assert_array_equal(one.y, two.y)


def test_the_features_asked_for_in_their_order_without_the_text_columns(tmp_path: Path) -> None:
    path = csv_file(tmp_path, 'a,who,b,y\n1,"Ann, B",3,5\n2,Bob,4,6\n')
    table = read_table(path, "y", ["b", "a"])
    np.testing.assert_array_equal(table.X, [[3, 1], [4, 2]])
    assert "'who'" in refusal(path)


def test_names_with_quotes_commas_and_byte_order_mark(tmp_path: Path) -> None:
    path = csv_file(tmp_path, b'\xef\xbb\xbf"a ""b"", c", d ,y\r\n1,2,3\r\n')
    assert read_names(path) == ('a "b", c', " d ", "y")
    np.testing.assert_array_equal(read_table(path, "y").X, [[1, 2]])


def test_a_table_without_rows_is_read(tmp_path: Path) -> None:
    for content in ("a,b,y\n", "a,b,y"):
        assert read_table(csv_file(tmp_path, content), "y").X.shape == (0, 2)
    frame = pl.DataFrame(schema={"a": pl.Float64, "y": pl.Int64})
    frame.write_parquet(tmp_path / "none.parquet")
    assert read_table(tmp_path / "none.parquet", "y").X.shape == (0, 1)


def test_huge_integers_and_narrow_types(tmp_path: Path) -> None:
    table = read_table(csv_file(tmp_path, f"a,y\n{2**80},1\n{10**30},2\n"), "y")
    np.testing.assert_array_equal(table.X[:, 0], [2.0**80, 1e30])
    frame = pl.DataFrame(
        {"a": [1.5, 2.5], "b": [2**62, -1], "c": [True, False], "y": [1, 2]},
        schema={"a": pl.Float32, "b": pl.Int64, "c": pl.Boolean, "y": pl.UInt8},
    )
    frame.write_parquet(tmp_path / "t.parquet")
    np.testing.assert_array_equal(
        read_table(tmp_path / "t.parquet", "y").X, [[1.5, 2.0**62, 1], [2.5, -1, 0]]
    )
    assert read_table(tmp_path / "t.parquet", "y", ["a"]).X.dtype == np.float32


BAD_CSV = {
    "empty": (b"", "empty"),
    "blank": (b"\n\n", "first line is empty"),
    "binary": (bytes(range(256)) * 9, "not a text file"),
    "utf-16": ("a,b,y\n1,2,3\n".encode("utf-16"), "not a text file"),
    "latin-1 names": ("ä,b,y\n1,2,3\n".encode("latin-1"), "UTF-8"),
    "latin-1 cells": (f"a,b,y\n{SECRET},2,ü\n".encode("latin-1"), "UTF-8"),
    "long line": (f"a,b,y\n1,2,3\n1,2,3,{SECRET}\n".encode(), "ragged"),
    "long first line": (f"a,b,y\n1,2,3,{SECRET}\n1,2,3\n".encode(), "ragged"),
    "short line": (f"a,b,y\n1,{SECRET},3\n1,2\n".encode(), "too few fields"),
    "short first line": (f"a,b,y\n1,{SECRET}\n1,2,3\n".encode(), "ragged"),
    "blank line": (f"a,b,y\n1,{SECRET},3\n\n1,2,3\n".encode(), "Empty lines"),
    "open quote": (f'a,b,y\n1,"{SECRET},3\n1,2,3\n'.encode(), "quotes"),
    "open quote in names": (b'a,"b,y\n', "quote"),
    "text": (f"a,b,y\n1,{SECRET}x,3\n".encode(), "column 'b' holds text"),
    "text target": (f"a,b,y\n1,2,{SECRET}x\n".encode(), "column 'y' holds text"),
    "nan": (b"a,b,y\n1,NaN,3\n", "missing"),
    "infinity": (b"a,b,y\n1,-inf,3\n", "infinite"),
    "infinite target": (b"a,b,y\n1,2,inf\n", "infinite"),
    "beyond float64": (b"a,b,y\n1,1e999,3\n", "infinite"),
    "NA": (f"a,b,y\n{SECRET},NA,3\n".encode(), "missing"),
    "empty cell": (f"a,b,y\n{SECRET},,3\n".encode(), "missing"),
    "all cells empty": (b"a,b,y\n1,,3\n2,,3\n", "missing"),
    "repeated name": (f"a,a,y\n1,{SECRET},3\n".encode(), "two columns are named 'a'"),
    "no name": (b"a,,y\n1,2,3\n", "no name"),
    "no header": (f"{SECRET},2,3\n1,2,3\n".encode(), "holds numbers, not column names"),
    "no header but text": (f"{SECRET},{SECRET},Bob\n1,2,Ann\n".encode(), "really a header?"),
    "semicolons": (f"a;b;y\n1;{SECRET};3\n".encode(), "separated by ';'"),
    "tabs": (f"a\tb\ty\n1\t{SECRET}\t3\n".encode(), "separated by '\\t'"),
    "carriage returns": (f"a,b,y\r1,{SECRET},3\r".encode(), "carriage return"),
    "dates": (b"a,b,y\n2020-01-01,2,3\n", "column 'a' holds text"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_a_bad_csv_is_refused(case: str, tmp_path: Path) -> None:
    content, expected = BAD_CSV[case]
    assert expected in refusal(csv_file(tmp_path, content))


def test_a_short_line_is_noticed_when_its_last_column_is_not_used(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "a,y,note\n1,2,x\n3,4\n")
    assert "ragged" in refusal(path, features=["a"])
    empty_note = csv_file(tmp_path, "a,y,note\n1,2,x\n3,4,\n")
    assert read_table(empty_note, "y", ["a"]).X.shape == (2, 1)


def test_the_place_of_a_missing_value_does_not_show(tmp_path: Path) -> None:
    texts = {
        refusal(csv_file(tmp_path, content))
        for content in ("a,b,y\n,2,3\n", "a,b,y\n1,2,3\n1,2,3\n1,NaN,3\n", "a,b,y\n1,2,\n")
    }
    assert len(texts) == 1
    assert "public" in texts.pop()


def test_bad_places(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "none.csv")
    assert "is a folder" in refusal(tmp_path)
    assert "'.xlsx'" in refusal(csv_file(tmp_path, "a,y\n1,2\n", "t.xlsx"))
    assert "nothing" in refusal(csv_file(tmp_path, "a,y\n1,2\n", "table"))


@pytest.mark.parametrize("content", [b"", b"PAR1PAR1", b"PAR1" + b"junk" * 50 + b"PAR1"])
def test_a_bad_parquet_file_is_refused(content: bytes, tmp_path: Path) -> None:
    assert "Parquet" in refusal(csv_file(tmp_path, content, "t.parquet"))


def test_bad_parquet_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": [float(SECRET), None], "b": [SECRET, "x"], "y": [1, 2]}).write_parquet(path)
    assert "column 'b' is not numeric" in refusal(path)
    assert "missing" in refusal(path, features=["a"])
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table([[1], [2]], names=["a", "a"]), path)
    assert "same name" in refusal(path)


def test_a_damaged_parquet_body_is_refused_or_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": np.arange(500.0), "y": np.arange(500.0)}).write_parquet(path)
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for _ in range(30):
        broken = content.copy()
        for place in rng.integers(4, len(content) - 4, 20):
            broken[place] ^= 0xFF
        path.write_bytes(broken)
        with suppress(InputError):
            assert read_table(path, "y").X.shape[1] == 1


def test_targets_and_features_that_do_not_fit() -> None:
    names = ["a", "b", "y"]
    for arguments, expected in [
        (("z", None), "'z' is not a column of the table$"),
        ((" y", None), "There is 'y': names are taken with their blanks"),
        (("y", [" b"]), "There is 'b'"),
        (("y", ["a", "z"]), "'z' is not a column"),
        (("y", ["a", "y"]), "cannot explain itself"),
        (("y", None, ["y"]), "cannot explain itself"),
        (("y", ["a", "a"]), "twice"),
        (("y", ["a"], ["b"]), "not among the features"),
        (("y", []), "no column is left"),
    ]:
        with pytest.raises(InputError, match=expected):
            pick_features(names, *arguments)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no column is left"):
        pick_features(["y"], "y", None)


cells = st.one_of(
    st.floats().map(repr),
    st.integers().map(str),
    st.sampled_from(["", "true", "False", "NA", "x", '"', '"1"', "1,2", "\n", "é", " 3 ", "\0"]),
    st.text(max_size=3),
)


@FEW
@given(
    rows=st.lists(st.lists(cells, min_size=1, max_size=4), max_size=4),
    tail=st.binary(max_size=4),
)
def test_any_csv_is_read_as_finite_numbers_or_refused(rows: list[list[str]], tail: bytes) -> None:
    content = "\n".join(",".join(row) for row in [["a", "b", "y"], *rows]).encode() + tail
    with tempfile.TemporaryDirectory() as folder:
        try:
            table = read_table(csv_file(Path(folder), content), "y")
        except InputError:
            return
    assert table.X.shape == (len(table.y), 2)
    assert np.isfinite(table.X).all()
    assert np.isfinite(table.y).all()


@FEW
@given(content=st.binary(max_size=200), kind=st.sampled_from(["csv", "parquet"]))
def test_any_bytes_are_read_or_refused(content: bytes, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = csv_file(Path(folder), content, f"t.{kind}")
        try:
            assert all(read_names(path))
            read_table(path, "y")
        except InputError:
            pass


# Targets of two classes -------------------------------------------------------------------------


def labels_of(path: Path, classes: tuple[str, str] | None = None) -> list[float]:
    table = read_table(path, "y", labels=True, classes=classes)
    assert table.y.values.dtype == np.float64
    assert table.y.named == (classes is not None)
    return table.y.values.tolist()


def label_refusal(path: Path, classes: tuple[str, str] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, "y", labels=True, classes=classes)
    assert "7351" not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


LABELS = {
    "text": (["yes", "no", "yes"], ("no", "yes")),
    "blanks": ([" yes", "no ", "yes"], ("no", "yes")),
    "text of numbers": (["1.0", "0", "1"], ("0", "1")),
    "signs": (["+1", "-1", "1"], ("-1", "1")),
    "truth in words": (["True", "false", "TRUE"], ("false", "true")),
    "truth for numbers": (["true", "0", "1"], ("0", "1")),
    "truth values": ([True, False, True], ("false", "true")),
    "whole numbers": ([1, 0, 1], ("0", "1.0")),
    "numbers": ([2.5, -1.0, 2.5], ("-1", "2.5")),
    "letters": (["é", "x", "é"], ("x", "é")),
    "a comma and a quote": (['a,"b"', "A", 'a,"b"'], ("A", 'a,"b"')),
    "numbers and text": (["x", "1", "x"], ("1", "x")),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_from_csv_and_parquet(case: str, tmp_path: Path) -> None:
    labels, classes = LABELS[case]
    frame = pl.DataFrame({"y": labels, "a": [1.0, 2.0, 3.0]}, strict=False)
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert labels_of(tmp_path / name) == [1, -1, 1]
        assert labels_of(tmp_path / name, classes) == [1, -1, 1]
        assert labels_of(tmp_path / name, classes[::-1]) == [-1, 1, -1]
        table = read_table(tmp_path / name, "y", labels=True)
        np.testing.assert_array_equal(table.X, [[1], [2], [3]])


def test_labels_of_narrow_and_categorical_types(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for labels, kind in [
        (["yes", "no"], pl.Categorical),
        (["yes", "no"], pl.Enum(["yes", "no"])),
        ([0.1, 0.0], pl.Float32),
        ([1, 0], pl.UInt8),
    ]:
        pl.DataFrame({"y": pl.Series(labels, dtype=kind), "a": [1, 2]}).write_parquet(path)
        assert labels_of(path) == [1, -1]


def test_features_stay_numbers_beside_labels(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "a,who,y\ntrue,Ann,yes\n2.5,Bob,no\n")
    table = read_table(path, "y", ["a"], labels=True)
    np.testing.assert_array_equal(table.X, [[1], [2.5]])
    assert table.y.values.tolist() == [1, -1]
    assert "column 'who' holds text" in label_refusal(path)
    assert "--features" in label_refusal(path)


def test_one_class_or_none_needs_names(tmp_path: Path) -> None:
    path = csv_file(tmp_path, f"a,y\n1,{SECRET}x\n2,{SECRET}x\n")
    assert "--classes first,second" in label_refusal(path)
    assert labels_of(path, ("other", f"{SECRET}x")) == [1, 1]
    assert "other than the two classes" in label_refusal(path, ("no", "yes"))
    assert "other than the two classes" in label_refusal(path, ("0", "1"))
    empty = csv_file(tmp_path, "a,y\n")
    assert labels_of(empty, ("no", "yes")) == labels_of(empty, ("0", "1")) == []
    assert "one class, or none" in label_refusal(empty)
    many = csv_file(tmp_path, f"a,y\n1,1\n2,{SECRET}\n3,3\n")
    assert "there are more" in label_refusal(many)
    assert "column 'y'" in label_refusal(many)


def test_missing_labels_are_refused_unless_the_word_is_a_class(tmp_path: Path) -> None:
    texts = set()
    for word in ("", "NA", "none", "NaN", "-", '""', " "):
        path = csv_file(tmp_path, f"a,y\n1,{SECRET}x\n2,{word}\n3,b\n")
        texts |= {label_refusal(path), label_refusal(path, (f"{SECRET}x", "b"))}
    texts.add(label_refusal(csv_file(tmp_path, "a,y\n1,a\n,b\n")))  # a missing feature
    texts.add(label_refusal(csv_file(tmp_path, "a,y\n1,a\n2\n3,b\n")))
    texts.add(label_refusal(csv_file(tmp_path, "a,y\n1,inf\n2,0\n")))
    assert len(texts) == 1  # the place of a missing value does not show
    assert "unless --classes names it" in texts.pop()
    path = csv_file(tmp_path, "a,y\n1,none\n2,some\n")
    assert labels_of(path, ("none", "some")) == [-1, 1]
    path = csv_file(tmp_path, "a,y\n1,-\n2,+\n")
    assert labels_of(path, ("-", "+")) == [-1, 1]
    frame = pl.DataFrame({"a": [1, 2, 3], "y": ["a", None, "b"]})
    frame.write_parquet(tmp_path / "t.parquet")
    assert "missing" in label_refusal(tmp_path / "t.parquet")
    assert "missing" in label_refusal(tmp_path / "t.parquet", ("a", "b"))
    frame.with_columns(y=None).write_parquet(tmp_path / "t.parquet")
    assert "missing" in label_refusal(tmp_path / "t.parquet")


def test_columns_that_are_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for labels in ([date(7351, 1, 1), date(2020, 1, 1)], [[1], [2]], [b"a", b"b"]):
        pl.DataFrame({"a": [1, 2], "y": labels}).write_parquet(path)
        assert "neither text nor truth values nor numbers" in label_refusal(path)


def test_text_for_a_loss_of_numbers_hints_at_the_other_losses(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1, 2], "y": [f"{SECRET}x", "b"]})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert "loss for labels, brier or logistic" in refusal(tmp_path / name)


def test_names_of_classes() -> None:
    assert check_classes(["no", "yes "]) == ("no", "yes")
    assert check_classes(["1", "true x"]) == ("1", "true x")
    for wrong in (["a"], ["a", "b", "c"], ["a", "a "], ["1", "1.0"], ["true", "1"], []):
        with pytest.raises(InputError, match="two different classes"):
            check_classes(wrong)


@FEW
@given(
    labels=st.lists(cells, max_size=4),
    classes=st.sampled_from([None, ("0", "1"), ("x", "é"), ("", "NA")]),
)
def test_any_target_is_read_as_signs_or_refused(
    labels: list[str], classes: tuple[str, str] | None
) -> None:
    content = "\n".join(["a,y", *(f"1,{label}" for label in labels)])
    with tempfile.TemporaryDirectory() as folder:
        try:
            signs = labels_of(csv_file(Path(folder), content), classes)
        except InputError:
            return
    assert set(signs) <= {-1.0, 1.0}


# Bounds files -----------------------------------------------------------------------------------


def bounds_file(folder: Path, content: str | bytes) -> Path:
    return csv_file(folder, content, "bounds.toml")


def test_bounds_of_columns_default_and_target(tmp_path: Path) -> None:
    path = bounds_file(
        tmp_path, '[default]\nbounds = [-1, 1]\n[columns]\na = [0, 10]\n"y" = [2, 3.5]'
    )
    found = read_bounds(path, ["b", "a"], "y")
    assert found.columns == {"b": (-1.0, 1.0), "a": (0.0, 10.0)}
    assert list(found.columns) == ["b", "a"]
    assert found.target == (2.0, 3.5)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_bounds_of_columns_that_are_not_used_are_no_mistake(tmp_path: Path) -> None:
    path = bounds_file(tmp_path, "[columns]\na = [0, 1]\nb = []\ny = [0, 1]")
    assert read_bounds(path, ["a"], "y", known=["a", "b", "y"]).columns == {"a": (0.0, 1.0)}
    with pytest.raises(InputError, match="'b', which is not a column"):
        read_bounds(path, ["a"], "y")


def test_a_target_of_labels_needs_no_limits(tmp_path: Path) -> None:
    for line in ("", "y = []", "y = [0, 1]", "y = 3"):
        path = bounds_file(tmp_path, f"[columns]\na = [0, 1]\n{line}\n")
        found = read_bounds(path, ["a"], None, known=["a", "y"])
        assert found.columns == {"a": (0.0, 1.0)}
        assert found.target is None
    with pytest.raises(InputError, match="no bounds for column 'b'"):
        read_bounds(path, ["a", "b"], None, known=["a", "b", "y"])


BAD_BOUNDS = {
    "missing": ("[columns]\ny = [0, 1]", "no bounds for column 'a'"),
    "missing target": ("[columns]\na = [0, 1]", "no bounds for column 'y'"),
    "no content": ("", "no bounds for column 'a'"),
    "empty limits": ("[columns]\na = []\ny = [0, 1]", "column 'a' are still empty"),
    "unknown": ("[columns]\na = [0, 1]\ny = [0, 1]\nzz = [0, 1]", "'zz', which is not a column"),
    "reversed": ("[columns]\na = [1, 0]\ny = [0, 1]", "column 'a' are 1 and 0"),
    "equal": ("[columns]\na = [1, 1]\ny = [0, 1]", "below the upper"),
    "reversed default": ("[default]\nbounds = [1, 0]", "below the upper"),
    "empty default": ("[default]\nbounds = []", "still empty"),
    "other default": ("[default]\nlimits = [0, 1]", "are allowed"),
    "text": ('[columns]\na = ["0", "1"]\ny = [0, 1]', "numbers"),
    "truth values": ("[columns]\na = [false, true]\ny = [0, 1]", "numbers"),
    "one limit": ("[columns]\na = [1]\ny = [0, 1]", "pair"),
    "three limits": ("[columns]\na = [1, 2, 3]\ny = [0, 1]", "pair"),
    "not a list": ("[columns]\na = 1\ny = [0, 1]", "pair"),
    "nested": ("[columns]\na = [[0], [1]]\ny = [0, 1]", "pair"),
    "uneven": ("[columns]\na = [[0, 1], 1]\ny = [0, 1]", "numbers"),
    "infinite": ("[columns]\na = [-inf, 1]\ny = [0, 1]", "finite"),
    "nan": ("[columns]\na = [0, nan]\ny = [0, 1]", "finite"),
    "too close": (
        "[columns]\na = [0, 5e-324]\ny = [0, 1]",
        "bounds.toml: the bounds of column 'a'",
    ),
    "too large": (f"[columns]\na = [0, {10**400}]\ny = [0, 1]", "float64"),
    "not TOML": ("[columns\na =", "not valid TOML"),
    "repeated": ("[columns]\na = [0, 1]\na = [0, 2]", "not valid TOML"),
    "other section": ("[column]\na = [0, 1]", "only"),
    "no section": ("columns = 3", "must be a table"),
    "not UTF-8": (b"[columns]\n\xff = [0, 1]", "UTF-8"),
}


@pytest.mark.parametrize("case", BAD_BOUNDS)
def test_a_bad_bounds_file_is_refused(case: str, tmp_path: Path) -> None:
    content, expected = BAD_BOUNDS[case]
    with pytest.raises(InputError) as caught:
        read_bounds(bounds_file(tmp_path, content), ["a"], "y")
    assert expected in str(caught.value)


def test_a_bounds_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="writes a template"):
        read_bounds(tmp_path / "none.toml", ["a"], "y")
    with pytest.raises(InputError, match="is a folder"):
        read_bounds(tmp_path, ["a"], "y")


@FEW
@given(
    names=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
        unique=True,
    )
)
def test_the_template_is_toml_for_any_names_and_is_refused_until_filled_in(
    names: list[str],
) -> None:
    text = schema_template([*names, "the y"], target="the y")
    assert tomllib.loads(text)["columns"] == {key: [] for key in names}
    assert tomllib.loads(text)["target"] == {"name": "the y", "bounds": []}
    with tempfile.TemporaryDirectory() as folder:
        path = bounds_file(Path(folder), text)
        with pytest.raises(InputError, match="still empty"):
            Codebook.read(path)
        bounds_file(Path(folder), text.replace("= []", "= [0, 2]"))
        if any("= []" in name for name in names):
            return
        schema = Schema.read_toml(path, [*names, "the y"])
        assert schema.names == tuple(names)
        assert all(column.span == (0.0, 2.0) for column in schema.columns)
        assert schema.target.limits == (0.0, 2.0)


def test_a_cell_is_the_same_number_whichever_way_its_file_is_read(tmp_path: Path) -> None:
    """One cell that needs reading as text has the whole file read so: no other cell may change."""
    rng = np.random.default_rng(0)
    texts = [repr(v) for v in rng.uniform(-1e3, 1e3, 300).tolist()]
    texts += [repr(float(v)) for v in 10.0 ** rng.uniform(-320, 308, 300)]
    texts += ["1.", ".5", "-.5", "+7", "1e5", "1E-7", "00012", "-0", "9007199254740993", "4.9e-324"]
    texts += ["0.1000000000000000055511151231257827", "2.2250738585072011e-308", "1e-400", "9" * 40]
    tables = []
    for last in ("1", " true"):
        path = csv_file(tmp_path, "\n".join(["x,y", *(f"{t},1" for t in [*texts, last])]))
        tables.append(read_table(path, "y").X[:, 0])
    np.testing.assert_array_equal(*tables)
