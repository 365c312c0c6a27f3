"""Model files: what was written is read back; anything else is refused, or is the same model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpsubset.errors import InputError
from dpsubset.model_file import LinearModel, read_model, write_model
from dpsubset.privacy import Guarantee, compose

# One folder serves all examples of a test: every one writes the same file anew.
FEW = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
PARTS = [
    Guarantee("permute-and-flip mechanism", 0.5, "replace-one", 3.5, 2.5e-11),
    Guarantee("objective perturbation", 0.5, "replace-one", 0.7, 0.0),
]
MODEL = LinearModel(
    target='größe, "1"\n\x1b[2J',
    columns=("a", "b,c", "年齢", 'q"q', "\t"),
    coefficients=(1.0, -2.5e-300, 1 / 3, 0.0, 1e17),
    intercept=-0.1,
    classes=("no", "yes"),
    probabilities=True,
    guarantee=compose(PARTS).to_dict(),
    asked={"epsilon": 1.0, "features": None, "always_include": ["a"], "intercept": True},
    bounds=((-5.0, 5.0), (0.0, 1.0), (0.0, 9.0), (0.0, 7.0), (-1e17, 1e17)),
    target_bounds=(-4.0, 1.5),
    positions=(0, 3, 4, 7, 9),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.json"
    file.write_text(write_model(MODEL), encoding="utf-8")
    return file


def outcome(path: Path, content: bytes | str) -> LinearModel | str:
    """Return the model that is read, or the text of the refusal."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    caught = None
    try:
        return read_model(path)
    except InputError as error:
        caught = error
    text = str(caught)
    assert caught.__cause__ is None
    assert text.startswith(str(path))
    assert "\n" not in text
    assert len(text) > len(str(path)) + 15
    return text


def refusal(path: Path, content: bytes | str) -> str:
    found = outcome(path, content)
    assert isinstance(found, str), "an edited file was read"
    return found


def is_refused_or_the_same(path: Path, content: bytes | str) -> bool:
    found = outcome(path, content)
    return isinstance(found, str) or found == MODEL


def document(**changes: Any) -> dict[str, Any]:
    """Return the contents of the file with some changed, wherever in it they are."""
    content = json.loads(write_model(MODEL))
    inside = {key: value for key, value in changes.items() if key in content["released"]}
    outside = {key: value for key, value in changes.items() if key not in inside}
    return {**content, "released": content["released"] | inside, **outside}


def signed(content: dict[str, Any]) -> str:
    """Return a file with a fitting checksum; computed here by itself."""
    content = {key: value for key, value in content.items() if key != "sha256"}
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps({**content, "sha256": hashlib.sha256(plain.encode()).hexdigest()})


# The same model ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        MODEL,
        replace(MODEL, classes=None, probabilities=False),
        LinearModel("y", ("a",), (5e-324,), 1.7976931348623157e308),
        LinearModel("y", ("a", "b"), (-0.0, 0.1 + 0.2), 2.0**-1074),
    ],
)
def test_what_is_written_is_read_back(path: Path, model: LinearModel) -> None:
    text = write_model(model)
    assert outcome(path, text) == model
    assert write_model(read_model(path)) == text
    again = read_model(path)
    assert [v.hex() for v in again.coefficients] == [v.hex() for v in model.coefficients]
    assert text.endswith("}\n")


numbers = st.floats(allow_nan=False, allow_infinity=False)


@FEW
@given(
    columns=st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True, max_size=5),
    data=st.data(),
)
def test_any_model_is_read_back(tmp_path: Path, columns: list[str], data: st.DataObject) -> None:
    values = data.draw(st.tuples(*[numbers for _ in columns]))
    model = LinearModel("y", tuple(columns), values, data.draw(numbers))
    assert outcome(tmp_path / "m.json", write_model(model)) == model


def test_blanks_and_order_do_not_matter(path: Path) -> None:
    content = document()
    for text in (
        json.dumps(content),
        json.dumps(content, indent=7, ensure_ascii=False),
        json.dumps(dict(reversed(content.items())), separators=(" ,\n", "\t:  ")),
        json.dumps(content).replace("{", "{\r\n"),
        "\n \t" + json.dumps(content) + "\n\n",
        signed(content),
    ):
        assert outcome(path, text) == MODEL


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_model_without_numbers_is_not_written(number: float) -> None:
    with pytest.raises(ValueError):
        write_model(LinearModel("y", ("a",), (number,), 0.0))
    with pytest.raises(ValueError):
        write_model(LinearModel("y", ("a",), (1.0,), number))


def test_a_model_of_version_1_is_read_and_clips_nothing(path: Path) -> None:
    new = document()
    kept = {k: v for k, v in new["released"].items() if "bounds" not in k and k != "positions"}
    flat = {"format": new["format"], "version": 1, **kept, "guarantee": new["guarantee"]}
    old = outcome(path, signed({**flat, "settings": new["asked"]}))
    assert old == replace(MODEL, bounds=None, target_bounds=None, positions=None)


def test_predictions_of_a_model() -> None:
    X = np.array([[1.0, 0, 3, 0, 0], [-9.0, 0, 0, 5, 0]])
    shown = MODEL.predict(X)
    assert list(shown) == [MODEL.target, "probability of yes"]
    assert shown[MODEL.target].tolist() == ["yes", "no"]
    np.testing.assert_allclose(shown["probability of yes"], 1 / (1 + np.exp([-1.9, 5.1])))
    assert list(replace(MODEL, probabilities=False).predict(X)) == [MODEL.target]
    plain = replace(MODEL, classes=None)
    np.testing.assert_allclose(plain.predict(X.astype(np.float32))[MODEL.target], [1.5, -4.0])
    far = replace(plain, target_bounds=None)
    np.testing.assert_allclose(far.predict(X)[MODEL.target], [1.9, -5.1])
    wide = replace(far, bounds=None)
    np.testing.assert_allclose(wide.predict(X)[MODEL.target], [1.9, -9.1])
    assert MODEL.predict(X[:0])[MODEL.target].shape == (0,)


# Another file -----------------------------------------------------------------------------------


def test_every_file_that_was_cut_off(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(len(whole) - 1):
        refusal(path, whole[:length])
    assert outcome(path, whole[:-1]) == MODEL  # the last line end


def test_every_byte_that_was_flipped(path: Path) -> None:
    whole = path.read_bytes()
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        found = outcome(path, bytes(content))
        # Blanks may be other blanks, and 1e+17 is 1E+17.
        assert isinstance(found, str) or (found == MODEL and whole[place] in b" \ne")


@FEW
@given(edits=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=3)), min_size=1, max_size=3))
def test_any_bytes_that_were_exchanged(tmp_path: Path, edits: list[tuple[float, bytes]]) -> None:
    content = write_model(MODEL).encode()
    for where, new in edits:
        place = int(where * len(content))
        content = content[:place] + new + content[place + len(new) :]
    assert is_refused_or_the_same(tmp_path / "m.json", content)


def edited_numbers() -> list[str]:
    text = write_model(MODEL)
    pairs = [("1.0", "1.0000000000000002"), ("-0.1", "0.1"), ("1e+17", "1e+18"), ("0.0,", "-0.0,")]
    pairs += [("0.3333333333333333", "0.3333333333333334"), ("-2.5e-300", "-2.5e-301")]
    assert all(old in text for old, _ in pairs)
    return [text.replace(old, new, 1) for old, new in pairs]


@pytest.mark.parametrize("text", edited_numbers(), ids=range(6))
def test_an_edited_number_is_noticed(path: Path, text: str) -> None:
    assert "was changed after it was written" in refusal(path, text)


def test_without_the_checksum_an_edited_number_would_pass(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = document()["sha256"]
    monkeypatch.setattr("dpsubset.model_file.checksum", lambda content: digest)
    for text in edited_numbers()[1:3]:
        assert not is_refused_or_the_same(path, text)
        with pytest.raises(AssertionError, match="an edited file was read"):
            refusal(path, text)


def test_added_and_removed_keys_are_noticed(path: Path) -> None:
    for key in document():
        content = document()
        del content[key]
        refusal(path, json.dumps(content))
        if key not in ("sha256", "dpsubset"):
            refusal(path, signed(content))
        refusal(path, json.dumps(document(**{key: None})))
    for key in document()["released"]:
        content = document()
        del content["released"][key]
        refusal(path, signed(content))
        refusal(path, json.dumps(document(**{key: 1.5})))
    assert "was changed" in refusal(path, json.dumps(document(more=1)))
    for digest in ("", "0" * 64, 3, [], document()["sha256"].upper()):
        assert "was changed" in refusal(path, json.dumps(document(sha256=digest)))
    guarantee = {**document()["guarantee"], "epsilon": 0.1}
    assert "was changed" in refusal(path, json.dumps(document(guarantee=guarantee)))


@pytest.mark.parametrize("sign", [json.dumps, signed])
@pytest.mark.parametrize("version", [0, -1, True, False, "1", None, 1.0, [1], 4, 10**30, 1.5])
def test_other_versions(path: Path, version: Any, sign: Callable[[Any], str]) -> None:
    text = refusal(path, sign(document(version=version)))
    if isinstance(version, int) and version > 2:
        assert f"version {version}" in text
        assert "newer" in text


WRONG: list[dict[str, Any]] = [
    {"format": "dpsubset release"},
    {"format": None},
    {"format": ["dpsubset model"]},
    {"target": 3},
    {"columns": None},
    {"columns": 5},
    {"columns": "abcde"},
    {"columns": ["a", "b", "c", "d"]},
    {"columns": ["a", "b", "c", "d", "a"]},
    {"columns": ["a", "b", "c", "d", 5]},
    {"columns": ["a", "b", "c", "d", ["e"]]},
    {"columns": {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}},
    {"coefficients": None},
    {"coefficients": "12345"},
    {"coefficients": [1, 2, 3, 4]},
    {"coefficients": [1, 2, 3, 4, "5"]},
    {"coefficients": [1, 2, 3, 4, None]},
    {"coefficients": [1, 2, 3, 4, 10**400]},
    {"coefficients": [1, 2, 3, 4, True]},
    {"intercept": None},
    {"intercept": "0"},
    {"intercept": [0.0]},
    {"intercept": True},
    {"classes": []},
    {"classes": ["a"]},
    {"classes": ["a", "b", "c"]},
    {"classes": ["a", 1]},
    {"classes": ["a", "a"]},
    {"classes": "ab"},
    {"classes": {"a": 1, "b": 2}},
    {"classes": 0},
    {"classes": False},
    {"bounds": []},
    {"bounds": [[0, 1]]},
    {"bounds": [[0, 1]] * 4 + [[1, 0]]},
    {"bounds": [[0, 1]] * 4 + [[0, "1"]]},
    {"bounds": [[0, 1]] * 4 + [[0, 1, 2]]},
    {"bounds": [[0, 1]] * 6},
    {"bounds": {}},
    {"target_bounds": [1, 1]},
    {"target_bounds": 3},
    {"target_bounds": [0, True]},
    {"probabilities": None},
    {"probabilities": "no"},
    {"probabilities": 1},
    {"guarantee": None},
    {"guarantee": "none"},
    {"guarantee": []},
    {"guarantee": 1},
    {"asked": None},
    {"asked": [["a", 1]]},
    {"released": None},
    {"released": {}},
    {"positions": [0]},
    {"positions": [0, 1, 2, 3, "4"]},
    {"positions": [0, 1, 2, 3, True]},
]


@pytest.mark.parametrize("sign", [json.dumps, signed])
def test_wrong_types(path: Path, sign: Callable[[Any], str]) -> None:
    for wrong in WRONG:
        refusal(path, sign(document(**wrong)))


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "nan"])
def test_constants_that_are_no_numbers(path: Path, constant: str) -> None:
    refusal(path, write_model(MODEL).replace("-0.1", constant))
    refusal(path, signed(document(intercept=12321)).replace("12321", constant))
    content = document(intercept=float(constant))
    refusal(path, signed(content).replace("NaN", "1e999").replace("Infinity", "1e999"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "not valid JSON"),
        (b"\0" * 100, "not valid JSON"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (write_model(MODEL).encode("utf-16"), "not UTF-8"),
        (write_model(MODEL).encode("latin-1", "replace"), "not UTF-8"),
        (b"\xef\xbb\xbf" + write_model(MODEL).encode(), "not valid JSON"),
        (b"a,b,y\n1,2,3\n", "not valid JSON"),
        (write_model(MODEL).encode() * 2, "not valid JSON"),
        (b"null", "not a model"),
        (b"3", "not a model"),
        (b'"dpsubset model"', "not a model"),
        (b"[]", "not a model"),
        (b"{}", "not a model"),
        (b'{"columns": ["a"], "guarantee": {}}', "not a model"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"a":' * 100_000, "not valid JSON"),
        (b'{"version": ' + b"9" * 10_000 + b"}", "not valid JSON"),
    ],
    ids=range(17),
)
def test_files_that_are_no_models(path: Path, content: bytes, expected: str) -> None:
    assert expected in refusal(path, content)


@pytest.mark.parametrize("depth", [100, 500, *range(900, 1000, 5), 5000])
def test_deeply_nested(path: Path, depth: int) -> None:
    text = json.dumps(document(more="@")).replace('"@"', "[" * depth + "]" * depth)
    refusal(path, text)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(1 << 30)  # a hole: it takes no room
    for path, expected in [
        (tmp_path, "is a folder"),
        (tmp_path / "none.json", "no such file"),
        (tmp_path / "file" / "model.json", "cannot be read"),
        (tmp_path / "loop", "cannot be read"),
        (huge, "too large"),
    ]:
        with pytest.raises(InputError, match=expected):
            read_model(path)


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_model(tmp_path / ("m" * 300))
