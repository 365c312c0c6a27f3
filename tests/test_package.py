"""The package as others get it: metadata, workflows, and the wheel in a clean environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpsubset.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
HOME = "https://github.com/dpsubset/dpsubset"
SITE = "https://dpsubset.github.io/dpsubset/"


def steps_of(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_the_version_has_one_source() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/dpsubset/version.py"
    assert read(ROOT / "CITATION.cff")["version"] == __version__
    assert f"\n## {__version__}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_the_citation_has_what_its_format_asks_for() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["authors"] == [{"name": a["name"]} for a in PROJECT["project"]["authors"]]
    assert citation["license"] == PROJECT["project"]["license"]


def test_addresses_are_alike_everywhere() -> None:
    urls = PROJECT["project"]["urls"]
    assert urls["Homepage"] == urls["Repository"] == HOME
    assert urls["Documentation"] == SITE
    assert all(url.startswith((HOME, SITE)) for url in urls.values())
    citation = read(ROOT / "CITATION.cff")
    assert (citation["repository-code"], citation["url"]) == (HOME, SITE)
    links = read(ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml")["contact_links"]
    assert all(link["url"].startswith((HOME, SITE)) for link in links)


def test_every_supported_python_is_named_and_tested() -> None:
    named = re.findall(r":: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    matrix = read(ROOT / ".github/workflows/tests.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert named == matrix["python"] == ["3.11", "3.12", "3.13"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_workflows_run_the_commands_of_the_makefile(path: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    workflow = read(path)
    assert workflow[True]  # "on", which YAML reads as true
    runs = [step["run"] for step in steps_of(workflow) if "run" in step]
    made = [run for run in runs if run.startswith("make ")]
    assert made
    for run in made:
        wanted = {word for word in run.split()[1:] if "=" not in word}
        assert wanted <= targets, run
    # The one other command compares the tag with the version.
    assert [run for run in runs if run not in made] == (
        ['test -f "dist/dpsubset-${GITHUB_REF_NAME#v}.tar.gz"'] if path.stem == "release" else []
    )


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_workflows_may_write_nothing_unless_a_job_says_so(path: Path) -> None:
    assert read(path)["permissions"] == {"contents": "read"}


def test_a_release_needs_no_password() -> None:
    publish = read(ROOT / ".github/workflows/release.yml")["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert not any("password" in step.get("with", {}) for step in publish["steps"])


@pytest.mark.parametrize("path", FORMS, ids=lambda p: p.name)
def test_issue_forms_parse(path: Path) -> None:
    form = read(path)
    if path.stem != "config":
        assert {"name", "description", "body"} <= set(form)
        assert all({"type", "attributes"} <= set(part) for part in form["body"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--quiet", "--wheel-dir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.slow
def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    from email.parser import Parser
    from zipfile import ZipFile

    with ZipFile(wheel) as archive:
        names = archive.namelist()
        told = archive.read(f"dpsubset-{__version__}.dist-info/METADATA").decode()
    about = Parser().parsestr(told)
    assert about["Version"] == __version__
    assert about["Author"] == "The dpsubset developers"
    assert about["License-Expression"] == "Apache-2.0"
    assert f"Documentation, {SITE}" in about.get_all("Project-URL", [])
    # An index knows no files next to the README.
    text = about.get_payload()
    assert isinstance(text, str)
    assert all(u.startswith(("http", "#")) for u in re.findall(r"\]\(([^)]+)\)", text))
    assert not [n for n in names if n.startswith(("tests/", "benchmarks/"))]
    files = ("py.typed", "privacy/guarantee.schema.json", "certificate/page.css")
    assert {f"dpsubset/{file}" for file in files} <= set(names)


@pytest.mark.slow
def test_the_source_archive_holds_what_its_makefile_needs(tmp_path: Path) -> None:
    import tarfile

    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path], ROOT)
    (found,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(found) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = ("Makefile", "constraints.txt", "docs/conf.py", "docs/tests/browsing.py")
    assert {
        *needed,
        "benchmarks/readme.py",
        "tests/oracle.py",
        ".github/workflows/docs.yml",
    } <= names
    assert not [name for name in names if name.startswith(("build/", ".venv", "docs/gallery/"))]


@pytest.mark.slow
def test_the_wheel_selects_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    """What it needs is installed from an index; the project's folder is not in sight."""
    home = tmp_path / "clean"
    venv.create(home, with_pip=True)
    python = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    constraints = ["-c", str(ROOT / "constraints.txt")]
    run([python, "-m", "pip", "install", "--quiet", *constraints, wheel], tmp_path)
    write = (
        "import numpy as np, polars as pl; r = np.random.default_rng(0); "
        "X = r.uniform(0, 1, (400, 3)); "
        "pl.DataFrame(X, schema=['a', 'b', 'c']).with_columns(y=pl.Series(X[:, 1]))"
        ".write_csv('t.csv')"
    )
    run([python, "-c", write], tmp_path)
    (tmp_path / "b.toml").write_text("[default]\nbounds = [0, 1]\n")
    asked = ["--target", "y", "--size", "1", "--bounds", "b.toml", "--epsilon", "50", "--quiet"]
    command = home / "bin" / "dpsubset"
    files = ["--ledger", "l.db", "--output", "r.json", "--report", "r.html"]
    run([command, "ledger", "l.db", "--epsilon", "60"], tmp_path)
    assert run([command, "select", "t.csv", *asked, *files], tmp_path).split() == ["b"]
    told = run([command, "verify", "r.json", "--ledger", "l.db"], tmp_path)
    assert "holds        ledger: entry 1" in told
    assert "<h1>Certificate" in (tmp_path / "r.html").read_text()
    where = run([python, "-c", "import dpsubset; print(dpsubset.__file__)"], tmp_path)
    assert str(home) in where


def run(command: list[Any], folder: Path) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
