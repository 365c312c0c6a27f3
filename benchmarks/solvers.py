"""The three solvers on the same tables: seconds, nodes, cuts and gaps, all from one run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import process_time

from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.measured import Row, time_best
from dpsubset.cuts import CutMaker
from dpsubset.limits import Allowance, Limits
from dpsubset.planning.generate import paper_classes, paper_table
from dpsubset.problem import Problem
from dpsubset.search import MIP, BranchAndBound, Found, OuterApproximation, Solver
from dpsubset.search.outer_approximation import Approximation
from dpsubset.warm import warm_up

__all__ = ["Measured", "main", "measure", "solver_rows"]

QUESTIONS = ("best", "top", "mistakes")
SIZE = 5


class Counted(OuterApproximation):
    """Outer approximation that remembers its last session."""

    last: Approximation | None = None

    def session(self, maker: CutMaker, scale: float) -> Approximation:
        """Open a session and keep it."""
        self.last = super().session(maker, scale)
        return self.last


@dataclass(frozen=True)
class Setting:
    """A table of the paper's kind."""

    p: int
    n: int
    ridge: float
    loss: str = "squared"
    seed: int = 1

    def problem(self) -> Problem:
        """Draw the table."""
        draw = paper_table if self.loss == "squared" else paper_classes
        table = draw(self.n, self.p, size=SIZE, seed=self.seed)
        return Problem(
            table.X,
            table.y,
            size=SIZE,
            loss=self.loss,
            x_bound=0.5,
            y_bound=0.5,
            radius=1.1,
            ridge=self.ridge,
        )


@dataclass(frozen=True)
class Measured:
    """One solver, one question, one table."""

    setting: Setting
    solver: str
    question: str
    seconds: float  # of the processor
    proven: bool
    gap: float  # the largest on the list, relative to the score
    nodes: int
    cuts: int | None
    above: float  # how far the worst entry lies above the exact one, relative


SETTINGS = (
    Setting(50, 3000, 100.0),
    Setting(100, 3000, 120.0),
    Setting(300, 3000, 160.0),
    Setting(1000, 3000, 250.0),
    Setting(50, 3000, 80.0, "hinge"),
    Setting(100, 3000, 90.0, "hinge"),
    Setting(300, 3000, 95.0, "hinge"),
    Setting(1000, 3000, 100.0, "hinge"),
)


def solvers() -> dict[str, Solver]:
    """Return the solvers that are compared, by the names of the table."""
    return {
        "branch and bound": BranchAndBound(),
        "outer approximation": Counted(),
        "outer approximation, the paper's": Counted.paper(),
        "integer program": MIP(),
    }


def ask(solver: Solver, question: str, problem: Problem, allowance: Allowance) -> list[Found]:
    """Put one of the three questions."""
    if question == "mistakes":
        return solver.by_mistakes(problem, allowance)
    many = 2 + (problem.n_columns - SIZE) * SIZE
    return solver.top(problem, 1 if question == "best" else many, allowance)


def measure(setting: Setting, seconds: float, names: list[str]) -> Iterator[Measured]:
    """Ask every solver every question, with a limit on each; the easiest first.

    A solver that does not come to the end of one is not asked the next.
    """
    exact = {q: ask(BranchAndBound(), q, setting.problem(), Allowance(None)) for q in QUESTIONS}
    for name in names:
        solver = solvers()[name]
        for question in QUESTIONS:
            problem = setting.problem()  # afresh: no solver inherits what another computed
            allowance = Allowance(Limits(seconds=seconds))
            began = process_time()
            found = ask(solver, question, problem, allowance)
            took = process_time() - began
            above = max(
                f.score / max(e.score, 1e-300) - 1.0
                for f, e in zip(found, exact[question], strict=True)
            )
            proven = all(f.proven for f in found)
            yield Measured(
                setting,
                name,
                question,
                took,
                proven,
                max(f.gap / max(f.score, 1e-300) for f in found),
                allowance.spent,
                solver.last.cuts if isinstance(solver, Counted) and solver.last else None,
                float(above),
            )
            if not proven:
                break


def solver_rows(quick: bool) -> Iterator[Row]:
    """The paper's solvers against branch and bound, for the bench."""
    setting = Setting(20, 300, 20.0) if quick else SETTINGS[1]
    for question in QUESTIONS:
        times = {}
        for name in ("branch and bound", "outer approximation", "integer program"):
            run = partial(_ask_afresh, setting, name, question)
            times[name] = time_best(run, 3 if name == "branch and bound" else 1)
        for name in list(times)[1:]:
            case = f"{name}: {question}; p={setting.p}, n={setting.n}, ridge {setting.ridge:g}"
            yield Row(case, times[name], "branch and bound", times["branch and bound"])


def _ask_afresh(setting: Setting, name: str, question: str) -> None:
    if not all(
        f.proven for f in ask(solvers()[name], question, setting.problem(), Allowance(None))
    ):
        raise RuntimeError("a search was not proven")


def main(output: Path, seconds: float = 75.0) -> None:
    """Measure all settings and write one line of JSON for each question."""
    console = Console(stderr=True)
    with threadpool_limits(1), output.open("w") as file:
        warm_up()
        for setting in SETTINGS:
            for row in measure(setting, seconds, list(solvers())):
                line = asdict(row)
                console.print(line, highlight=False)
                file.write(json.dumps(line, default=float) + "\n")
                file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "benchmarks/solvers.jsonl"))
