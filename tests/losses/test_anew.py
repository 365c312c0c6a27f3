"""A primal value is that of the coefficients, however many steps led there (T19.7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsubset.losses import as_loss, fitting
from dpsubset.losses import base as base_module


def test_a_primal_value_does_not_rest_on_predictions_that_were_carried_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The steps' own predictions are moved off on purpose: values must not notice."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (40, 3))
    y = np.clip(X @ [0.5, -0.3, 0.0] + 0.1 * rng.normal(size=40), -1, 1)
    descend = getattr(fitting._descend, "py_func", fitting._descend)

    def drifting(*given: Any) -> Any:
        found = descend(*given)
        given[8][:] += 0.05  # t, the predictions
        return found

    monkeypatch.setattr(fitting, "_descend", drifting)
    for name in ("_fit", "fit_rows"):
        function = getattr(fitting, name)
        monkeypatch.setattr(fitting, name, getattr(function, "py_func", function))
    monkeypatch.setattr(base_module, "fit_rows", fitting.fit_rows)
    for name in ("absolute", "quantile:0.8", "huber:0.2"):
        loss = as_loss(name)
        fit = loss.fit(X, y, 0.1, 2.0, gap=1e-6)
        beta = fit.coefficients
        exact = float(np.sum(loss.value(y, X @ beta))) + 0.1 * float(beta @ beta)
        assert fit.primal == pytest.approx(exact, rel=1e-13)
        assert fit.dual <= fit.primal + 1e-12
