"""What breaks a guarantee from outside and can be known is warned of, before it is spent."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from dpsubset import SubsetClassifier, SubsetRegressor, SubsetSelector
from dpsubset.errors import PrivacyWarning
from dpsubset.estimators.misuse import Lineage

pytestmark = pytest.mark.filterwarnings("ignore::dpsubset.errors.PrivacyWarning")


def table(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(0, 10, (n, 4))
    return X, X[:, 1] - X[:, 3]


def regressor(**changes: Any) -> SubsetRegressor:
    options: dict[str, Any] = {"n_features_to_select": 2, "epsilon": 2.0, "bounds_X": (0, 10)}
    return SubsetRegressor(**options | {"bounds_y": (-10, 10)} | changes)


def told(work: Any) -> list[str]:
    """Return the texts of our warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(w.message) for w in caught if issubclass(w.category, PrivacyWarning)]


def test_one_fit_warns_of_nothing() -> None:
    assert told(lambda: regressor().fit(*table())) == []
    assert told(lambda: clone(regressor()).fit(*table())) == []


def test_a_second_fit_is_told_what_both_spend() -> None:
    X, y = table()
    model = regressor().fit(X, y)
    (text,) = told(lambda: model.fit(X, y))
    assert "fit 2" in text
    assert "spend 4 together" in text
    assert "ledger" in text
    labels = SubsetClassifier(n_features_to_select=1, bounds_X=(0, 10), classes=(False, True))
    chosen = SubsetSelector(n_features_to_select=1, bounds_X=(0, 10), bounds_y=(-10, 10))
    for estimator, target in ((labels, y > 0), (chosen, y)):
        estimator.fit(X, target)
        assert len(told(lambda e=estimator, t=target: e.fit(X, t))) == 1


def test_a_grid_search_is_told() -> None:
    """Three candidates times three folds and a refit at epsilon 2 spend 20."""
    search = GridSearchCV(regressor(), {"n_features_to_select": [1, 2, 3]}, cv=3)
    texts = told(lambda: search.fit(*table()))
    assert all(f"fit {k} " in text for k, text in zip((2, 4, 8), texts, strict=True))
    assert search.best_estimator_.guarantee_.epsilon == 2.0


@pytest.mark.parametrize("way", ["cross validation", "bagging", "a grid search of pipelines"])
def test_other_meta_estimators_are_told(way: str) -> None:
    X, y = table()
    inside = make_pipeline(FunctionTransformer(), regressor())
    ways: dict[str, Any] = {
        "cross validation": lambda: cross_val_score(regressor(), X, y, cv=3),
        "bagging": lambda: BaggingRegressor(regressor(), n_estimators=3, random_state=0).fit(X, y),
        "a grid search of pipelines": lambda: GridSearchCV(
            inside, {"subsetregressor__n_features_to_select": [1, 2]}, cv=2
        ).fit(X, y),
    }
    assert any("fit 2 " in text for text in told(ways[way]))


def test_copies_in_other_processes_know_their_number() -> None:
    """A worker sees one fit only, of a copy that was made and numbered before."""
    original = regressor()
    copies = [pickle.loads(pickle.dumps(clone(original))) for _ in range(3)]
    assert [len(told(lambda c=c: c.fit(*table()))) for c in copies] == [0, 1, 1]


def test_the_texts_depend_on_no_data() -> None:
    X, y = table()
    other = 10 - X, -y
    texts = []
    for data in ((X, y), other):
        model = regressor().fit(*data)
        texts.append(told(lambda m=model, d=data: m.fit(*d)))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("position", ["last", "in the middle"])
@pytest.mark.parametrize(
    ("step", "warned"),
    [
        (StandardScaler(), True),
        (SimpleImputer(), True),
        (Normalizer(), False),
        (FunctionTransformer(), False),
        ("passthrough", False),
    ],
    ids=str,
)
def test_a_step_that_learns_from_the_rows_is_named(step: Any, warned: bool, position: str) -> None:
    bounds = {"bounds_X": (-3, 3), "bounds_y": (-10, 10)}
    last: Any = regressor(**bounds)
    if position == "in the middle":
        selector = SubsetSelector(n_features_to_select=2, **bounds)
        last = Pipeline([("choose", selector), ("after", StandardScaler())])
    steps = [("before", step), *(last.steps if isinstance(last, Pipeline) else [("model", last)])]
    texts = told(lambda: Pipeline(steps).fit(*table()))
    assert bool(texts) == warned
    if warned:
        assert f"'before' ({type(step).__name__})" in texts[0]
        assert "after" not in texts[0]


def test_a_fit_beside_a_pipeline_is_not_blamed() -> None:
    X, y = table()

    class Own(FunctionTransformer):
        def fit(self, X: Any, y: Any = None) -> Any:
            regressor().fit(*table())  # in a pipeline, but no step of it
            return super().fit(X, y)

    pipeline = Pipeline([("scale", StandardScaler()), ("own", Own()), ("end", "passthrough")])
    assert told(lambda: pipeline.fit(X, y)) == []


@pytest.mark.slow
def test_a_parent_is_told_though_its_workers_fitted() -> None:
    """With processes the parent makes the last fit only, of the last of many copies."""
    code = textwrap.dedent(
        """
        import warnings, numpy as np
        from sklearn.model_selection import GridSearchCV
        from dpsubset import SubsetRegressor
        X = np.random.default_rng(0).uniform(0, 10, (60, 4))
        model = SubsetRegressor(n_features_to_select=1, bounds_X=(0, 10), bounds_y=(-10, 10))
        GridSearchCV(model, {"ridge": [1.0, 2.0]}, cv=2, n_jobs=2).fit(X, X[:, 0])
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "PrivacyWarning: this is fit 5 of one estimator" in done.stderr


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lineage, "copy", lambda self: Lineage())


@pytest.mark.usefixtures("forgetful")
def test_twin_copies_without_lineage_say_nothing() -> None:
    assert told(lambda: cross_val_score(regressor(), *table(), cv=3)) == []
