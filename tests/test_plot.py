"""Pictures hold the numbers that they are made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpsubset import Guarantee, Ledger, plot
from dpsubset.errors import InputError, RefusedError
from dpsubset.model_file import LinearModel
from dpsubset.planning import Answer, Setting


def spend(ledger: Ledger, epsilon: float, *, refused: bool = False) -> None:
    promise = Guarantee("exponential mechanism", epsilon, "replace-one", 4.0)
    with ledger.charge(promise, {}) as write:
        if refused:
            raise RefusedError("no")
        write({"positions": [1]})


def test_a_ledger_shows_what_is_left_after_each_entry(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db", epsilon=3.0, table="$tudy <7>")
    spend(ledger, 0.5)
    with pytest.raises(RefusedError):
        spend(ledger, 1.0, refused=True)
    picture = plot.ledger(ledger)
    (place,) = picture.axes
    np.testing.assert_allclose(place.lines[0].get_ydata(), [3.0, 2.5, 1.5])
    faces = [line.get_markerfacecolor() for line in place.lines[1:3]]
    assert faces[0] != "white"
    assert faces[1] == "white"  # charged, and nothing released
    picture.savefig(tmp_path / "ledger.png")
    assert (tmp_path / "ledger.png").stat().st_size > 1000


def test_a_model_shows_its_coefficients_by_name(tmp_path: Path) -> None:
    model = LinearModel("cost $", ("a$b$", "dose"), (2.0, -1.0), 0.5, guarantee={"epsilon": 2.0})
    picture = plot.model(model)
    (place,) = picture.axes
    assert [bar.get_width() for bar in place.patches] == [-1.0, 2.0]
    assert "epsilon 2" in place.get_title()
    picture.savefig(tmp_path / "model.svg")


def test_a_model_of_an_intercept_alone_is_drawn(tmp_path: Path) -> None:
    plot.model(LinearModel("cost", (), (), 0.5)).savefig(tmp_path / "model.png")


def test_a_plan_shows_what_was_tried() -> None:
    answer = Answer(256, 0.9, {256: 0.95, 128: 0.5})
    (place,) = plot.plan(answer, Setting("huber:0.2", 1.0, 10.0)).axes
    assert list(place.lines[0].get_xdata()) == [128, 256]


def test_pictures_leave_the_screen_alone() -> None:
    import matplotlib

    matplotlib.use("svg")
    plot.model(LinearModel("cost", ("a",), (1.0,), 0.0))
    assert matplotlib.get_backend().lower() == "svg"
    matplotlib.use("Agg")


def test_what_is_no_ledger_or_model_is_refused() -> None:
    with pytest.raises(InputError, match="no ledger"):
        plot.ledger(None)
    with pytest.raises(InputError, match="read_model"):
        plot.model({"columns": []})  # type: ignore[arg-type]
