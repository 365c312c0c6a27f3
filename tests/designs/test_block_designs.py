"""Rows of blocks are scaled to the bound, in every kind of table (T32)."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dpsubset.designs import Design, Features, as_design, bounded_blocks
from dpsubset.designs.blocks import BlockDesign

GROUPS = ((3,), (0, 5, 2), (1,), (6, 4))
BOUND = 0.8


def table(n: int = 5000) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 7)) * (rng.random((n, 7)) < 0.6)
    X[:, [6, 4]] *= 0.3  # never too long
    return X


def by_hand(X: np.ndarray) -> np.ndarray:
    out = np.clip(X, -BOUND, BOUND)
    for group in GROUPS[1::2]:
        norms = np.linalg.norm(out[:, group], axis=1)
        out[:, group] *= np.minimum(1.0, BOUND / np.maximum(norms, 1e-300))[:, None]
    return out


def wrong(made: Design, X: np.ndarray) -> float:
    """Return how far the answers of a design are from those of a plain array."""
    U = np.random.default_rng(1).normal(size=(len(X), 3))
    apart = [
        made.take([5, 3, 4]) - X[:, [5, 3, 4]],
        (made.correlate(U) - X.T @ U) / len(X),
        (made.correlate(U[:, 0]) - X.T @ U[:, 0]) / len(X),
        (made.square_norms() - (X**2).sum(axis=0)) / len(X),
        (made.full_gram() - X.T @ X) / len(X),
        (made.gram([0, 6]) - X.T @ X[:, [0, 6]]) / len(X),
    ]
    return float(max(np.abs(a).max() for a in apart))


KINDS = {
    "dense": lambda X: X,
    "columns first": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "sparse": sp.csr_array,
}


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_the_scaled_table(kind: str) -> None:
    X = table()
    given = KINDS[kind](X)
    X = np.asarray(given.todense() if kind == "sparse" else given, dtype=np.float64)
    features = Features.of(GROUPS, 7)
    made = bounded_blocks(as_design(given, bound=BOUND), features)
    assert wrong(made, by_hand(X)) < 1e-12
    norms = [np.linalg.norm(made.take(list(group)), axis=1).max() for group in GROUPS]
    assert max(norms) <= BOUND * (1 + 1e-14)
    # Twins: entries clipped one by one, and no scaling at all.
    assert wrong(as_design(given, bound=BOUND), by_hand(X)) > 1e-3


def test_a_table_within_its_bounds_is_left_alone_and_asked_once() -> None:
    features = Features.of(GROUPS, 7)
    X = by_hand(table())
    inner = as_design(X, bound=BOUND)
    made = bounded_blocks(inner, features)
    assert np.array_equal(made.take(range(7)), X)  # scaled rows are not scaled again
    assert bounded_blocks(made, features) is made
    assert bounded_blocks(inner, Features.of(None, 7)) is inner
    other = Features.of([[0, 1], [2, 3], [4, 5, 6]], 7)
    assert bounded_blocks(made, other) is not made


def test_the_callers_table_is_not_written_to() -> None:
    X = table(50)
    before = X.copy()
    made = BlockDesign(as_design(X, bound=2.0), Features.of([[0, 1, 2], [3, 4, 5, 6]], 7))
    made.take(np.arange(7))
    made.full_gram()
    assert np.array_equal(X, before)


def test_no_rows_and_one_wide_block() -> None:
    made = BlockDesign(as_design(np.empty((0, 7)), bound=1.0), Features.of([range(7)], 7))
    assert made.full_gram().tolist() == np.zeros((7, 7)).tolist()


def test_a_block_is_measured_in_parts_where_it_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(3).uniform(-1, 1, (40, 30))
    features = Features.of([range(10), range(10, 29), [29]], 30)
    whole = BlockDesign(as_design(X, bound=BOUND), features).take(range(30))
    monkeypatch.setattr("dpsubset.designs.blocks._AT_ONCE", 3 * 40)
    parts = BlockDesign(as_design(X, bound=BOUND), features)
    assert np.allclose(parts.take(range(30)), whole, rtol=0, atol=1e-15)
    assert np.allclose(parts.full_gram(), whole.T @ whole, rtol=0, atol=1e-12)
