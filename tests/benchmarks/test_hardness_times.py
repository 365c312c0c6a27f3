"""Expected seconds are those of the map that they are fitted to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.hardness_times import fitted


def lines(count: int = 200) -> list[dict[str, object]]:
    """Draw cells whose seconds follow a law, some of them without a release."""
    rng = np.random.default_rng(0)
    found = []
    for k in range(count):
        rows, columns = int(rng.integers(200, 50_000)), int(rng.integers(20, 5000))
        size, epsilon = int(rng.choice([3, 5, 8])), float(rng.choice([0.1, 1.0, 10.0]))
        log = -9 + 0.6 * math.log(rows) + 0.4 * math.log(columns) + 0.1 * size
        log += 0.3 * math.log(epsilon) + rng.normal(0, 0.5)
        line = {"rows": rows, "columns": columns, "size": size, "epsilon": epsilon}
        line |= {"asked_loss": ("squared", "logistic", "absolute")[k % 3], "limit": 1e9}
        found.append(line | {"first": math.exp(log)})
    return found


def test_the_law_is_found_for_every_kind_of_loss() -> None:
    found = fitted(lines(900))
    assert set(found) == {"squared", "bent", "straight"}
    for numbers in found.values():
        assert numbers.log_rows == pytest.approx(0.6, abs=0.1)
        assert numbers.log_columns == pytest.approx(0.4, abs=0.1)
        assert numbers.log_epsilon == pytest.approx(0.3, abs=0.1)
        assert numbers.long == pytest.approx(1.64 * 0.5, abs=0.25)


def test_a_cell_without_a_release_counts_as_twice_its_limit() -> None:
    given = lines(300)
    before = fitted(given)["bent"]
    for line in given:
        line["limit"] = 30.0
        if line["asked_loss"] == "logistic" and line["size"] == 8:
            del line["first"]
    assert fitted(given)["bent"].size > before.size + 0.1
