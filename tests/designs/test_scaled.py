"""A design whose rows are scaled answers as the scaled table would (T40)."""

import numpy as np
import pytest
from scipy import sparse

from dpsubset.designs import as_design, scaled
from dpsubset.designs.scaled import ScaledDesign


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("at_once", [1 << 22, 160, 60])
@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
def test_it_is_the_scaled_table(monkeypatch, kind: str, at_once: int, held: bool) -> None:
    monkeypatch.setattr(scaled, "_AT_ONCE", at_once)
    monkeypatch.setattr(scaled, "_FEWEST", 4)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.6)
    given = {"dense": X, "float32": X.astype(np.float32), "sparse": sparse.csc_array(X)}[kind]
    X = np.clip(X.astype(np.float32).astype(float) if kind == "float32" else X, -1, 1)
    scale = rng.random(40) * (rng.random(40) < 0.7)
    inner = as_design(given, bound=1.0, partner=np.zeros(40))
    design = ScaledDesign(inner, scale, inner.take(np.arange(6)).T if held else None)
    table = X * scale[:, None]
    assert (design.n_rows, design.n_columns, design.bound) == (40, 6, scale.max())
    columns = np.array([4, 0])
    np.testing.assert_allclose(design.take(columns), table[:, columns], atol=1e-15)
    for vectors in (rng.normal(size=40), rng.normal(size=(40, 3))):
        np.testing.assert_allclose(design.correlate(vectors), table.T @ vectors, atol=1e-13)
    np.testing.assert_allclose(design.square_norms(), (table**2).sum(axis=0), rtol=1e-13)
    asked: list[int] = []
    gram = design.full_gram(lambda: asked.append(1))
    np.testing.assert_allclose(gram, table.T @ table, atol=1e-13)
    assert asked
