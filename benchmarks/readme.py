"""What the README shows: what three commands and an example print, figures, a picture.

`python -m benchmarks.readme` runs the commands on the tutorial's table (statsmodels has it) and the
README's first example, takes the figures from benchmarks/results.json, draws
docs/figures/readme.png, and writes all of it between the marks in README.md.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.kept import written
from dpsubset import PermuteAndFlip, Schema, Selection
from dpsubset.data import Table
from dpsubset.planning.pictures import plotting

__all__ = ["example", "figures", "main"]

README, RESULTS = Path("README.md"), Path("benchmarks/results.json")
PICTURE = Path("docs/figures/readme.png")
SCHEMA = """\
[columns]
lncoins = [0, 4.62]
idp = "0/1"
lpi = [0, 7.2]
fmde = [0, 8.3]
physlm = [0, 1]
disea = [0, 60]
health = ["excellent", "good", "fair", "poor"]

[target]
name = "mdvis"
bounds = [0, 20]
"""
COMMANDS = (
    "dpsubset ledger budget.db --epsilon 3",
    "dpsubset select visits.csv --schema schema.toml --size 2 --epsilon 1 "
    "--ledger budget.db --output release.json --report release.html",
    "dpsubset verify release.json --schema schema.toml --ledger budget.db",
)
# What the table of the README shows, by the bench's own words for it.
SHOWN = {
    "first permute-and-flip release; s=8, p=1000, n=8000, 2.4e+19 supports": "an exact draw of 8 "
    "of 1,000 columns, out of 2.4e19 sets; 8,000 rows",
    "first permute-and-flip release; p=100000, n=6000, float32, ridge 600": "an exact draw of 5 of "
    "100,000 columns; 6,000 rows",
    "search: best, top 2+(p-s)s, best at every k; p=1000, n=5000, rho 0.1": "the best sets of 5 of "
    "1,000 columns, proven, and the best at every distance; 5,000 rows",
    "100 exact draws, permute-and-flip mechanism, epsilon 1; breast cancer": "100 exact draws on "
    "scikit-learn's breast cancer table",
}


def visits() -> pl.DataFrame:
    """Return the tutorial's table: the RAND health insurance experiment."""
    import statsmodels.api as sm

    table = pl.from_pandas(sm.datasets.randhie.load_pandas().data)
    words = pl.lit("excellent")
    for code, word in (("hlthg", "good"), ("hlthf", "fair"), ("hlthp", "poor")):
        words = pl.when(pl.col(code) == 1).then(pl.lit(word)).otherwise(words)
    return table.with_columns(health=words).drop("hlthg", "hlthf", "hlthp")


def figures(results: dict[str, Any]) -> str:
    """Return the table of figures, from the bench's own file."""
    seconds = {row["case"]: row["seconds"] for row in results["rows"]}
    lines = [f"| {words} | {seconds[case]:.2g} s |" for case, words in SHOWN.items()]
    return "\n".join(["| [measured](docs/benchmarks.md) on one core | |", "| --- | ---: |", *lines])


def outputs() -> str:
    """Run the commands in a new folder and return them with what they print."""
    with tempfile.TemporaryDirectory() as folder:
        visits().write_csv(Path(folder) / "visits.csv")
        (Path(folder) / "schema.toml").write_text(SCHEMA)
        told = [f"    $ {command}\n{_indented(_run(command, folder))}" for command in COMMANDS]
    return "\n\n".join(told)


def example(text: str) -> str:
    """Run the first example of a text and return what it prints."""
    block = re.search(r"```python\n(.*?)```", text, flags=re.S)
    if block is None:
        raise ValueError("there is no example")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(block[1], "README.md", "exec"), {})
    return _indented(printed.getvalue())


def _run(command: str, folder: str) -> str:
    words = [sys.executable, "-m", *command.split()]
    done = subprocess.run(
        words,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path("src").absolute())},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.replace(f"{folder}/", "")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())


def draw() -> None:
    """Draw the chance of each column to be released, exactly, over epsilon."""
    table = visits()
    book = Schema.from_dict(_schema())
    names = list(book.names or ())
    rows = Table(table.select(names), table["mdvis"])
    epsilons = np.geomspace(0.001, 1.0, 30)
    chances = []
    for epsilon in epsilons:
        problem = Selection(
            schema=book, size=2, epsilon=float(epsilon), loss="huber:0.2", radius=1.0
        ).problem(rows)
        supports, logs = PermuteAndFlip(float(epsilon)).probabilities(problem)
        inside = [(supports == j).any(axis=1) for j in range(len(names))]
        chances.append([np.exp(logs[one]).sum() for one in inside])
    plt = plotting()
    picture, place = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    for name, line in zip(names, np.transpose(chances), strict=True):
        place.plot(epsilons, line, label=name, linewidth=2.2 if line[-1] > 0.5 else 1.0)
    place.axhline(2 / len(names), color="#BBBBBB", linewidth=0.8)
    place.set_xscale("log")
    place.set_xticks([0.001, 0.01, 0.1, 1], ["0.001", "0.01", "0.1", "1"])
    place.set_xlabel("epsilon: left, more private; right, more certain")
    place.set_ylabel("chance to be released")
    place.set_title("Which two columns explain visits to a doctor? 20,190 rows", fontsize=10)
    place.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    for side in ("top", "right"):
        place.spines[side].set_visible(False)
    picture.savefig(PICTURE, dpi=130)
    plt.close(picture)


def _schema() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(SCHEMA)


def main() -> None:
    """Write everything."""
    text = README.read_text()
    text = written(text, "commands", outputs())
    text = written(text, "printed", example(text))
    text = written(text, "figures", figures(json.loads(RESULTS.read_text())))
    draw()
    README.write_text(text)


if __name__ == "__main__":
    main()
