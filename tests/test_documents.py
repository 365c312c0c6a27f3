"""The documents tell the truth: statements that code cites exist, examples run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
THEORY = (ROOT / "THEORY.md").read_text()
PROVED = set(re.findall(r"^## (T\d+)\b", THEORY, flags=re.M))
FOLDERS = ("src", "tests", "benchmarks")
FILES = sorted([*ROOT.glob("*.md"), *(p for f in FOLDERS for p in ROOT.glob(f"{f}/**/*.py"))])


def cited(text: str) -> set[str]:
    return set(re.findall(r"\bT\d{1,2}\b", text))


def test_theory_numbers_are_complete() -> None:
    assert {f"T{i}" for i in range(1, 50)} == PROVED  # what lies between is not built yet


def test_every_cited_statement_exists() -> None:
    unknown = {path: cited(path.read_text()) - PROVED - {"T" + "99"} for path in FILES}
    assert len(unknown) > 300
    assert not {path: names for path, names in unknown.items() if names}


def test_an_unknown_statement_would_be_noticed() -> None:
    assert cited("as in T" + "98 and T3") - PROVED == {"T" + "98"}


def test_code_cites_the_theory() -> None:
    everything = "".join(p.read_text() for p in ROOT.glob("src/**/*.py"))
    needed = {*range(1, 9), *range(10, 21), *range(23, 32)}
    assert {f"T{i}" for i in needed} <= cited(everything)


def test_readme_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "at most e^1 = 2.72 between any two tables" in printed


def test_readme_links_exist() -> None:
    for target in re.findall(r"\]\((?!https:)([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target


def test_readme_figures_are_those_of_the_bench() -> None:
    import json

    from benchmarks import kept, readme

    text = (ROOT / "README.md").read_text()
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    assert kept.written(text, "figures", readme.figures(results)) == text
    ratios = [row["ratio"] for row in results["rows"] if row["case"].startswith("search: best")]
    assert f"{min(ratios):.0f} to {max(ratios):.0f} Gram matrices" in text
    results["rows"][0]["seconds"] *= 2  # the twin: another figure would be noticed
    assert kept.written(text, "figures", readme.figures(results)) != text


def test_readme_shows_what_its_example_prints() -> None:
    from benchmarks import readme

    text = (ROOT / "README.md").read_text()
    _, *guarantee = readme.example(text).splitlines()  # the columns are drawn anew
    assert len(guarantee) > 4
    shown = re.search(r"<!-- begin printed -->(.*?)<!-- end printed -->", text, flags=re.S)
    assert shown is not None
    assert shown[1].strip("\n").splitlines()[1:] == guarantee


def test_readme_shows_commands_that_exist() -> None:
    from benchmarks import readme
    from dpsubset.cli import app

    text = (ROOT / "README.md").read_text()
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    for command in readme.COMMANDS:
        assert f"    $ {command}\n" in text
        assert command.split()[1] in known
