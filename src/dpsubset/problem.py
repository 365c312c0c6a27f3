"""A problem: a bounded table, a target, a loss and the supports to choose from (T1)."""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsubset.arrays import Floats
from dpsubset.checks import one_of, positive
from dpsubset.designs import (
    ColumnCache,
    Design,
    Features,
    Gram,
    as_design,
    bounded_blocks,
    unmasked,
)
from dpsubset.designs.dense import NOT_FINITE
from dpsubset.errors import InputError, UnprovenError, without_context
from dpsubset.labels import Labels, as_labels
from dpsubset.limits import Allowance
from dpsubset.losses import Fit, Loss, Weighted, as_loss
from dpsubset.losses.brier import Brier
from dpsubset.losses.squared import Squared, fit_moments
from dpsubset.losses.weighted import weights_by_class

__all__ = [
    "IMPRECISE",
    "RULES",
    "Begun",
    "Origin",
    "Problem",
    "check_false_columns",
    "check_one_size",
]

RULES = ("tight", "largest", "paper")  # for the sensitivity of scores
_NARROWEST = 1000.0  # what the tight rule may gain: rounding counts by as much more (T19.4)

IMPRECISE = (
    "a score could not be computed as precisely as the guarantee needs, so nothing is released; "
    "whether that happens depends on the data, so count the budget as spent. A larger ridge helps"
)
_UNIT = 2.0**-53
_REMEMBERED = 4096  # scores of supports that were fitted

Known = tuple[Floats, float, float]  # of an earlier fit: coefficients, primal and dual value
_UNKNOWN: Known = (np.empty(0), math.inf, -math.inf)


class Begun(NamedTuple):
    """A fit that is made ahead, by another thread, and what it starts from."""

    known: Known
    made: Future[Fit]


@dataclass(frozen=True)
class Origin:
    """Where a problem comes from, in its owner's words; all public.

    `asked` are the settings as records hold them. The owner's columns come first in the design,
    `visible` of them, with `names` if they have any; those beyond are ours: a constant. `levels`
    are those of the columns that have some, by name.
    """

    asked: Mapping[str, Any]
    visible: int
    names: Sequence[str] | None = None
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def seen(self, support: Iterable[int]) -> tuple[int, ...]:
        """Return the owner's columns among those of a support."""
        return tuple(int(j) for j in support if j < self.visible)

    def released(self, support: Iterable[int]) -> dict[str, Any]:
        """Return a support as records hold it: positions and names of the owner's columns.

        >>> Origin({}, 2, ("age", "dose")).released([1, 2])
        {'positions': [1], 'columns': ['dose']}
        """
        places = list(self.seen(support))
        named = None if self.names is None else [self.names[j] for j in places]
        levels = {name: list(self.levels[name]) for name in named or () if name in self.levels}
        return {"positions": places, "columns": named} | ({"levels": levels} if levels else {})


class Problem:
    """Which s features best explain y? A score for every support, and how far one row can move it.

    A feature is a column, or a block of columns that enter a support together (`groups`).

    Parameters
    ----------
    X : array (n, p), scipy.sparse matrix, or Design
        Entries are clipped to [-x_bound, x_bound]. No copy is made: leave X unchanged as long as
        the problem is in use.
    y : array (n,)
        Clipped to [-y_bound, y_bound]; for a classification loss labels of two classes: -1 and
        +1, 0 and 1, booleans, or two strings.
    size : int
        Number of features in a support, the included ones counted; with `false_columns` the
        largest.
    x_bound, y_bound : float
        Public bounds of entries; never derive them from the data. Labels need no y_bound.
    radius : float
        Coefficients have Euclidean norm at most this.
    loss : str or Loss
        "squared", "absolute", "huber", "quantile" (regression), "brier", "hinge", "logistic",
        "huber_hinge" (classification); a parameter may follow a colon, as in "huber:0.1".
    ridge : float
        Weight of the squared norm of the coefficients, for the sum over rows.
    row_ridge : float
        The same for every row, added to it: `problem.ridge` is ridge + row_ridge n. A row then
        moves scores by row_ridge radius^2 more (T47).
    include, exclude : indices
        Features that every support contains, and features that none contains.
    groups : list of lists of columns, optional
        The columns of each feature; every column is in one of them. Features are numbered by
        their place here, and supports, `include` and `exclude` speak of features. A row whose
        norm within a feature of several columns exceeds x_bound is scaled down to it, so that
        such a feature moves scores no more than a column does (T32). By default feature j is
        column j.
    false_columns : float, optional
        Leave the size open (T34): supports of the included columns and any number of others, up to
        `size` in all. It is about how many columns may be chosen that explain nothing, on average:
        a number above 0, up to 1.
    classes : pair, optional
        The two classes of a classification target, as public knowledge. Read off the labels they
        are good for scores only: mechanisms that see more of the labels refuse such a problem,
        since one row may then exchange the classes of all others.
    class_weights : pair or mapping {class: weight}, optional
        Public weights of the two classes, in the order of `classes`, which must be given: rows of
        a class count as often (T36). Never computed from the labels.
    origin : Origin, optional
        Where the problem comes from; a `Selection` fills it in.
    present : array of bool (n,), optional
        Which rows have a target. The others must be rows of zeros, which count for nothing in a
        score (T33d); whatever counts rows leaves them out.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(4); y = np.array([1.0, 0.5, 0.0, 0.0])
    >>> problem = Problem(X, y, size=2, x_bound=1.0, y_bound=1.0, radius=2.0)
    >>> problem.score([0, 1]), problem.n_supports
    (0.0, 6)
    >>> problem
    <Problem: 2 of 4 columns; loss=Squared(), x_bound=1, y_bound=1, radius=2, ridge=0>
    >>> bounds = {"x_bound": 1.0, "y_bound": 1.0, "radius": 2.0}
    >>> blocks = Problem(X, y, size=1, **bounds, groups=[[0, 1], [2, 3]])
    >>> blocks.score([0]), blocks.n_supports
    (0.0, 2)
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike | Labels,
        *,
        size: int,
        x_bound: float,
        y_bound: float | None = None,
        radius: float,
        loss: str | Loss = "squared",
        ridge: float = 0.0,
        row_ridge: float = 0.0,
        include: Iterable[int] = (),
        exclude: Iterable[int] = (),
        groups: Sequence[Sequence[int]] | None = None,
        false_columns: float | None = None,
        classes: Sequence[Any] | None = None,
        class_weights: Any = None,
        origin: Origin | None = None,
        present: NDArray[np.bool_] | None = None,
    ) -> None:
        self.loss = as_loss(loss)
        if class_weights is not None:
            self.loss = Weighted(self.loss, weights_by_class(class_weights, classes))
        self.x_bound = positive(x_bound, "x_bound")
        self.y_bound = 1.0 if self.loss.classification else positive(y_bound, "y_bound")
        self.radius = positive(radius, "radius")
        self.fixed_ridge = positive(ridge, "ridge", zero=True)
        self.row_ridge = positive(row_ridge, "row_ridge", zero=True)
        self.y, self.classes_named = self._read(y, classes)
        self.allowance = Allowance(None)
        self._shared: dict[str, Any] = {}  # what copies of the problem share, made on demand
        self._remembered: dict[bytes, Known] = {}
        given = isinstance(X, Design)
        self.design = X if given else as_design(X, bound=self.x_bound, partner=self.y)
        if self.design.bound != self.x_bound:
            raise InputError(
                f"x_bound is {self.x_bound}, but the design was made with bound "
                f"{self.design.bound}; give the same number to both"
            )
        if self.y.size != self.design.n_rows:
            raise InputError("the target and the table have different numbers of rows")
        self.ridge = self.fixed_ridge + self.row_ridge * self.n_rows
        self.features = Features.of(groups, self.design.n_columns)
        self.design = bounded_blocks(self.design, self.features)
        self._choose(size, include, exclude)
        self.false_columns = None if false_columns is None else check_false_columns(false_columns)
        self.column_cost = self._column_cost()
        self.origin = origin or Origin(self._asked(), len(self.features))
        self.present = present

    def _asked(self) -> dict[str, Any]:
        """Return what is asked, where nobody said it in other words."""
        groups = None if self.groups is None else [list(group) for group in self.groups]
        return {
            **({} if groups is None else {"groups": groups}),
            "table": None,
            "target": None,
            "schema": None,
            "n_columns": len(self.features),
            "size": self.size,
            "loss": repr(self.loss),
            "x_bound": self.x_bound,
            "y_bound": self.y_bound,
            "radius": self.radius,
            "ridge": self.fixed_ridge,
            **({"row_ridge": self.row_ridge} if self.row_ridge else {}),
            "always_include": list(self.include),
            "exclude": list(self.exclude),
        } | ({} if self.false_columns is None else {"false_columns": self.false_columns})

    def _column_cost(self) -> float:
        """Return by how many nats each chosen column lowers a log weight (T34)."""
        if self.false_columns is None:
            return 0.0
        return math.log(max(self.free.size, 1)) - math.log(self.false_columns)

    def _read(self, y: ArrayLike | Labels, classes: Sequence[Any] | None) -> tuple[Floats, bool]:
        """Return the target as numbers, and whether its classes are public, if it has any."""
        name = self.loss.name
        if not self.loss.classification:
            if classes is not None or isinstance(y, Labels):
                raise InputError(f"classes are for classification; the {name} loss has none")
            return _target(y, self.y_bound), True
        named = y.named if isinstance(y, Labels) else classes is not None
        if not (named or self.loss.symmetric):
            raise InputError(
                f"the {name} loss may treat its two classes differently, so which is which must be "
                "public: give classes=(first, second)"
            )
        return (y if isinstance(y, Labels) else Labels.of(y, classes)).values, named

    def _choose(self, size: int, include: Iterable[int], exclude: Iterable[int]) -> None:
        p = len(self.features)
        self.include = _indices(include, p, "include")
        self.exclude = _indices(exclude, p, "exclude")
        if set(self.include) & set(self.exclude):
            raise InputError("a column is both included and excluded; choose one")
        if isinstance(size, bool) or not isinstance(size, numbers.Integral):
            raise InputError(f"size must be a whole number, not {size!r}")
        self.size: int = int(size)
        low, high = max(1, len(self.include)), p - len(self.exclude)
        if not low <= self.size <= high:
            raise InputError(
                f"size is {self.size}; with {p} {self._called}, {len(self.include)} included and "
                f"{len(self.exclude)} excluded it must lie between {low} and {high}"
            )
        self.free: NDArray[np.intp] = np.delete(np.arange(p), [*self.include, *self.exclude])
        self.most_columns: int = self._most_columns()

    @property
    def widest(self) -> tuple[int, ...]:
        """How many columns the features of a support have, of the widest one; that is public."""
        return self.features.widest(self.include, self.free, self.to_choose)

    def _most_columns(self) -> int:
        """Return how many columns a support can have; that is public."""
        if self.features.identity:
            return self.size
        return sum(self.widest)

    def __repr__(self) -> str:
        """Return what is public; the number of rows need not be."""
        y_bound = "" if self.loss.classification else f"y_bound={self.y_bound:g}, "
        fixed = {"included": len(self.include), "excluded": len(self.exclude)}
        counts = "".join(f", {count} {name}" for name, count in fixed.items() if count)
        most = "" if self.false_columns is None else "up to "
        false = f", {self.false_columns:g} false" if most else ""
        a_row = f" + {self.row_ridge:g} a row" if self.row_ridge else ""
        return (
            f"<Problem: {most}{self.size} of {self.n_columns} {self._called}{counts}{false}; "
            f"loss={self.loss!r}, x_bound={self.x_bound:g}, {y_bound}radius={self.radius:g}, "
            f"ridge={self.fixed_ridge:g}{a_row}>"
        )

    @property
    def n_rows(self) -> int:
        """Number of rows; private under the add-remove relation."""
        return self.design.n_rows

    @property
    def n_columns(self) -> int:
        """Number of features to choose from: of columns, unless there are groups."""
        return len(self.features)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...] | None:
        """The columns of every feature; None if feature j is column j."""
        return self.features.groups

    @property
    def _called(self) -> str:
        return "columns" if self.features.identity else "features"

    @property
    def allowed(self) -> tuple[int, ...]:
        """The columns that a support may hold."""
        return tuple(sorted((*self.include, *self.free.tolist())))

    @property
    def to_choose(self) -> int:
        """How many columns are chosen besides the included ones, at most."""
        return self.size - len(self.include)

    @property
    def sizes(self) -> range:
        """The sizes that a support may have."""
        least = self.size if self.false_columns is None else len(self.include)
        return range(least, self.size + 1)

    @property
    def n_supports(self) -> int:
        """Number of supports to choose from."""
        included = len(self.include)
        return sum(math.comb(self.free.size, size - included) for size in self.sizes)

    def of_size(self, size: int) -> Problem:
        """Return the problem of the supports of one size; tables, moments and scores are shared."""
        twin = copy.copy(self)
        twin.size, twin.false_columns, twin.column_cost = size, None, 0.0
        twin.most_columns = twin._most_columns()
        return twin

    def with_rows(self, X: Any, y: ArrayLike) -> Problem:
        """Return the same problem of other rows; labels are -1 and +1."""
        labels = self.loss.classification
        return Problem(
            X,
            Labels(as_labels(y, (-1.0, 1.0)), self.classes_named) if labels else y,
            size=self.size,
            loss=self.loss,
            x_bound=self.x_bound,
            y_bound=None if labels else self.y_bound,
            radius=self.radius,
            ridge=self.fixed_ridge,
            row_ridge=self.row_ridge,
            include=self.include,
            exclude=self.exclude,
            groups=self.groups,
            false_columns=self.false_columns,
            origin=self.origin,
        )

    @property
    def public_bounds(self) -> tuple[tuple[str, float], ...]:
        """Return by name what table and target are clipped to, and the radius."""
        return ("x", self.x_bound), ("y", self.y_bound), ("radius", self.radius)

    def sensitivity(self, rule: str = "tight", reach: float | None = None) -> float:
        """Return Delta: how far one row moves any score, against all others (T2, T38).

        rule="tight" is the loss's spread; rule="largest" its largest value, which bounds how far a
        score moves by itself; rule="paper" the paper's looser Lemma. `reach` is the largest
        prediction, where it is not that of coefficients in the ball.
        """
        one_of(rule, "sensitivity rule", RULES)
        t_bound = reach or self.radius * self.x_bound * math.sqrt(self.size)  # of the largest size
        of_ridge = self.row_ridge * self.radius**2  # T47
        if rule == "paper":
            return self.loss.published(self.y_bound, t_bound) + of_ridge
        largest = self.loss.largest(self.y_bound, t_bound) + of_ridge
        if rule == "largest":
            return largest
        return max(self.loss.spread(self.y_bound, t_bound) + of_ridge, largest / _NARROWEST)

    def precision(self, rule: str = "tight", reach: float | None = None) -> float:
        """Return the rounding of a score, in units of n times the sensitivity (T19.4)."""
        size = self.sensitivity("largest", reach) / self.sensitivity(rule, reach)
        return self.rounding(reach) * size

    def rounding(self, reach: float | None = None) -> float:
        """Return the rounding of a score in units of n times the largest loss (T19).

        It is the loss's own, unless blocks have so many columns that rounding may be more (T32);
        from public numbers only. `reach` as for the sensitivity.
        """
        if self.features.identity:
            return self.loss.precision
        k = self.most_columns
        scaling = 12 * (k + 4) * _UNIT
        if not self.quadratic:
            return max(self.loss.precision, 1.1e-11 + 4 * (k + 2) * _UNIT + scaling)
        t_bound = reach or self.radius * self.x_bound * math.sqrt(self.size)
        trace = t_bound**2 + (k * self.y_bound**2 if self.fixed_ridge + self.row_ridge else 0.0)
        solving = 5 * (3 * k + 1) * _UNIT * trace / (self.y_bound + t_bound) ** 2
        return max(self.loss.precision, 7e-13 + k * _UNIT + solving + scaling)

    @property
    def slack(self) -> float:
        """Bound on the rounding error of a score or a lower bound (T19)."""
        return self.rounding() * max(self.n_rows, 1) * self.sensitivity("largest")

    def within(self, allowance: Allowance) -> Problem:
        """Return the same problem for a job whose fits end, by OutOfTime, with the job's seconds.

        Tables, moments and scores are shared.
        """
        twin = copy.copy(self)
        twin.allowance = allowance
        return twin

    def extended(self, include: tuple[int, ...], more: int) -> Problem:
        """Return the problem of choosing so many columns more, with these included.

        Tables, moments and scores are shared, and what a column costs.
        """
        twin = copy.copy(self)
        twin._choose(len(include) + more, include, self.exclude)
        return twin

    @property
    def between(self) -> Callable[[], None] | None:
        """What to call between parts of long work; None without a limit on seconds."""
        return self.allowance.check if self.allowance.timed else None

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what copies of the problem share under a name, made when first asked for."""
        if name not in self._shared:
            self._shared[name] = make()
        return self._shared[name]

    @cached_property
    def gram(self) -> Gram:
        """Inner products of the columns, on demand."""
        return cast(Gram, self.once("gram", lambda: Gram(self.design)))

    @cached_property
    def columns(self) -> ColumnCache:
        """Columns as contiguous vectors, on demand."""
        return cast(ColumnCache, self.once("columns", lambda: ColumnCache(self.design)))

    @property
    def quadratic(self) -> bool:
        """Whether scores follow from the moments X'X, X'y and y'y alone."""
        return type(self.loss) in (Squared, Brier)

    @property
    def scored_entries(self) -> int:
        """How many entries of the table a score goes through; none where moments tell it."""
        return 0 if self.quadratic else self.n_rows * self.most_columns

    @cached_property
    def correlations(self) -> Floats:
        """X'y."""
        return cast(Floats, self.once("correlations", lambda: self.design.correlate(self.y)))

    @cached_property
    def energy(self) -> float:
        """y'y, the score of the empty support."""
        return cast(float, self.once("energy", lambda: float(np.sum(self.y**2))))  # pairwise sums

    @property
    def magnitude(self) -> float:
        """How large the numbers are that a score from moments is made of."""
        return self.energy

    def score(self, support: Iterable[int]) -> float:
        """Return R(S), summed over rows: the smallest penalised loss on the support (T1)."""
        low, high = self.interval(support)
        return (low + high) / 2

    def interval(self, support: Iterable[int]) -> tuple[float, float]:
        """Return numbers that enclose R(S), rounding included (T16, T19)."""
        return self.enclose(self.as_support(support))

    def as_support(self, support: Iterable[int]) -> NDArray[np.intp]:
        """Return a support as sorted indices of features, or say what is wrong with it."""
        chosen = _indices(support, self.n_columns, "support")
        if len(chosen) not in self.sizes:
            allowed = "size" if self.false_columns is None else f"sizes {self.sizes[0]} to"
            raise InputError(
                f"the support has {len(chosen)} {self._called}; this problem has {allowed} "
                f"{self.size}"
            )
        return np.array(chosen, dtype=np.intp)

    def enclose(
        self,
        support: NDArray[np.intp],
        gap: float = 0.0,
        enough: float = math.inf,
        begun: Begun | None = None,
    ) -> tuple[float, float]:
        """Return the same for a support known to be valid, at most about `gap` apart.

        They may be further apart where the lower one is at least `enough`. `begun` is the same fit,
        which another thread makes.
        """
        columns = self.features.columns(support)
        if columns.size == 0:
            primal = dual = math.fsum(self.loss.value(self.y, np.zeros_like(self.y)))
        elif self.quadratic:
            _, primal, dual = fit_moments(
                self.gram.block(columns),
                self.correlations[columns],
                self.energy,
                self.ridge,
                self.radius,
            )
        else:
            goal = max(gap, self.slack), enough + self.slack
            primal, dual = self._fitted(np.sort(columns), *goal, begun)
        return dual - self.slack, primal + self.slack

    def gather(self, supports: Sequence[NDArray[np.intp]]) -> None:
        """Fetch the columns of supports that will be fitted together, where fetching is dear."""
        if self.quadratic or self.design.threaded or not supports:
            return
        columns = self.features.columns(np.unique(np.concatenate(supports)))
        if columns.size <= self.columns.room:
            self.columns.places(columns)

    def begin(
        self, support: NDArray[np.intp], gap: float, enough: float, pool: Executor
    ) -> Begun | None:
        """Let other threads make the fit that `enclose` would make now; None if it makes none."""
        if self.quadratic or not len(support):
            return None
        columns = np.sort(self.features.columns(support))
        gap, enough = max(gap, self.slack), enough + self.slack
        known = self._remembered.get(columns.tobytes(), _UNKNOWN)
        if known[1] - known[2] <= gap or known[2] >= enough:
            return None
        rows = self.columns.later(columns)

        def work() -> Fit:
            return self.fit_table(rows().T, gap=gap, start=self._start(known), enough=enough)

        return Begun(known, pool.submit(work))

    def _start(self, known: Known) -> Fit:
        return Fit(*known, np.zeros(self.n_rows))

    def _fitted(
        self, columns: NDArray[np.intp], gap: float, enough: float, begun: Begun | None = None
    ) -> tuple[float, float]:
        """Fit, or remember an earlier fit that is close enough."""
        key = columns.tobytes()
        known = self._remembered.pop(key, _UNKNOWN)
        beta, primal, dual = known
        if primal - dual > gap and dual < enough:
            if begun is not None and begun.known is known:
                fit = begun.made.result()
            else:  # nobody has begun, or another fit on these columns was made since
                fit = self.fit(columns, gap=gap, start=self._start(known), enough=enough)
            if not (fit.primal - fit.dual <= gap or fit.dual >= enough):
                fit = self.fit(columns, gap=gap)  # another way there
            if not (fit.primal - fit.dual <= gap or fit.dual >= enough):
                raise UnprovenError(IMPRECISE)
            beta, primal, dual = fit.coefficients, max(fit.primal, fit.dual), fit.dual
        self._remembered[key] = beta, primal, dual
        if len(self._remembered) > _REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        return primal, dual

    def coefficients(self, support: NDArray[np.intp], gap: float) -> Floats:
        """Return coefficients of a fit on a support, at most about `gap` from the best."""
        columns = np.sort(self.features.columns(support))
        known = self._remembered.get(columns.tobytes())
        if known is not None and known[0].size == columns.size:
            return known[0]
        return self.fit(columns, gap=max(gap, self.slack)).coefficients

    def fit(
        self,
        columns: NDArray[np.intp],
        *,
        gap: float,
        start: Fit | None = None,
        enough: float = math.inf,
    ) -> Fit:
        """Fit the loss on a few columns, to a gap between the primal and the dual value.

        It ends early once the dual value is at least `enough`.
        """
        return self.fit_table(self.columns.rows(columns).T, gap=gap, start=start, enough=enough)

    def fit_table(
        self, table: Floats, *, gap: float, start: Fit | None = None, enough: float = math.inf
    ) -> Fit:
        """Fit the loss on columns of any kind."""
        self.allowance.check()
        return self.loss.fit(
            table,
            self.y,
            self.ridge,
            self.radius,
            start=start,
            gap=gap,
            enough=enough,
            allowance=self.allowance,
        )


def check_problem(problem: Any) -> None:
    """Refuse what is no problem."""
    if not isinstance(problem, Problem):
        raise InputError(
            f"a Problem is needed, not {type(problem).__name__}: Problem(X, y, size=..., "
            "x_bound=..., y_bound=..., radius=...)"
        )


def check_false_columns(given: Any, name: str = "false_columns") -> float:
    """Return the expected number of false columns, or say what it must be."""
    number = positive(given, name)
    if number > 1.0:
        raise InputError(f"{name} must be a number above 0, up to 1, not {given!r}")
    return number


def check_one_size(problem: Problem, who: str) -> None:
    """Refuse a problem whose size is open, where only one size can be served."""
    if problem.false_columns is not None:
        raise InputError(
            f"{who} needs to know how many columns to choose; where that is open (auto), take "
            "permute-and-flip, exponential or stepwise"
        )


def check_classes_named(problem: Problem, who: str) -> None:
    """Refuse a problem whose classes were read off its labels, where more than scores sees them."""
    if not problem.classes_named:
        raise InputError(
            f"{who} must know which of the two classes is which, and that must be public: one "
            "label of the table could exchange them otherwise. Name the classes: "
            "classes=(first, second), or --classes first,second"
        )


@without_context
def _target(y: ArrayLike, bound: float) -> Floats:
    plain = unmasked(y)
    try:
        array = np.asarray(plain)
    except ValueError:
        raise InputError("the target is ragged; give one number a row") from None
    except MemoryError:
        raise
    except Exception:  # another library's column, with words of its own
        raise InputError("the target cannot be turned into an array of numbers") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"the target must have one dimension, not {array.ndim}")
    if array.dtype.kind not in "fiub":
        raise InputError(f"the target has type {array.dtype.type.__name__}; it must hold numbers")
    with np.errstate(over="ignore"):  # extended precision may become infinite
        values = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError(NOT_FINITE)
    return np.clip(values, -bound, bound, out=values)


@without_context
def _indices(given: Iterable[int], p: int, name: str) -> tuple[int, ...]:
    try:
        items = list(given)
    except TypeError:
        raise InputError(f"{name} must be a list of column indices") from None
    whole = all(isinstance(j, numbers.Integral) and not isinstance(j, bool) for j in items)
    if not whole or len(set(items)) != len(items) or any(not 0 <= j < p for j in items):
        raise InputError(
            f"{name} must list different column indices between 0 and {p - 1}, each once"
        )
    return tuple(sorted(int(j) for j in items))
