"""Exact audits of what users call: estimators and coefficient methods, from the raw table on.

A selection has an enumerated distribution, objective perturbation a known density, noisy statistics
a Laplace distribution: what both tables of a pair release is compared outcome by outcome, refusals
included. The pairs are those of `lone`: one row alone holds a label or a value.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.audit.densities import Law, make_grid, shortened
from dpsubset.audit.exact import REFUSAL, Laws
from dpsubset.audit.lone import CLASSES, RawTable, lone_tables
from dpsubset.audit.tables import check_neighbour, row_counts
from dpsubset.checks import whole
from dpsubset.coefficients import CoefficientMechanism, NoisyStatistics, ObjectivePerturbation
from dpsubset.errors import InputError
from dpsubset.losses import as_loss
from dpsubset.mechanisms import Mechanism
from dpsubset.mechanisms.offset import moved
from dpsubset.model import Model
from dpsubset.privacy import NEIGHBOURS
from dpsubset.problem import Problem
from dpsubset.selection import Selection

__all__ = ["CONTAINERS", "DOORS", "Door", "DoorFinding", "Shown", "doors"]

_NUMERICAL = 1e-9
_RADIUS = 1.5
_MANY = 16  # rows whose labels one label could exchange: enough to show in coefficients


@dataclass(frozen=True, eq=False)
class Shown:
    """The exact distribution of a release: chances of supports, and coefficients on each.

    Coefficients have log densities on a common grid, or statistics that Laplace noise is added to,
    in units of its scale. `rows` counts the rows as the mechanism sees them.
    """

    chances: dict[tuple[int, ...], float]
    densities: dict[tuple[int, ...], Floats] = field(default_factory=dict)
    statistics: dict[tuple[int, ...], Floats] = field(default_factory=dict)
    rows: Counter[bytes] = field(default_factory=Counter)

    def moved(self, other: Shown) -> int:
        """Return how many rows differ, as the mechanism sees them."""
        return max((self.rows - other.rows).total(), (other.rows - self.rows).total())

    def apart(self, other: Shown) -> float:
        """Return the largest log ratio of an outcome's chance or density, either way."""
        worst = 0.0
        for support in self.chances.keys() | other.chances.keys():
            p, q = (law.chances.get(support, -math.inf) for law in (self, other))
            if -math.inf in (p, q):
                return math.inf
            zero = np.zeros(1)
            shift = self.densities.get(support, zero) - other.densities.get(support, zero)
            moved = self.statistics.get(support, zero) - other.statistics.get(support, zero)
            ratio = float(np.abs(p - q + shift).max()) + float(np.abs(moved).sum())
            worst = max(worst, ratio)
        return worst


@dataclass(frozen=True)
class Door:
    """Something that users call: how to make it, and its distribution.

    `law` takes a table, a container, a loss, epsilon and a relation. `found`: the classes are not
    named, but read off the labels.
    """

    losses: tuple[str, ...]
    law: Callable[[RawTable, str, str, float, str], Shown]
    containers: tuple[str, ...] = ("array",)
    found: bool = False
    others: int = 3  # rows besides the one that changes


@dataclass(frozen=True)
class DoorFinding:
    """The audit of one door with one loss under one relation, over all containers of tables.

    Parameters
    ----------
    door : str
        The estimator or method that was audited.
    loss : str
        Its loss.
    neighbours : {"replace-one", "add-remove"}
        Which tables count as neighbours.
    pairs : int
        How many pairs of tables were compared.
    epsilon : float
        The epsilon that is claimed.
    largest : float
        The largest log ratio that was found.
    worst : str
        The container and the pair where it was found.
    refused : int
        How many tables were refused, in whatever container.
    moved : int
        How many rows of the problem one row of the table changed, at most.

    Examples
    --------
    >>> DoorFinding("csv", "huber", "replace-one", 9, 1.0, 0.5, "pair 2", refused=0, moved=1).passed
    True
    """

    door: str
    loss: str
    neighbours: str
    pairs: int
    epsilon: float  # claimed
    largest: float  # log ratio found
    worst: str  # container and pair of the largest ratio
    refused: int  # tables that were refused, in whatever container
    moved: int  # rows that one row changed, at most

    @property
    def passed(self) -> bool:
        """Whether pairs are told apart as guaranteed at most, and one row changes one row only."""
        kept = self.largest <= self.epsilon * (1.0 + _NUMERICAL) + _NUMERICAL
        return kept and not self.refused and self.moved <= 1


def doors(
    names: Sequence[str] | None = None,
    relations: Sequence[str] = tuple(NEIGHBOURS),
    *,
    losses: Sequence[str] | None = None,
    pairs: int = 200,
    epsilon: float = 1.0,
    seed: int = 0,
) -> Iterator[DoorFinding]:
    """Audit estimators and coefficient methods by name, each on at least so many pairs.

    Parameters
    ----------
    names : sequence of str, optional
        Names of estimators and methods; all by default.
    relations : sequence of str
        "replace-one", "add-remove" or both.
    losses : sequence of str, optional
        Names of losses; all that a door takes by default.
    pairs : int
        How many pairs of tables are compared, at least.
    epsilon : float
        The epsilon that is claimed.
    seed : int
        Where the synthetic tables begin.

    Yields
    ------
    DoorFinding
        The audit of one door, loss and relation, as soon as it is done.

    Examples
    --------
    >>> found = next(doors(["SubsetClassifier"], ["replace-one"], pairs=10))
    >>> found.passed, found.largest > 0.1
    (True, True)
    """
    for name, relation in itertools.product(DOORS if names is None else names, relations):
        if name not in DOORS:
            raise InputError(f"unknown name {name!r}; allowed: {', '.join(DOORS)}")
        door = DOORS[name]
        for loss in door.losses:
            if losses is None or loss in losses:
                yield _audited(name, door, loss, relation, whole(pairs, "pairs", 1), epsilon, seed)


def _audited(
    name: str, door: Door, loss: str, relation: str, pairs: int, epsilon: float, seed: int
) -> DoorFinding:
    source = lone_tables(loss, relation, seed, named=not door.found, others=door.others)
    count, largest, where, refused, moved = 0, 0.0, "", 0, 0
    while count < pairs:
        family = next(source)
        rows = [table.rows() for table in family.tables]
        for container in filter(_available, door.containers):
            laws = [door.law(t, container, loss, epsilon, relation) for t in family.tables]
            refused += sum(REFUSAL in law.chances for law in laws)
            for i, j in family.pairs:
                check_neighbour(rows[i], rows[j], relation)
                apart = laws[i].apart(laws[j])
                if apart > largest:
                    largest, where = apart, f"{container}, tables {i} and {j}"
                if not door.found:  # classes that are found may change places
                    moved = max(moved, laws[i].moved(laws[j]))
                count += 1
    return DoorFinding(name, loss, relation, count, epsilon, largest, where, refused, moved)


def _available(container: str) -> bool:
    return container not in ("pandas", "pyarrow") or find_spec(container) is not None


# How tables are handed in ------------------------------------------------------------------------


def _array(table: RawTable) -> tuple[Any, Any]:
    return np.array(table.X, dtype=np.float64), list(table.y)


def _list(table: RawTable) -> tuple[Any, Any]:
    return [list(row) for row in table.X], list(table.y)


def _sparse(table: RawTable) -> tuple[Any, Any]:
    import scipy.sparse as sp

    return sp.csr_array(np.array(table.X, dtype=np.float64)), list(table.y)


def _pandas(table: RawTable) -> tuple[Any, Any]:
    pd: Any = import_module("pandas")
    return pd.DataFrame(list(table.X), columns=list("uvw")), pd.Series(list(table.y))


def _polars(table: RawTable) -> tuple[Any, Any]:
    import polars as pl

    columns = {name: [row[j] for row in table.X] for j, name in enumerate("uvw")}
    return pl.DataFrame(columns, strict=False), pl.Series(list(table.y), strict=False)


def _arrow(table: RawTable) -> tuple[Any, Any]:
    """Return columns of whole numbers, unless one row makes floats of all."""
    pa: Any = import_module("pyarrow")
    columns = [[entry + 0 for entry in column] for column in zip(*table.X, strict=True)]
    whole = [all(isinstance(entry, int) for entry in column) for column in columns]
    kinds = [pa.int64() if plain else pa.float64() for plain in whole]
    made = [c if plain else list(map(float, c)) for c, plain in zip(columns, whole, strict=True)]
    arrays = [pa.array(c, kind) for c, kind in zip(made, kinds, strict=True)]
    return pa.table(arrays, names=list("uvw")), list(table.y)


CONTAINERS: dict[str, Callable[[RawTable], tuple[Any, Any]]] = {
    "array": _array,
    "list": _list,
    "sparse": _sparse,
    "pandas": _pandas,
    "polars": _polars,
    "pyarrow": _arrow,
}


# What is called ----------------------------------------------------------------------------------


def _estimator(kind: str, loss: str, epsilon: float, relation: str, named: bool) -> Any:
    from dpsubset import estimators

    labels = as_loss(loss).classification
    target: dict[str, Any] = {} if labels else {"bounds_y": (-1, 1)}
    if labels and named:
        target["classes"] = CLASSES
    chosen: dict[str, Any] = {"loss": loss}
    if kind != "SubsetSelector":
        # On so few rows a model's own rules (T42) leave nothing but the offset to look at.
        chosen = {"coefficient_loss": loss, "offset_share": 0.2, "coefficient_ridge": 0.0}
    return getattr(estimators, kind)(
        n_features_to_select=1,
        epsilon=epsilon,
        bounds_X=(-1, 1),
        neighbours=relation,
        radius=_RADIUS,
        ridge=0.1,
        **target,
        **chosen,
    )


def _refused(law: Callable[[], Shown]) -> Shown:
    """Return the distribution; where a table is refused, that is all that is shown."""
    try:
        return law()
    except InputError:
        return Shown({REFUSAL: 0.0})


def _selected(mechanism: Mechanism, problem: Problem) -> Shown:
    return Shown(Laws().of(mechanism, problem), rows=row_counts(problem))


def _selector(
    table: RawTable, container: str, loss: str, epsilon: float, relation: str, named: bool = True
) -> Shown:
    estimator = _estimator("SubsetSelector", loss, epsilon, relation, named)

    def law() -> Shown:
        selection, problem = estimator._ask(Selection, *CONTAINERS[container](table))
        return _selected(selection.made, problem)

    return _refused(law)


def _model(kind: str, defaults: bool = False) -> Callable[[RawTable, str, str, float, str], Shown]:
    """Return the distribution of a model; with `defaults` all rules are the model's own (T42)."""

    def shown(table: RawTable, container: str, loss: str, epsilon: float, relation: str) -> Shown:
        estimator = _estimator(kind, loss, epsilon, relation, True)
        if defaults:
            own = type(estimator)().get_params()
            names = ("loss", "radius", "ridge", "offset_share", "coefficient_ridge")
            estimator.set_params(**{name: own[name] for name in names})

        def law() -> Shown:
            model, problem = estimator._ask(Model, *CONTAINERS[container](table))
            return _around_offsets(model.settled(problem.n_rows), problem, loss, every=defaults)

        return _refused(law)

    return shown


def _around_offsets(model: Model, problem: Problem, loss: str, *, every: bool) -> Shown:
    """Return the joint distribution of offset, columns and coefficients, at three offsets or all.

    An outcome is the offset's place and the support.
    """
    fit = model.fit_problem(problem)
    if model.offset is None:
        shown = _selected(model.made, problem)
        coefficients = {s: _density(model.method, fit, s, loss) for s in shown.chances}
        return replace(shown, densities=coefficients)
    offsets, logs = model.offset.probabilities(fit)
    chances, densities = {}, {}
    count = len(offsets)
    places = range(count) if every else (0, count // 2, 3 * count // 4)
    for place in places:
        start = float(offsets[place])
        scored = moved(problem, start) if model._around else problem
        around = moved(fit, start)
        told = start if fit.loss.classification else 0.0  # the target of numbers is moved instead
        for support, chance in Laws().of(model.made, scored).items():
            chances[place, *support] = chance + float(logs[place])
            densities[place, *support] = _density(model.method, around, support, loss, told)
    return Shown(chances, densities, rows=row_counts(problem))


def _density(
    method: CoefficientMechanism,
    fit: Problem,
    support: tuple[int, ...],
    loss: str,
    offset: float = 0.0,
) -> Floats:
    """Return log densities of objective perturbation's minimiser on one or two columns."""
    assert isinstance(method, ObjectivePerturbation)
    given = method.constants(fit, support)
    name, _, margin = loss.partition(":")
    if name == "huber_logistic":  # its margin is counted from the offset
        loss = f"{name}:{float(margin) + abs(offset)}"
    rows = shortened(fit.design.take(fit.features.columns(support)), given.row)
    gaussian = method.delta > 0
    law = Law(
        loss, rows, fit.y, given.ridge, fit.radius, given.scale, gaussian, offset, given.parts
    )
    return law.on(_grid(len(support), fit.radius))


def _grid(size: int, radius: float) -> Any:
    return make_grid(1, radius, 40) if size == 1 else make_grid(2, radius, 8, 12)


def _problem(table: RawTable, container: str, loss: str) -> Problem:
    labels = as_loss(loss).classification
    target: dict[str, Any] = {"classes": CLASSES} if labels else {"y_bound": 1.0}
    X, y = CONTAINERS[container](table)
    return Problem(X, y, size=1, x_bound=1.0, radius=_RADIUS, loss=loss, ridge=0.1, **target)


def _perturbed(table: RawTable, container: str, loss: str, epsilon: float, relation: str) -> Shown:
    def law() -> Shown:
        method = ObjectivePerturbation(epsilon, neighbours=relation)
        problem = _problem(table, container, loss)
        method.prepare(problem, seeded=True)
        return Shown(
            {(0,): 0.0}, {(0,): _density(method, problem, (0,), loss)}, rows=row_counts(problem)
        )

    return _refused(law)


def _statistics(table: RawTable, container: str, loss: str, epsilon: float, relation: str) -> Shown:
    def law() -> Shown:
        method = NoisyStatistics(epsilon, neighbours=relation)
        problem = _problem(table, container, loss)
        method.prepare(problem, seeded=True)
        x = problem.design.take([0])[:, 0]
        moments = np.array([x @ x, x @ problem.y]) * epsilon / method.sensitivity(problem)
        return Shown({(0,): 0.0}, statistics={(0,): moments}, rows=row_counts(problem))

    return _refused(law)


def _files(table: RawTable, container: str, loss: str, epsilon: float, relation: str) -> Shown:
    """Return the distribution of the selector on what is read from a CSV file."""
    from dpsubset.data import read_table

    labels = as_loss(loss).classification
    lines = [
        "u,v,w,y",
        *(",".join(map(str, [*x, y])) for x, y in zip(table.X, table.y, strict=True)),
    ]
    estimator = _estimator("SubsetSelector", loss, epsilon, relation, True)
    if labels:
        estimator.set_params(classes=(-1, 1))

    def law() -> Shown:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"
            path.write_text("\n".join(lines) + "\n")
            read = read_table(path, "y", labels=labels, classes=CLASSES if labels else None)
        y = getattr(read.y, "values", read.y)
        selection, problem = estimator._ask(Selection, read.X, y)
        return _selected(selection.made, problem)

    return _refused(law)


_ALL = tuple(CONTAINERS)
DOORS: dict[str, Door] = {
    "SubsetSelector": Door(("squared", "absolute", "brier", "hinge", "logistic"), _selector, _ALL),
    "SubsetSelector, classes found": Door(
        ("brier", "hinge", "logistic"), partial(_selector, named=False), _ALL, found=True
    ),
    "SubsetRegressor": Door(
        ("squared", "huber:0.2"), _model("SubsetRegressor"), _ALL, others=_MANY
    ),
    "SubsetClassifier": Door(
        ("logistic", "huber_hinge:0.5", "huber_logistic:0.5"),
        _model("SubsetClassifier"),
        _ALL,
        others=_MANY,
    ),
    "SubsetRegressor, defaults": Door(
        ("huber:0.2",), _model("SubsetRegressor", defaults=True), others=_MANY
    ),
    "SubsetClassifier, defaults": Door(
        ("huber_logistic:0.5",), _model("SubsetClassifier", defaults=True), others=_MANY
    ),
    "objective-perturbation": Door(
        ("squared", "huber:0.3", "logistic", "huber_hinge:0.5", "huber_logistic:0.5"),
        _perturbed,
        others=_MANY,
    ),
    "noisy-statistics": Door(("squared",), _statistics),
    "CSV files": Door(("squared", "hinge"), _files),
}
