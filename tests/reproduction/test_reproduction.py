"""The paper's figures: settings as data, curves, runs that can be killed, pictures, the report.

Runs are of made-up figures on tiny tables, appended to the settings as a user would.
"""

from __future__ import annotations

import html
import importlib
import json
import math
import re
import sys
import tomllib
import zlib
from collections.abc import Iterator
from dataclasses import fields, replace
from html.parser import HTMLParser
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dpsubset import mechanisms
from dpsubset.errors import InputError, MissingExtraError
from dpsubset.losses import as_loss
from dpsubset.reproduction import Method, Panel, settings, trial
from dpsubset.reproduction.claims import claims
from dpsubset.reproduction.curves import Point, curves, needed, needed_text, tables_text
from dpsubset.reproduction.drawing import AXES, METRICS, draw_figure, spread_out
from dpsubset.reproduction.main import main
from dpsubset.reproduction.report import needed_table, summary_table, write_report
from dpsubset.reproduction.runs import Results, jobs_of, run_jobs
from dpsubset.reproduction.trial import Job, run_trial, seed_of
from dpsubset.search import BranchAndBound

FOLDER = "dpsubset.reproduction"
TEXT = files(FOLDER).joinpath("figures.toml").read_text()
MADE_UP = """
[methods.made-up]
label = "made up, a < b & c"
colour = "#123456"
mechanism = "Exponential"
options = { neighbours = "add-remove" }
loss = "huber:0.2"
bound = 2.0
ridge = 3.0

[methods.hidden]
label = "not drawn"
colour = "#654321"
drawn = false
mechanism = "PermuteAndFlip"

[panels.tiny]
title = "a tiny table, n < 200"
columns = 8
size = 2
epsilon = 5.0
ridge = 5.0
steps = 20
methods = ["top-r", "mistakes", "markov-chain", "sample-aggregate", "made-up", "hidden"]
values = [60, 120]
quick = [120]

[panels.tiny-hinge]
title = "labels"
loss = "hinge"
columns = 6
rows = 80
size = 2
axis = "ridge"
methods = ["mistakes", "permute-and-flip"]
values = [1.5]
quick = []

[panels.tiny-prediction]
title = "prediction"
kind = "prediction"
columns = 6
size = 2
epsilon = 9.0
methods = ["top-r", "exponential"]
values = [100, 150]
quick = [100]

[panels.tiny-count]
title = "counts"
kind = "listed"
axis = "count"
columns = 7
rows = 60
size = 2
methods = ["top-r"]
values = [2, 5, 21]
quick = [2, 21]

[figures.tiny]
title = "Tiny & made up"
panels = ["tiny", "tiny-hinge"]
metrics = ["fraction", "f1"]

[figures.tiny-others]
title = "Of all kinds"
panels = ["tiny-prediction", "tiny-count", "tiny"]
metrics = ["error", "utility", "chance"]
"""


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add rows to the settings; nothing else is told of them."""
    module = importlib.import_module(f"{FOLDER}.settings")
    text = SimpleNamespace(read_text=lambda *a, **k: TEXT + MADE_UP)
    monkeypatch.setattr(module, "files", lambda name: SimpleNamespace(joinpath=lambda name: text))
    settings.cache_clear()
    yield
    monkeypatch.undo()
    settings.cache_clear()


def done(path: Path) -> dict[str, Any]:
    """Return the entries of a file of results by their job, without what differs by nature."""
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    for row in (row for entry in entries for row in entry.get("rows", ())):
        assert row.pop("seconds") >= 0
    found = {json.dumps(entry.pop("job"), sort_keys=True): entry for entry in entries}
    assert len(found) == len(entries)  # no trial twice
    return found


def run(jobs: list[Job], path: Path, workers: int = 1) -> dict[str, Any]:
    with joblib.parallel_config(backend="threading"):
        list(run_jobs(jobs, Results(path), workers=workers))
    return done(path)


# Settings ---------------------------------------------------------------------------------------


def test_what_figures_name_exists() -> None:
    given = settings()
    assert {p for figure in given.figures.values() for p in figure.panels} == set(given.panels)
    assert {m for panel in given.panels.values() for m in panel.methods} == set(given.methods)
    for figure in given.figures.values():
        assert figure.title
        assert figure.panels
        assert figure.metrics
        assert set(figure.metrics) <= set(METRICS)
        assert len(set(figure.panels)) == len(figure.panels)
    assert "all" not in given.figures


def test_panels_can_be_run_and_drawn() -> None:
    for panel in settings().panels.values():
        assert panel.axis in AXES
        assert panel.kind in ("recovery", "prediction", "listed")
        assert (panel.kind == "listed") == (panel.axis == "count")
        assert panel.kind != "listed" or panel.methods == ("top-r",)  # the one that it computes
        assert list(panel.values) == sorted(set(panel.values))
        assert len(panel.values) > 1
        assert set(panel.quick) <= set(panel.values)
        assert len(set(panel.methods)) == len(panel.methods) > 0
        assert panel.columns >= 2 * panel.size - 1
        assert panel.kind != "prediction" or panel.loss == "squared"
        for value in panel.values:
            if panel.axis != "count":
                assert getattr(panel.at(value), panel.axis) == value
                assert panel.at(value).title == panel.title


def test_methods_can_be_made_and_told_apart() -> None:
    methods = settings().methods.values()
    for what in ("label", "colour"):
        assert len({getattr(m, what) for m in methods}) == len(methods)
    for method in methods:
        assert re.fullmatch("#[0-9A-F]{6}", method.colour)
        made = trial._mechanism(settings().panels["p100"], method, 1.5)
        assert type(made) is getattr(mechanisms, method.mechanism)
        assert made.epsilon == 1.5
        assert method.loss is None or as_loss(method.loss)
        assert made.sensitivity == method.options.get("sensitivity", "tight")


def test_nothing_is_written_down_that_is_not_read() -> None:
    """Unknown keys are refused where the settings are read, and figures have four fields."""
    given = tomllib.loads(TEXT)
    assert set(given) == {"defaults", "methods", "panels", "figures"}
    panel, method = ({f.name for f in fields(kind)} for kind in (Panel, Method))
    assert set(given["defaults"]) <= panel
    assert all(set(entry) < method for entry in given["methods"].values())
    assert all(set(entry) < panel for entry in given["panels"].values())
    assert all(set(e) == {"title", "panels", "metrics"} for e in given["figures"].values())


def test_every_field_of_a_panel_changes_what_is_run() -> None:
    """Each parameter moved by itself moves the table, the problem or the mechanism."""
    method = Method("m", "m", "#000000", "MarkovChain", {"sensitivity": "paper"})
    base = settings().panels["p100"].at(50)

    def seen(panel: Panel) -> tuple[Any, ...]:
        table = trial._table(panel, 1)
        problem = trial._problem(panel, table.X, table.y, method)
        made = trial._mechanism(panel, method, panel.epsilon)
        outcome = table.X.tobytes(), table.y.tobytes(), problem.size, problem.ridge
        return (*outcome, problem.loss.name, problem.x_bound, problem.radius, repr(made))

    moved = {"columns": 30, "rows": 51, "size": 4, "snr": 2.0, "rho": 0.3, "epsilon": 2.0}
    moved |= {"loss": "hinge", "ridge": 1.0, "bound": 0.4, "radius": 2.0, "steps": 5}
    plain = {"name", "title", "kind", "axis", "values", "quick", "methods"}
    assert set(moved) == {f.name for f in fields(Panel)} - plain
    for name, value in moved.items():
        changed = Panel(**(vars(base) | {name: value}))
        assert seen(changed) != seen(base), name


@pytest.mark.parametrize("loss", [None, "absolute"])
def test_a_methods_own_bound_and_ridge_are_taken(loss: str | None) -> None:
    """What is None is the panel's; what is not None is the method's, each by itself."""
    panel = settings().panels["p100"].at(50)
    table = trial._table(panel, 1)

    def made(**own: float) -> Any:
        method = Method("m", "m", "#000000", "Exponential", loss=loss, **own)
        return trial._problem(panel, table.X, table.y, method)

    assert made(ridge=7.0).ridge == 7.0
    assert made(ridge=0.0).ridge == 0.0
    assert made(bound=0.8).x_bound == made(bound=0.8).y_bound == 0.8
    assert made().ridge == panel.ridge
    assert made().x_bound == panel.bound


def test_unknown_figures_are_refused() -> None:
    with pytest.raises(InputError, match=r"unknown figure 'p7'; allowed: all, .*hinge"):
        settings().chosen("p7")
    assert [f.name for f in settings().chosen("all")] == list(settings().figures)


def test_quick_values_are_the_points_of_a_quick_run(tiny: None) -> None:
    for figure in settings().figures.values():
        for quick in (False, True):
            jobs = jobs_of([figure], trials=2, draws=3, quick=quick)
            for name in figure.panels:
                panel = settings().panels[name]
                expected = panel.quick if quick else panel.values
                found = {job.value for job in jobs if job.panel == name}
                if panel.axis == "count":  # one table serves all counts
                    assert found == ({None} if expected else set())
                else:
                    assert found == set(expected)
    both = jobs_of(settings().chosen("all"), trials=1, draws=3)
    assert len(set(both)) == len(both)  # shared panels once
    for name, bad in [("trials", 0), ("draws", 0), ("trials", 1.5)]:
        with pytest.raises(InputError, match=name):
            jobs_of(settings().chosen("tiny"), **({"trials": 1, "draws": 1} | {name: bad}))  # type: ignore[arg-type]


# Seeds ------------------------------------------------------------------------------------------


def test_seeds_are_fixed_by_panel_value_and_trial() -> None:
    assert seed_of(Job("p100", 3000, 0, 50)) == zlib.crc32(b"p100/3000/0")
    jobs = jobs_of(settings().chosen("all"), trials=10, draws=5)
    assert len({seed_of(job) for job in jobs}) == len(jobs)
    others = jobs_of(settings().chosen("all"), trials=10, draws=9)
    assert [seed_of(job) for job in jobs] == [seed_of(job) for job in others]


def test_the_same_rows_whatever_runs_beside(tiny: None, tmp_path: Path) -> None:
    jobs = jobs_of(settings().chosen("tiny"), trials=2, draws=4)
    first = run(jobs, tmp_path / "a")
    assert not any("failed" in entry for entry in first.values())
    assert run(jobs[::-1], tmp_path / "b", workers=2) == first
    part = run(jobs[2:3], tmp_path / "c")
    assert part.items() <= first.items()
    more = jobs_of(settings().chosen("tiny"), trials=1, draws=6)
    mixed = run([*more, *jobs], tmp_path / "d")
    assert first.items() <= mixed.items()
    assert len(mixed) == len(first) + len(more)
    fresh = {json.dumps(entry) for entry in first.values()}
    assert len(fresh) == len(first)  # trials differ from each other


def test_twin_a_seed_by_the_order_of_trials(
    tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Job] = []

    def next_seed(job: Job) -> int:
        calls.append(job)
        return len(calls)

    monkeypatch.setattr(trial, "seed_of", next_seed)
    jobs = jobs_of(settings().chosen("tiny"), trials=1, draws=4)
    assert run(jobs, tmp_path / "a") != run(jobs[::-1], tmp_path / "b")


def test_every_kind_of_trial_gives_its_rows(tiny: None) -> None:
    rows = run_trial(Job("tiny-prediction", 100, 0, 3))
    assert [row["method"] for row in rows] == ["top-r", "exponential"]
    assert all(row["error"] > 0 and math.isfinite(row["utility"]) for row in rows)
    rows = run_trial(Job("tiny-count", None, 0, 3))
    assert [row["value"] for row in rows] == [2, 5, 21]
    chances = [row["chance"] for row in rows]
    assert all(0 < chance <= 1 for chance in chances)
    rows = run_trial(Job("tiny", 60, 0, 5))
    assert [row["method"] for row in rows] == list(settings().panels["tiny"].methods)
    for row in rows:
        assert (row["chance"] is None) == (row["method"] in ("markov-chain", "sample-aggregate"))
        assert row["fraction"] in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
        assert row["fraction"] <= row["f1"] <= 1.0


def test_draws_and_chances_rest_on_one_search(tiny: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers are those of a mechanism that searches as often as it is asked."""
    rows = {row["method"]: row for row in run_trial(Job("tiny", 60, 0, 5))}
    calls = []
    for name in ("top", "by_mistakes"):
        real = getattr(BranchAndBound, name)

        def counted(*given: Any, real: Any = real, name: str = name) -> Any:
            calls.append(name)
            return real(*given)

        monkeypatch.setattr(BranchAndBound, name, counted)
    panel = replace(settings().panels["tiny"].at(60), methods=("top-r", "mistakes"))
    table = trial._table(panel, seed_of(Job("tiny", 60, 0, 5)))
    again = list(trial._recovery(panel, table, Job("tiny", 60, 0, 5)))
    assert sorted(calls) == ["by_mistakes", "top", "top"]  # mistakes begin with the best support
    for row in again:
        plain = getattr(mechanisms, settings().methods[row["method"]].mechanism)
        problem = trial._problem(panel, table.X, table.y, settings().methods[row["method"]])
        chance = plain(panel.epsilon, sensitivity="paper").chance(problem, table.support)
        assert row["chance"] == chance == pytest.approx(rows[row["method"]]["chance"], rel=1e-5)


# The file of results ----------------------------------------------------------------------------


def test_a_line_a_trial_and_an_unfinished_one_is_cut_off(tiny: None, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "results.jsonl"
    jobs = jobs_of(settings().chosen("tiny"), trials=2, draws=2)
    going = run_jobs(jobs, Results(path))
    for count in (1, 2, 3):
        next(going)
        assert path.read_bytes().count(b"\n") == count  # on the disk before the next is asked for
    del going
    kept = path.read_bytes()
    for rest in (b"", b"{", kept.splitlines()[0][:-1], kept.splitlines()[0]):
        path.write_bytes(kept + rest)
        results = Results(path)
        assert path.read_bytes() == kept
        assert [job in results for job in jobs] == [True] * 3 + [False] * 3
    list(run_jobs(jobs, Results(path)))
    assert path.read_bytes().startswith(kept)
    assert done(path) == run(jobs, tmp_path / "undisturbed")
    whole = path.read_bytes()
    assert list(run_jobs(jobs, Results(path))) == []
    assert path.read_bytes() == whole


def test_a_method_that_is_added_is_computed_for_the_trials_that_are_there(
    tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there stays byte for byte; the rows are those of a run that had it from the start."""
    jobs = jobs_of(settings().chosen("tiny"), trials=2, draws=3)
    path = tmp_path / "results.jsonl"
    panel = settings().panels["tiny"]
    fewer = replace(panel, methods=("markov-chain", "made-up"))
    with monkeypatch.context() as patch:
        patch.setitem(settings().panels, "tiny", fewer)
        list(run_jobs(jobs, Results(path)))
    kept = path.read_bytes()
    changed = [job for job in jobs if job.panel == "tiny"]
    assert sorted(run_jobs(jobs, Results(path)), key=jobs.index) == changed
    assert path.read_bytes().startswith(kept)
    assert path.read_bytes().count(b"\n") == len(jobs) + len(changed)
    assert list(run_jobs(jobs, Results(path))) == []
    run(jobs, tmp_path / "at once")

    def rows(path: Path) -> list[str]:
        found = Results(path).rows(jobs)
        return sorted(json.dumps({**r, "seconds": 0}, sort_keys=True) for r in found)

    assert rows(path) == rows(tmp_path / "at once")


GOOD = '{"job": {"panel": "p", "value": 1, "trial": 0, "draws": 1}, "rows": []}\n'


DAMAGED = {
    "a table": "a,b\n1,2\n",
    "a list": "[]\n",
    "a number": "3\n",
    "a word": '"job"\n',
    "an empty line": "\n",
    "no job": "{}\n",
    "a number for a job": '{"job": 1}\n',
    "half a job": '{"job": {"panel": "p"}}\n',
    "more than a job": GOOD.replace('"draws": 1', '"draws": 1, "colour": 2'),
    "no end": GOOD.replace("}\n", "\n"),
    "no beginning": GOOD[5:],
    "half a line inside": GOOD + GOOD[:20] + "\n" + GOOD,
    "zeros": "\x00\x00\n",
    "a list for a value": GOOD.replace('"value": 1', '"value": [1]'),
    "neither rows nor a failure": GOOD.replace('"rows": []', '"lines": []'),
    "a number for rows": GOOD.replace('"rows": []', '"rows": 3'),
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_foreign_or_damaged_file_is_refused_and_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=r"results\.jsonl holds a line that is no result") as found:
        Results(path)
    assert "move the file away, or name another folder" in str(found.value)
    assert path.read_text() == text


def test_a_file_that_is_not_of_results_is_not_emptied(tmp_path: Path) -> None:
    """A text without an end of line is no unfinished result of ours."""
    path = tmp_path / "results.jsonl"
    for text in ("my notes", "one\rtwo\rthree\r"):
        path.write_text(text, newline="")
        with pytest.raises(InputError):
            Results(path)
        assert path.read_bytes() == text.encode()


@pytest.mark.slow
def test_a_failing_trial_is_a_result(
    tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    real = mechanisms.Mistakes.draw

    def broken(self: Any, problem: Any, *given: Any, **named: Any) -> Any:
        drawn.append(problem.n_rows)
        if problem.n_rows == 120:
            raise RuntimeError("broken <on> purpose")
        return real(self, problem, *given, **named)

    monkeypatch.setattr(mechanisms.Mistakes, "draw", broken)
    options: dict[str, Any] = {"trials": 2, "draws": 2, "workers": 1, "out": tmp_path}
    page = main("tiny", **options).read_text()
    entries = done(tmp_path / "results.jsonl")
    failed = [json.loads(job) for job, entry in entries.items() if "failed" in entry]
    assert [(job["panel"], job["value"], job["trial"]) for job in failed] == [
        ("tiny", 120, 0),
        ("tiny", 120, 1),
    ]
    assert len(entries) == 6
    assert len(drawn) == 6
    reasons = {e["failed"] for e in entries.values() if "failed" in e}
    assert reasons == {"RuntimeError: broken <on> purpose"}
    assert page.count("RuntimeError: broken &lt;on&gt; purpose") == 2
    assert "Trials that failed" in page
    whole = (tmp_path / "results.jsonl").read_bytes()
    monkeypatch.setattr(mechanisms.Mistakes, "draw", real)
    again = main("tiny", **options).read_text()
    assert (tmp_path / "results.jsonl").read_bytes() == whole
    assert again == page
    points = curves(Results(tmp_path / "results.jsonl").all_rows(), "tiny", "fraction")
    assert [p.value for p in points["top-r"]] == [60]


# Curves -----------------------------------------------------------------------------------------


def row(value: float, trial: int, **more: Any) -> dict[str, Any]:
    return {"panel": "p100", "value": value, "trial": trial, "method": "top-r", **more}


def test_means_and_standard_errors() -> None:
    numbers = [0.1, 0.4, 0.9, 0.2]
    rows = [row(10, i, fraction=0.5, f1=x, chance=x) for i, x in enumerate(numbers)]
    rows += [row(5, 0, fraction=0.25, f1=0.5, chance=None), row(5, 1, fraction=0.75, chance=0.1)]
    rows += [{**rows[0], "panel": "other"}]
    error = np.std(numbers, ddof=1) / 2
    low, high = curves(rows, "p100", "fraction")["top-r"]
    assert (low.value, low.mean, low.trials, low.estimate) == (5, 0.5, 2, None)
    assert low.error == pytest.approx(0.25)
    assert (high.value, high.trials, high.estimate) == (10, 4, 0.5)
    assert (high.mean, high.error) == (pytest.approx(0.4), pytest.approx(error))
    f1 = curves(rows, "p100", "f1")["top-r"]
    assert (f1[1].mean, f1[1].error) == (pytest.approx(0.4), pytest.approx(error))
    assert f1[0].trials == 1
    assert math.isnan(f1[0].error)
    assert f1[1].estimate is None
    assert curves(rows, "p100", "utility") == {}
    assert curves([], "p100", "f1") == {}


def test_rows_needed() -> None:
    points = [Point(v, m, 0.1, 3) for v, m in [(10, 0.1), (20, 0.5), (40, 1.0), (50, 0.2)]]
    assert needed(points, 0.5) == 20
    assert needed(points, 0.3) == pytest.approx(15)
    assert needed(points, 0.9) == pytest.approx(36)
    assert needed(points, 0.05) == 10
    assert needed(points[:2], 0.9) == math.inf
    assert needed([], 0.9) == math.inf
    assert needed_text(points) == "36"
    assert needed_text(points[:2]) == "> 20"
    assert needed_text([Point(1000, 0.0, 0, 1), Point(3000, 1.0, 0, 1)]) == "2,800"


@hypothesis_settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 10**5), st.floats(0, 1)), unique_by=lambda p: p[0]),
    st.floats(0.01, 0.99),
)
def test_rows_needed_lie_where_the_line_crosses(given: list[Any], share: float) -> None:
    points = [Point(v, m, 0.1, 3) for v, m in sorted(given)]
    n = needed(points, share)
    if math.isinf(n):
        assert all(p.mean < share for p in points)
        return
    assert points[0].value <= n <= points[-1].value
    if n > points[0].value:
        line = np.interp(n, [p.value for p in points], [p.mean for p in points])
        assert line == pytest.approx(share, abs=1e-6)
    assert all(p.mean < share for p in points if p.value < n - 1e-6)


@hypothesis_settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.001, 0.3))
def test_labels_are_spread_out(heights: list[float], apart: float) -> None:
    out = spread_out(heights, apart)
    assert len(out) == len(heights)
    placed = np.array(out)[np.argsort(heights, kind="stable")]
    assert (np.diff(placed) >= apart - 1e-9).all()  # in the same order, too
    if apart * (len(heights) - 1) <= 1:
        assert all(-1e-9 <= height <= 1 + 1e-9 for height in out)
    if np.diff(np.sort(heights)).min(initial=1.0) > apart:
        assert out == pytest.approx(heights)  # no label is moved without need
    if heights:
        assert max(map(abs, np.subtract(out, heights))) <= apart * len(heights)


def test_claims_can_be_read_off_results_of_every_kind() -> None:
    rows = [row(v, t, fraction=v / 4000, chance=None, f1=1.0) for v in (1000, 4000) for t in (0, 1)]
    rows += [{**r, "method": m} for r in rows[:4] for m in ("mistakes", "sample-aggregate")]
    assert any(line.startswith("p100: mistakes is above top-R") for line in claims(rows))
    rows += [{**row(100, 0, error=0.5, utility=0.1), "panel": "p100-prediction"}]
    assert any(line.startswith("p100: mistakes is above top-R") for line in claims(rows))
    tables = "p100-prediction: tables: 1 at 100; 0 at 1000, 2000, 3000, 4000, 5000, 6000, 8000"
    assert tables in list(claims(rows))
    wide = [
        {**row(v, t, fraction=0.5, chance=None), "panel": "p10000", "seconds": seconds}
        for v in (2000, 4000, 6000)
        for t, seconds in enumerate((1.0, 9.0, 2.0))
    ]
    wide += [{**one, "method": "mistakes"} for one in wide]
    told = list(claims([*rows, *wide]))
    means = "(tables: 3): top-r 0.5, mistakes 0.5"
    assert all(f"p10000, fraction at n = {v} {means}" in told for v in (2000, 4000, 6000))
    seconds = "p10000, seconds for all draws from a table, median: top-r 2.0, mistakes 2.0"
    assert seconds in told


def test_how_many_tables_points_have() -> None:
    rows = [{"panel": "a", "value": v, "trial": t} for v in (1, 2, 30) for t in range(v % 4)]
    assert tables_text([*rows, *rows], "a") == "2 at 2, 30; 1 at 1"
    assert tables_text(rows[:1], "a") == tables_text(rows[:1], "a", [1]) == "1 a point"
    assert tables_text(rows[:1], "a", [7, 1]) == "1 at 1; 0 at 7"
    assert tables_text(rows, "b") == tables_text(rows, "b", [1]) == ""


# Pictures and the report ------------------------------------------------------------------------


class Page(HTMLParser):
    """Collect the tags, the addresses and the words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        named = ("href", "xlink:href", "src", "srcset", "data", "action")
        self.addresses += [value or "" for key, value in attrs if key in named]
        urls = (re.findall(r"url\(([^)]*)\)", value or "") for _, value in attrs)
        self.addresses += [url.strip("\"'") for found in urls for url in found]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_a_made_up_figure_from_end_to_end(tiny: None, tmp_path: Path) -> None:
    report = main("tiny-others", trials=2, draws=3, workers=1, out=tmp_path)
    main("tiny", trials=2, draws=3, workers=1, out=tmp_path)
    entries = done(tmp_path / "results.jsonl")
    assert not any("failed" in entry for entry in entries.values())
    assert len(entries) == 4 + 2 + 4 + 2
    assert report == tmp_path / "report.html"
    names = [f"tiny-others-{m}" for m in ("error", "utility", "chance")]
    names += ["tiny-fraction", "tiny-f1"]
    written = {p.name for p in tmp_path.iterdir()} - {"results.jsonl", "report.html"}
    assert written == {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    for name in names:
        png = (tmp_path / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        assert png.rstrip().endswith(b"IEND\xaeB`\x82")
        root = ElementTree.parse(tmp_path / f"{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = {t.strip() for t in ElementTree.parse(tmp_path / "tiny-f1.svg").getroot().itertext()}
    panels = [settings().panels[name] for name in ("tiny", "tiny-hinge")]
    for panel in panels:
        labels = {settings().methods[m].label for m in panel.methods}
        labels = {line for label in labels for line in label.replace(", ", ",\n").split("\n")}
        assert labels - {"not drawn"} <= words
        assert {panel.title, AXES[panel.axis], METRICS["f1"]} <= words
    assert "not drawn" not in words


@pytest.mark.slow
def test_the_same_rows_give_the_same_picture(tiny: None, tmp_path: Path) -> None:
    figure = settings().figures["tiny"]
    jobs = jobs_of([figure], trials=2, draws=3)
    run(jobs, tmp_path / "results.jsonl")
    rows = Results(tmp_path / "results.jsonl").rows(jobs)
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    given = [rows, rows, [{**r, "f1": 0.5 * r["f1"]} for r in rows]]
    drawn = [draw_figure(figure, r, tmp_path / n) for n, r in zip("abc", given, strict=True)]
    assert [p.name for p in drawn[0]] == [p.name for p in drawn[1]]
    for first, second, third in zip(*drawn, strict=True):
        if first.suffix == ".svg":
            assert first.read_bytes() == second.read_bytes()
            assert (first.read_bytes() == third.read_bytes()) == ("f1" not in first.name)
    assert draw_figure(figure, [], tmp_path) == []


@pytest.mark.slow
def test_the_report_is_one_file_with_everything(tiny: None, tmp_path: Path) -> None:
    text = main("tiny", trials=2, draws=3, workers=1, out=tmp_path).read_text()
    page = Page(text)
    assert not {"script", "link", "iframe", "object", "embed", "base"} & set(page.tags)
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    assert page.addresses  # the pictures refer to parts of themselves
    assert "@import" not in text
    assert page.tags.count("svg") == 2
    words = " ".join(" ".join(page.words).split())
    figure = settings().figures["tiny"]
    assert f"{figure.title}: {METRICS['fraction']}" in words
    assert f"{figure.title}: {METRICS['f1']}. Tables a point: 2." in words
    for name in ("dpsubset", "numpy", "scipy", "numba", "scikit-learn", "matplotlib"):
        assert f"{name} {version(name)}" in words
    assert f"Python {sys.version.split()[0]}" in words
    assert "3 draws" in words
    for panel in (settings().panels[name] for name in figure.panels):
        cells = re.search(f"<tr><td>{panel.name}</td>(.*?)</tr>", text)
        assert cells is not None
        shown = re.findall("<td>(.*?)</td>", cells[1])
        parts = ("columns", "rows", "size", "snr", "rho", "epsilon", "loss", "ridge")
        parts += ("bound", "radius", "steps")
        given = ["varied" if p == panel.axis else str(getattr(panel, p)) for p in parts]
        assert shown == given
    assert "Rows needed for 90% recovery" in words
    for name in ("made-up", "hidden"):
        assert f"<th>{html.escape(settings().methods[name].label)}</th>" in text


def test_the_table_of_rows_for_90_percent(tiny: None, tmp_path: Path) -> None:
    rows = [
        row(v, t, fraction=0.0, chance=c) for v, c in [(1000, 0.4), (3000, 1.0)] for t in (0, 1)
    ]
    rows += [{**row(1000, 0, fraction=0.4, chance=None), "method": "made-up"}]
    rows += [{**row(500, 0, fraction=1.0, chance=1.0), "panel": "ablation-ridge"}]
    figures = [settings().figures["p100"], settings().figures["ablation-ridge"]]
    made_up = settings().methods["made-up"].label
    title = settings().panels["p100"].title
    assert needed_table(figures, rows) == [
        ["setting", "top-R (paper)", made_up],
        [title, "2,667", "> 1,000"],
    ]
    assert summary_table(figures, rows) == [
        ["setting", "paper", "ours"],
        [title, "2,667", ""],
    ]
    ours = [{**row(2000, 0, fraction=1.0, chance=None), "method": m} for m in ("absolute", "huber")]
    assert summary_table(figures, [*rows, *ours])[1] == [title, "2,667", "<= 2,000"]
    write_report(tmp_path / "r.html", figures, rows, {}, [], 5)
    text = (tmp_path / "r.html").read_text()
    assert f"<td>{title}</td><td>2,667</td><td>&gt; 1,000</td>" in text
    assert text.index("How many rows?") < text.index('id="p100"') < text.index('id="all-methods"')
    assert 'name="viewport"' in text
    assert f'<td><a href="#p100">{title}</a></td><td>2,667</td>' in text
    assert "<td>p100</td><td>2 at 1000, 3000; 0 at 500" in text
    assert "<td>p100-snr2</td><td>none</td>" in text


def test_without_matplotlib_no_trial_is_run(
    tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Job] = []
    runs = importlib.import_module(f"{FOLDER}.runs")
    monkeypatch.setattr(runs, "run_trial", lambda job, *more: ran.append(job) or [])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"dpsubset\[figures\]"):
        main("tiny", trials=1, draws=1, workers=1, out=tmp_path / "out")
    assert ran == []
    assert not (tmp_path / "out").exists()
