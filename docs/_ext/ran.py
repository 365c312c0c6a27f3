"""Examples that run while the site is built: Python, commands, and the files that they need.

A page has one namespace and one empty folder; what it writes is gone after the build. An example
that fails is a warning, which `make docs` turns into an error.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOG = logging.getLogger(__name__)
SECONDS = 300  # for one command
WIDEST = 80  # lines that keep their columns; longer ones are sentences, which may be broken


class Place:
    """The folder and the names of one page."""

    def __init__(self) -> None:
        self._kept = tempfile.TemporaryDirectory()
        self.folder = Path(self._kept.name)
        self.names: dict[str, Any] = {"__name__": "__main__"}


def place_of(directive: SphinxDirective) -> Place:
    """Return the place of a page; a page that is read again begins anew."""
    data = directive.env.temp_data
    if "ran" not in data:
        data["ran"] = Place()
    place: Place = data["ran"]
    return place


class Ran(SphinxDirective):
    """Python that runs, and what it prints; the last expression is shown as in a notebook."""

    has_content = True
    option_spec: ClassVar[Any] = {"hidden": directives.flag}

    def run(self) -> list[nodes.Node]:
        code, place = "\n".join(self.content), place_of(self)
        printed, before = io.StringIO(), Path.cwd()
        os.chdir(place.folder)
        try:
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("error")
                _run(code, place.names)
        except Exception:
            told = traceback.format_exc()
            LOG.warning("an example fails:\n%s", told, location=self.get_location())
        finally:
            os.chdir(before)
        if "hidden" in self.options:
            return []
        return [block(code, "python"), *shown(printed.getvalue(), place)]


def _run(code: str, names: dict[str, Any]) -> None:
    tree = ast.parse(code)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, "<example>", "exec", dont_inherit=True), names)
    if isinstance(last, ast.Expr):
        value = eval(
            compile(ast.Expression(last.value), "<example>", "eval", dont_inherit=True), names
        )
        if value is not None:
            print(value if hasattr(value, "_repr_html_") else repr(value))


class Terminal(SphinxDirective):
    """Commands that run, each after a dollar sign, and what they print."""

    has_content = True
    option_spec: ClassVar[Any] = {"fails": directives.nonnegative_int}

    def run(self) -> list[nodes.Node]:
        place, found = place_of(self), []
        for command in _commands(self.content):
            done = subprocess.run(
                command,
                shell=True,
                cwd=place.folder,
                env=os.environ | {"PATH": _path(), "COLUMNS": "100", "NO_COLOR": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            found += [block(f"$ {command}", "console"), *shown(done.stdout, place)]
            if done.returncode != self.options.get("fails", 0):
                LOG.warning(
                    "a command ends with %d:\n%s\n%s",
                    done.returncode,
                    command,
                    done.stdout,
                    location=self.get_location(),
                )
        return found


def _commands(lines: Any) -> list[str]:
    found: list[str] = []
    for line in lines:
        if line.startswith("$ "):
            found.append(line[2:])
        elif found and line.strip():
            found[-1] += "\n" + line
    return found


class Written(SphinxDirective):
    """A file of the page's folder, written and shown."""

    has_content = True
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name, text = self.arguments[0], "\n".join(self.content) + "\n"
        (place_of(self).folder / name).write_text(text)
        kind = Path(name).suffix.lstrip(".")
        return [block(text, {"py": "python"}.get(kind, kind))]


class Kept(SphinxDirective):
    """A page of HTML or a picture that an example wrote, kept in the site and shown."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        folder = Path(self.env.app.outdir) / "_static" / "kept"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((place_of(self).folder / name).read_bytes())
        up = "../" * self.env.docname.count("/")
        where = f"{up}_static/kept/{name}"
        if Path(name).suffix == ".png":
            shown = f'<img class="kept" src="{where}" alt="{name}">'
        else:
            shown = (
                f'<iframe class="kept" src="{where}" title="{name}" loading="lazy"></iframe>'
                f'<p><a class="reference external" href="{where}">{name} by itself</a></p>'
            )
        return [nodes.raw("", shown, format="html")]


def block(text: str, language: str) -> nodes.Node:
    """Return a block of code."""
    return nodes.literal_block(text, text, language=language)


def shown(text: str, place: Place) -> list[nodes.Node]:
    """Return the block of an output, if there is any."""
    told = _without_folder(text, place).rstrip()
    if not told:
        return []
    found = nodes.literal_block(told, told, language="text")
    found["classes"].append("printed")
    lines = told.splitlines()
    if len(lines) > 1 and max(map(len, lines)) <= WIDEST:
        found["classes"].append("aligned")
    return [found]


def _without_folder(text: str, place: Place) -> str:
    return text.replace(f"{place.folder}/", "").replace(str(place.folder), ".")


def _path() -> str:
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directives known."""
    app.add_directive("ran", Ran)
    app.add_directive("terminal", Terminal)
    app.add_directive("written", Written)
    app.add_directive("kept", Kept)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
