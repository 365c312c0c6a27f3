"""The map of hardness: its sample, its tables, its counts, its limits, and what it writes."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import hardness
from benchmarks.hardness_cells import FACTORS, Cell, all_cells, feasible, pairs, synthetic_cells
from benchmarks.hardness_page import BEGIN, END, is_quick, labels_of, read_lines, tables, write_page
from benchmarks.hardness_pictures import draw, heat
from benchmarks.hardness_real import TABLES
from benchmarks.hardness_tables import KINDS, BoundedTable, synthetic
from benchmarks.hardness_worker import MORE, Passes, measure, selection_of, table_of
from dpsubset.designs import as_design
from dpsubset.errors import InputError
from dpsubset.question import Question, default_loss, default_radius

SMALL = Cell("paper", 20, 200, 3, 1.0, "default", "replace-one", "permute-and-flip")


def share_outside(table: BoundedTable) -> float:
    inside = np.clip(table.X, table.lower, table.upper)
    return float(np.mean(inside != table.X))


@pytest.fixture(scope="module")
def sample() -> list[Cell]:
    return synthetic_cells()


def test_every_feasible_pair_of_levels_is_met_early(sample: list[Cell]) -> None:
    met = {pair for cell in sample[:190] for pair in pairs(asdict(cell))}
    wanted = {
        (a, x, b, y)
        for a, b in combinations(FACTORS, 2)
        for x in FACTORS[a]
        for y in FACTORS[b]
        if feasible({a: x, b: y})
    }
    assert met >= wanted


def test_the_sample_is_fixed_without_repeats_and_denser_where_it_is_hard(
    sample: list[Cell],
) -> None:
    assert synthetic_cells(60) == sample[:60]
    assert len({cell.key for cell in sample}) == len(sample) == 1000
    assert all(feasible(asdict(cell)) for cell in sample)
    assert all(cell.n < cell.p for cell in sample if cell.table == "rank-deficient")
    counts = {value: sum(c.size == value for c in sample) for value in FACTORS["size"]}
    assert counts[3] < counts[5] < counts[8]
    logistic, hinge = (sum(c.loss == name for c in sample) for name in ("logistic", "hinge"))
    assert 1.7 < logistic / hinge < 2.3


@pytest.mark.slow
def test_a_part_of_the_map_holds_both_kinds_of_tables() -> None:
    cells = all_cells(count=250)
    assert cells == all_cells()[:250]
    real = [cell for cell in cells if cell.real]
    assert 60 < len(real) < 110
    assert len({cell.table for cell in real}) >= len(TABLES) - 1
    assert all(cell.size < TABLES[cell.table].width for cell in all_cells("real"))
    assert not any(cell.real for cell in all_cells("synthetic", 50))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", [False, True])
def test_synthetic_tables_lie_within_their_bounds(kind: str, labels: bool) -> None:
    n, p = (100, 150) if kind == "rank-deficient" else (400, 23)
    table = synthetic(kind, n, p, 3, labels, seed=1)
    again = synthetic(kind, n, p, 3, labels, seed=1)
    np.testing.assert_array_equal(table.X, again.X)
    np.testing.assert_array_equal(table.y, again.y)
    assert table.X.shape == (n, p)
    assert share_outside(table) < 1e-3
    if labels:
        assert table.target is None
        assert set(table.y) == {-1.0, 1.0}
    else:
        assert table.target is not None
        assert np.mean(np.abs(table.y) > table.target[1]) < 0.01


def test_the_kinds_are_what_their_names_say() -> None:
    X = {kind: synthetic(kind, 2000, 20, 3, False, 1).X for kind in KINDS}
    np.testing.assert_array_equal(X["duplicated"][:, :10], X["duplicated"][:, 10:])
    near = np.corrcoef(X["nearly duplicated"].T)
    assert 0.98 < near[0, 10] < 1.0
    assert abs(np.corrcoef(X["common factor .9"].T)[0, 1] - 0.9) < 0.03
    assert abs(np.corrcoef(X["autoregressive .95"].T)[4, 5] - 0.95) < 0.02
    np.testing.assert_array_equal(X["categories"].reshape(2000, 4, 5).sum(axis=2), 1.0)
    assert 0 < X["rare ones"].mean() < 0.1
    deficient = synthetic("rank-deficient", 40, 60, 3, False, 1).X
    assert np.linalg.matrix_rank(deficient) == 10


@pytest.mark.parametrize("name", TABLES)
def test_real_tables_are_read_with_their_bounds(name: str) -> None:
    spec = TABLES[name]
    if spec.package != "scikit-learn":
        pytest.importorskip(spec.package)
    table = spec.read()
    assert table.X.shape[1] == spec.width
    assert np.isfinite(table.X).all()
    assert share_outside(table) < 0.01
    assert (table.lower < table.upper).all()
    assert (table.target is None) == spec.labels
    for column in range(len(spec.columns), spec.width):
        assert set(table.X[:, column]) <= {0.0, 1.0}
    selection = selection_of(replace(SMALL, loss="logistic" if spec.labels else "default"), table)
    assert selection.schema.n_columns == spec.width


def test_a_question_has_the_defaults_of_a_user() -> None:
    selection = selection_of(SMALL, table_of(SMALL))
    settled = selection.settled(100)
    assert settled.loss == default_loss(labels=False)
    assert settled.radius == default_radius(settled.loss, labels=False)
    for name in ("ridge", "clip", "intercept", "sensitivity"):
        assert getattr(selection, name) == getattr(Question(), name)
    assert selection_of(replace(SMALL, loss="huber"), table_of(SMALL)).loss == "huber"


def test_passes_are_counted_by_columns_of_products() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (30, 9))
    design = as_design(X, bound=1.0).with_ones()
    passes = Passes(design)
    counts = [passes.count]
    for call in (
        lambda: design.correlate(np.ones(30)),
        lambda: design.correlate(np.ones((30, 3))),
        lambda: design.gram([0, 4]),
        lambda: design.take([1, 2, 3]),
        lambda: design.full_gram(),
        lambda: design.square_norms(),
    ):
        call()
        counts.append(passes.count)
    np.testing.assert_allclose(np.diff(counts), [1, 3, 2, 0.3, 10, 0])


def test_a_cell_is_measured_in_parts() -> None:
    told: list[dict[str, Any]] = []
    begun: list[int] = []
    measure(replace(SMALL, mechanism="exponential"), told.append, lambda: begun.append(len(told)))
    about, first, more = told
    assert begun == [1]
    assert about["rows"] == 200
    assert about["columns"] == 20
    assert about["defaults"]["ridge"] == Question().ridge
    assert about["pass_seconds"] > 0
    assert first["first"] > 0
    assert first["first_passes"] > 1
    assert more["more"] >= 0
    assert MORE == 20


@pytest.mark.slow
def test_a_cell_beyond_its_limit_is_refused_the_run_goes_on_and_more_time_asks_again(
    tmp_path: Path,
) -> None:
    output = tmp_path / "new" / "lines.jsonl"
    cells = [replace(SMALL, p=50, n=1000, loss=loss) for loss in ("hinge", "absolute")]
    hardness.main(cells, output, label="one", limit=1e-3, warm=False)
    lines = read_lines(output)
    assert [line["refused"] for line in lines] == ["limit", "limit"]
    assert all("first" not in line and line["seconds"] == 1e-3 for line in lines)
    assert hardness.missing(cells, output, "one", 1e-3) == []
    assert hardness.missing(cells, output, "two", 1e-3) == cells
    assert hardness.missing(cells, output, "one", 300.0) == cells

    hardness.main(cells, output, label="one", limit=300.0, warm=False)
    assert len(output.read_text().splitlines()) == 4
    lines = read_lines(output)
    assert all("refused" not in line and line["first"] > 0 for line in lines)
    assert hardness.missing(cells, output, "one", 1e9) == []
    hardness.main(cells, output, label="one", limit=300.0, warm=False)  # nothing is left
    assert len(output.read_text().splitlines()) == 4


@pytest.mark.slow
def test_cells_are_measured_by_as_many_processes_as_asked_for() -> None:
    cells = [replace(SMALL, size=size) for size in (3, 4, 5)]
    found = dict(hardness.run(cells, 300.0, jobs=2, warm=False))
    assert set(found) == set(cells)
    assert all("more" in one for one in found.values())


def test_tables_of_missing_packages_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacking() -> Any:
        raise ImportError

    monkeypatch.setitem(TABLES, "fair", replace(TABLES["fair"], load=lacking))
    cells = [replace(SMALL, table=name, real=True) for name in ("fair", "wine", "fair")]
    kept = hardness.installed([SMALL, *cells], hardness.Console(stderr=True))
    assert [cell.table for cell in kept] == ["paper", "wine"]
    told = capsys.readouterr().err
    assert told.count("statsmodels is not installed") == 1


def line(label: str, cell: Cell = SMALL, **found: Any) -> dict[str, Any]:
    about = {"rows": 200, "columns": 20, "asked_loss": "absolute", "pass_seconds": 0.001}
    return {"label": label, "key": cell.key, "limit": 20.0, **asdict(cell), **about, **found}


LINES = [
    line("before", refused="limit", seconds=20.0),
    line("before", replace(SMALL, epsilon=3.0), first=25.0, first_passes=9.0, refused="limit"),
    line("after", first=0.5, first_passes=12.0, more=0.1, more_passes=1.0),
    line("after", replace(SMALL, table="wine", real=True), first=0.1, first_passes=3.0, more=0.1),
]


def test_the_page_is_written_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"above\n{BEGIN}\nold\n{END}\nbelow\n")
    write_page(LINES, page)
    text = page.read_text()
    write_page(LINES, page)
    assert page.read_text() == text
    assert text.startswith(f"above\n{BEGIN}")
    assert text.endswith(f"{END}\nbelow\n")
    assert "old" not in text
    assert "## Before" in text
    assert "ended at its limit of 20 s" in text
    page.write_text("no markers")
    with pytest.raises(InputError, match="markers"):
        write_page(LINES, page)


def test_shares_and_bins() -> None:
    assert labels_of(LINES) == ["before", "after"]
    assert [is_quick(one) for one in LINES] == [False, False, True, True]
    assert "0% released within 2 s or 100 passes and 50% within 30 s; 50% had" in tables(LINES[:2])
    assert "No cell took longer than 30 s." in tables(LINES[2:])
    assert "| paper | 1 | 0% | 100% | 100% | 0% | refused | 0.5 s | refused | 0.5 s |" in tables(
        LINES
    )
    assert "There are none." in tables([LINES[1], LINES[2]])
    binned = heat(LINES[:2], ["paper"], [(3, 1.0), (3, 3.0), (8, 1.0)], ["size", "epsilon"])
    assert math.isinf(binned[0, 0])
    assert binned[0, 1] == 25.0
    assert math.isnan(binned[0, 2])


@pytest.mark.slow
def test_the_picture_is_drawn_from_any_lines(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, lines in {"both": LINES, "one": LINES[:1], "real": LINES[3:]}.items():
        path = tmp_path / "figures" / f"{name}.png"
        draw(lines, path)
        assert path.stat().st_size > 1000


@pytest.mark.slow
def test_the_command_passes_its_options_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(hardness, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(hardness, "FIGURE", tmp_path / "map.png")
    monkeypatch.setattr(hardness, "main", lambda cells, output, **o: calls.append((len(cells), o)))
    output = tmp_path / "lines.jsonl"
    hardness.command(["--cells", "12", "--only", "real", "--limit", "7", "--output", str(output)])
    hardness.command(["--quick", "--only", "synthetic", "--output", str(output)])
    assert calls == [
        (12, {"label": "after", "limit": 7.0, "jobs": 1}),
        (4, {"label": "after", "limit": hardness.LIMIT, "jobs": 1}),
    ]
    output.write_text("".join(json.dumps(one) + "\n" for one in LINES))
    hardness.command(["--draw-only", "--output", str(output)])
    assert len(calls) == 2
    assert "## After" in (tmp_path / "page.md").read_text()
    assert (tmp_path / "map.png").exists()
    with pytest.raises(SystemExit):
        hardness.command(["--jobs", "0"])
    assert "larger than zero" in capsys.readouterr().err
