"""A selection: what is asked of a table, as one value from the user to the ledger.

Estimators and commands make one of their parameters; its fields (`question`) are the options of
both. It turns a table into a problem and a problem into a release.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpsubset.checks import positive, whole, yes_or_no
from dpsubset.data.bounds import narrowed
from dpsubset.data.frames import Table, column_positions
from dpsubset.data.schema import Schema
from dpsubset.data.target import PRIVATE
from dpsubset.designs.cores import check_jobs, using
from dpsubset.docstrings import documented
from dpsubset.duration import expected, kind_of
from dpsubset.errors import InputError, at_once
from dpsubset.first_draws import FirstDraws
from dpsubset.losses import Loss, Weighted, as_loss
from dpsubset.losses.weighted import weights_by_class
from dpsubset.mechanisms import Exponential, Mechanism, PermuteAndFlip, Release
from dpsubset.mechanisms.named import OWN_OPTIONS, UNSCALED, make_mechanism
from dpsubset.mechanisms.offset import PrivateOffset, widest
from dpsubset.mechanisms.target_bounds import TargetBounds
from dpsubset.mechanisms.window import TargetWindow
from dpsubset.privacy import Guarantee, Randomness, as_randomness, check_neighbours, compose
from dpsubset.privacy.guarantee import (
    decimal_rest,
    decimal_sum,
    rounded_down,
    seeded_if,
)
from dpsubset.privacy.ledger import LedgerLike, as_ledger
from dpsubset.problem import Origin, Problem, check_false_columns
from dpsubset.question import Question
from dpsubset.records import charging
from dpsubset.rules import default_row_ridge, ruled
from dpsubset.wording import check_seed, loss_name, shortfall, with_share

__all__ = ["Selection"]

_LONG = 20.0  # seconds that are said before they are spent
_MANY_ROWS = 50_000  # where their number is private

_ANEW = 4  # windows and offsets of a study on one table


@documented
@dataclass(frozen=True, kw_only=True, eq=False)
class Selection(Question):
    """Which columns of a table best explain its target? All settings, public and checked.

    It poses the problem of a table, says the guarantee before any row is read, and releases.

    Parameters
    ----------
    schema : Schema
        What is public about the table.
    table : str, optional
        What the table is called in records.
    called : mapping, optional
        How the caller names fields that go by another name, for error messages.
    counted : int, optional
        The number of rows; `settled` fills it in.
    given : mapping, optional
        What was asked before the number of rows was known; `settled` looks at it.

    Examples
    --------
    >>> from dpsubset.data.target import Target
    >>> schema = Schema.of(("age", "dose"), 2, (0, 10), Target((0.0, 1.0)))
    >>> selection = Selection(schema=schema, size=1, epsilon=20.0, seed=0)
    >>> X = np.random.default_rng(0).uniform(0, 10, (500, 2))
    >>> selection.release(Table(X, X[:, 1] / 10)).columns
    ('dose',)
    """

    schema: Schema
    table: str | None = None
    called: Mapping[str, str] = field(default_factory=dict, repr=False)
    counted: int | None = field(default=None, repr=False)
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._make_plain()
        at_once(
            self._check_table,
            lambda: narrowed((0.0, 1.0), self.clip),
            partial(positive, self.radius, "radius"),
            partial(positive, self.ridge, "ridge", zero=True),
            partial(positive, self.row_ridge, "row_ridge", zero=True),
            partial(yes_or_no, self.intercept, self._called("intercept")),
            lambda: as_loss(self.loss),
            lambda: self._weights,
            lambda: self.made,
            lambda: self.checked_seed,
            lambda: self._cores,
            self._check_columns,
            partial(check_false_columns, self.false_columns, self._called("false_columns")),
        )
        self._check_loss()
        self._check_offset()
        self.guarantee()  # on no rows: what is wrong for all tables shows now

    def _make_plain(self) -> None:
        """Turn numbers of numpy and fractions into Python's own, which records can hold.

        A loss that was not named is that of the target's kind, and so is the radius. A mechanism
        object is copied: what changes later does not change what was asked.
        """
        if isinstance(self.mechanism, Mechanism):
            object.__setattr__(self, "mechanism", copy(self.mechanism))
        self._settle_loss()
        for name in (f.name for f in fields(self) if f.metadata):
            value = getattr(self, name)
            if isinstance(value, np.generic):
                object.__setattr__(self, name, value.item())
            elif isinstance(value, Fraction):
                object.__setattr__(self, name, float(value))

    def _settle_loss(self) -> None:
        """Choose loss, radius, ridge and window where nothing is said.

        What depends on the number of rows is chosen anew by `settled`; until then it is unknown.
        """
        found = ruled(self, self.schema.target, lambda: self.largest_size, self._budget)
        if self.counted is None and found.awaiting:
            given = {name: getattr(self, name) for name in found.awaiting}
            object.__setattr__(self, "given", given)
        for name in ("loss", "radius", "row_ridge", "window_share"):
            object.__setattr__(self, name, getattr(found, name))

    def _budget(self) -> float | None:
        """Return epsilon times the number of rows, where public rules know it."""
        known = self.public_rows(self.counted)
        try:
            check_neighbours(self._relation)
            epsilon = positive(self.epsilon, "epsilon")
        except InputError:  # what is bad is refused with all else that is bad
            return 0.0
        return None if known is None else known * epsilon

    def _check_table(self) -> None:
        named = isinstance(self.table, str) and self.table.strip()
        if self.table is not None and not named:
            raise InputError(f"the name of the table must be a text, not {self.table!r}")

    def _called(self, name: str) -> str:
        return self.called.get(name, name)

    @property
    def _cores(self) -> int | None:
        return check_jobs(self.jobs, self._called("jobs"))

    def _check_loss(self) -> None:
        labels = self.schema.target.limits is None
        if as_loss(self.loss).classification != labels:
            kind = "labels of two classes" if labels else "numbers"
            raise InputError(f"the {as_loss(self.loss).name} loss is not for a target of {kind}")

    def weighted(self, loss: Loss) -> Loss:
        """Return a loss with the weights of the classes, if there are any (T36)."""
        return loss if self._weights is None else Weighted(loss, self._weights)

    @cached_property
    def _weights(self) -> tuple[float, float] | None:
        if self.class_weights is None:
            return None
        target = self.schema.target
        if target.limits is not None:
            raise InputError(
                f"{self._called('class_weights')} are for labels of two classes; the target holds "
                "numbers"
            )
        return weights_by_class(self.class_weights, target.classes)

    def _check_columns(self) -> None:
        p, included, excluded = self.schema.n_columns, self.included, self._excluded
        name, size = self._called("size"), self.size
        most = whole(self.max_size, self._called("max_size"), 1)
        if self.open_size:
            name, size = self._called("max_size"), min(most, p - len(excluded))
        elif isinstance(size, bool) or not isinstance(size, Integral):
            raise InputError(f'{name} must be a whole number or "auto", not {size!r}')
        both = sorted(set(included) & set(excluded))
        if both:
            shown = ", ".join(repr(self.schema.label(j)) for j in both)
            raise InputError(f"{shown} cannot be both always included and excluded: choose one")
        low, high = max(1, len(included)), p - len(excluded)
        if not low <= int(size) <= high:
            without = f" and {len(excluded)} excluded" if excluded else ""
            raise InputError(
                f"{name} is {most if self.open_size else size}; with {p} columns, "
                f"{len(included)} of them always included{without}, it must lie between {low} and "
                f"{high}"
            )

    @property
    def open_size(self) -> bool:
        """Whether the number of columns is to be found, too (T34)."""
        return isinstance(self.size, str) and self.size == "auto"

    @property
    def largest_size(self) -> int:
        """The number of columns to select, or the most where it is open; the intercept is none."""
        if not self.open_size:
            return int(self.size)
        return min(int(self.max_size), self.schema.n_columns - len(self._excluded))

    @cached_property
    def included(self) -> tuple[int, ...]:
        """The columns that are always included, by their places."""
        return self._positions("always_include")

    @cached_property
    def _excluded(self) -> tuple[int, ...]:
        return self._positions("exclude")

    def _positions(self, name: str) -> tuple[int, ...]:
        schema = self.schema
        given = getattr(self, name)
        return column_positions(given, schema.names, schema.n_columns, self._called(name))

    @cached_property
    def checked_seed(self) -> Any:
        """The seed as mechanisms take it; read once, since reading may use a generator up."""
        return check_seed(self.seed, self._called("seed"))

    @cached_property
    def offset(self) -> PrivateOffset | None:
        """What draws the offset of all predictions, if there is to be one (T39)."""
        share = self._checked_share("offset_share", "no offset")
        return None if share == 0 else PrivateOffset(self._part(share), self._relation)

    @cached_property
    def target_bounds(self) -> TargetBounds | None:
        """What draws the bounds of the target, if they are to be private (T37)."""
        share = self._checked_share("target_bounds_share", "none")
        if not self.schema.target.private:
            return None
        if share == 0:
            raise InputError(
                f"{self._called('target_bounds_share')} is 0: private bounds of the target take a "
                "part of epsilon"
            )
        return TargetBounds(self._part(share), self._relation)

    @cached_property
    def window(self) -> TargetWindow | None:
        """What draws a window of the target for the selection, if there is to be one (T44)."""
        share = self._checked_share("window_share", "no window", or_auto=True)
        if share == 0:
            return None
        if self.schema.target.limits is None or self.schema.target.private:
            raise InputError(
                f"{self._called('window_share')} is for a target of numbers with public bounds: "
                "leave it at 0"
            )
        return TargetWindow(self._part(share), self._relation)

    @cached_property
    def first(self) -> FirstDraws:
        """All that is drawn before the columns."""
        limits = self.schema.target.limits
        return FirstDraws(self.target_bounds, self.window, self.offset, limits, self.clip)

    def _checked_share(self, name: str, none: str, *, or_auto: bool = False) -> float:
        share = getattr(self, name)
        good = isinstance(share, Real) and not isinstance(share, bool)
        if not (good and 0.0 <= share < 1.0):
            other = ", or auto" if or_auto else ""
            raise InputError(
                f"{self._called(name)} must be 0 ({none}) or a number below 1{other}, not {share!r}"
            )
        return float(share)

    def _part(self, share: float) -> float:
        """Return a part of epsilon, as a decimal: 0.05 of 3 is 0.15."""
        whole = positive(self.epsilon, "epsilon")
        return rounded_down(Fraction(repr(share)) * Fraction(repr(whole)))

    @property
    def _relation(self) -> str:
        """Which tables are neighbours; a mechanism object may say so instead."""
        mechanism = self.mechanism
        return mechanism.neighbours if isinstance(mechanism, Mechanism) else self.neighbours

    def _check_offset(self) -> None:
        """Refuse an offset where it would change nothing, or its guarantee would not hold."""
        if not self.first:  # its shares are checked by that
            return
        given = "target_bounds_share" if self.window is None else "window_share"
        name = self._called(given if self.offset is None else "offset_share")
        self._check_before(name, scored=bool(self.offset or self.window))
        if self.schema.target.limits is None and self.schema.target.classes is None:
            raise InputError(
                f"{name} tells which of the two classes is the larger one, so which is which must "
                "be public: give classes=(first, second), or --classes first,second"
            )

    def _check_before(self, name: str, *, scored: bool) -> None:
        """Refuse what is drawn before the columns where the mechanism does not allow it."""
        if not isinstance(self.mechanism, str):
            raise InputError(
                f"{name} is for mechanisms by name: a mechanism object brings its own epsilon"
            )
        if self.mechanism in UNSCALED and scored:
            raise InputError(f"{self.mechanism} looks at no scores: leave {name} at 0")
        if self.made.guarantee(self.rehearsal()).condition is not None:
            raise InputError(
                f"the guarantee of {self.mechanism} has a condition on the table, which {name} "
                "would change: leave it out, or choose a mechanism without a condition"
            )

    @property
    def _spent(self) -> float:
        """What mechanism and offset spend together, if nothing weakens the guarantee."""
        return decimal_sum([self.made.epsilon, self.first.epsilon])

    @cached_property
    def made(self) -> Mechanism:
        """The mechanism: the one that was given, or made by its name and options."""
        if isinstance(self.mechanism, str):
            return make_mechanism(
                self.mechanism,
                self._selection_epsilon(),
                neighbours=self.neighbours,
                sensitivity=self.sensitivity,
                max_seconds=self.max_seconds,
                rows=self.schema.rows,
                **self._own_options(),
            )
        if not isinstance(self.mechanism, Mechanism):
            raise InputError("the mechanism must be a name or a mechanism object of dpsubset")
        if self.max_seconds is not None:
            raise InputError(
                f"{self._called('max_seconds')} is for mechanisms by name; give a mechanism object "
                "its own limits=Limits(seconds=...)"
            )
        positive(self.epsilon, "epsilon")
        self._check_twice_given(self.mechanism)
        return self.mechanism

    def _own_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in OWN_OPTIONS}

    def _selection_epsilon(self) -> float:
        """Return what a mechanism given by its name may spend."""
        return self._left()

    def _left(self) -> float:
        """Return what the target's bounds and the offset leave of epsilon."""
        if not self.first:
            return self.epsilon
        whole, spent = positive(self.epsilon, "epsilon"), self.first.epsilon
        if not spent < whole:
            raise InputError(
                f"{self._called('offset_share')}, {self._called('window_share')} and "
                f"{self._called('target_bounds_share')} leave nothing of epsilon for the "
                "selection: make them smaller"
            )
        return decimal_rest(whole, spent)

    def settled(self, rows: int) -> Self:
        """Return the same with all that depends on the number of rows, where that is public.

        It is asked for again and again, and each is checked as a whole: they are kept. A private
        number of rows is not: nothing depends on it.
        """
        public = rows if self._relation == "replace-one" else 0
        if public not in self._kept:
            self._kept[public] = self._settle(public)
        return self._kept[public]

    @cached_property
    def _kept(self) -> dict[int, Self]:
        return {}

    def _settle(self, rows: int) -> Self:
        if not self.given:
            return self
        return replace(self, **self.given, given={}, counted=rows, seed=self.checked_seed)

    def public_rows(self, rows: int | None) -> int | None:
        """Return how many rows public rules may count on: a table's, or what the schema says.

        Under add-remove a table's number of rows is private, and no rule may look at it.
        """
        return rows if self._relation == "replace-one" else self.schema.rows

    def _check_twice_given(self, mechanism: Mechanism) -> None:
        for name, default in (("epsilon", 1.0), ("neighbours", "replace-one")):
            if getattr(self, name) not in (default, getattr(mechanism, name)):
                raise InputError(
                    f"{name} is given twice and differs: to the mechanism object and to the "
                    "selector. Give it to the mechanism only"
                )

    def rehearsal(self) -> Problem:
        """Return the problem of a table without rows: what is wrong for all tables shows in it."""
        return self.problem(self.schema.nothing(), rehearsal=True)

    def problem(self, table: Table, *, rehearsal: bool = False) -> Problem:
        """Read a table and return its problem; a rehearsal is on no rows.

        Under replace-one the number of rows is public and must not be zero; under add-remove it is
        private, so an empty table is a table like any other.
        """
        with using(self._cores):
            return self._posed(table, rehearsal)

    def _posed(self, table: Table, rehearsal: bool) -> Problem:
        schema = self.schema
        rows = schema.read(table, self.clip, constant=bool(self.intercept))
        if not rows.design.n_rows and self.made.neighbours == "replace-one" and not rehearsal:
            raise InputError(
                "the table has 0 sample(s) (no rows) while a minimum of 1 is required when one row "
                "is replaced by another (replace-one)"
            )
        size, include = self.largest_size, self.included
        visible = schema.n_columns
        settled = self.settled(rows.design.n_rows)
        if self.intercept:
            # The constant column comes last, is always included, and no record shows it.
            size, include = size + 1, (*include, visible)
        return Problem(
            rows.design,
            rows.target,
            size=size,
            loss=self.weighted(as_loss(settled.loss)),
            x_bound=1.0,
            y_bound=1.0,
            radius=positive(settled.radius, "radius"),
            ridge=self.ridge,
            row_ridge=positive(settled.row_ridge, "row_ridge", zero=True),
            include=include,
            exclude=self._excluded,
            false_columns=self.false_columns if self.open_size else None,
            groups=rows.groups,
            origin=Origin(settled.asked(), visible, schema.names, schema.levels),
            present=rows.present,
        )

    def asked(self) -> dict[str, Any]:
        """Return the question as records hold it; the mechanism adds itself to it."""
        schema = self.schema
        asked: dict[str, Any] = {
            "table": self.table,
            "target": schema.target_name,
            "schema": schema.sha256,
            "n_columns": schema.n_columns,
            "features": list(schema.names or ()) if schema.picked else None,
            "size": "auto" if self.open_size else int(self.size),
            "loss": loss_name(as_loss(self.loss)),
            "clip": self.clip,
            "radius": self.radius,
            "ridge": self.ridge,
            **({"row_ridge": self.row_ridge} if self.row_ridge else {}),
            "intercept": bool(self.intercept),
            "always_include": [schema.label(j) for j in self.included],
            "exclude": [schema.label(j) for j in self._excluded],
        }
        if self.open_size:
            asked |= {"max_size": int(self.max_size), "false_columns": float(self.false_columns)}
        if self.offset is not None:
            asked["offset_share"] = self.offset_share
        if self.window is not None:
            asked["window_share"] = self.window_share
        if self.target_bounds is not None:
            asked |= {"target_bounds": PRIVATE, "target_bounds_share": self.target_bounds_share}
        if schema.target.classes is not None:
            asked["classes"] = [str(name) for name in schema.target.classes]
        if self._weights is not None and schema.target.classes is not None:
            names = map(str, schema.target.classes)
            asked["class_weights"] = dict(zip(names, self._weights, strict=True))
        if isinstance(self.seed, Integral):
            asked["seed"] = int(self.seed)
        return asked

    def guarantee(self, problem: Problem | None = None) -> Guarantee:
        """Return what a release guarantees; where that depends on the rows' number, of a problem.

        The number of rows matters for few mechanisms, under replace-one only.
        """
        if problem is None:
            return self.settled(0)._promised
        return self.settled(problem.n_rows)._guarantee(problem)

    @cached_property
    def _promised(self) -> Guarantee:
        """What is guaranteed on no rows."""
        return self._guarantee(self.rehearsal())

    def _guarantee(self, problem: Problem) -> Guarantee:
        if not self.first:
            return self.made.guarantee(problem)
        parts = [*self.first.guarantees(problem), widest(self.made, problem)]
        return compose([with_share(part) for part in parts])

    def weaker(self, problem: Problem) -> str | None:
        """Say in what the guarantee is weaker than the epsilon asked for, if it is."""
        return self.settled(problem.n_rows)._weaker(problem)

    def _weaker(self, problem: Problem) -> str | None:
        return shortfall(self._guarantee(problem), self._spent, self.delta or 0.0)

    def slow(self, problem: Problem) -> str | None:
        """Say, before anything is spent, if an exact draw may take long on some tables.

        It rests on public numbers alone.
        """
        return self.settled(problem.n_rows)._slow(problem)

    def _slow(self, problem: Problem) -> str | None:
        made, loss = self.made, as_loss(self.loss)
        if not isinstance(made, (PermuteAndFlip, Exponential)):
            return None
        known = self.public_rows(problem.n_rows)
        loose = problem.row_ridge < default_row_ridge(loss)
        found = expected(
            kind_of(problem.quadratic, loss.bends, loose),
            _MANY_ROWS if known is None else known,
            self.schema.n_columns,
            self.largest_size,
            made.epsilon,
            problem.n_supports,
        )
        if found.long < _LONG:
            return None
        columns = f"{'up to ' if self.open_size else ''}{self.largest_size} columns"
        asked = f"{columns} at epsilon {made.epsilon:g} with {loss.name} loss"
        other = "" if loss.bends else ", or a loss that bends (huber:0.2),"
        if loss.classification:
            other = "" if problem.quadratic else ", or brier loss,"
        other = f", a ridge for every row (row_ridge){other}" if loose else other
        return (
            f"an exact draw of {asked} takes {found}; "
            f"the mechanism stepwise{other} takes less (docs/mechanisms.md)"
        )

    def release(self, table: Table | Problem, ledger: LedgerLike = None) -> Release:
        """Spend the budget: select columns of a table, or of the problem it poses."""
        released: Release = self._spend(table, ledger)
        return released

    def _spend(self, table: Table | Problem, ledger: LedgerLike) -> Any:
        with using(self._cores):
            problem = self.posed(table)
            return self.settled(problem.n_rows)._release(problem, self.check_ledger(ledger))

    def _release(self, problem: Problem, ledger: Any) -> Any:
        """Release what is asked, with all settled and the ledger checked."""
        if self.first:
            return self._release_in_parts(problem, ledger)
        mechanism = copy(self.made)
        mechanism.ledger = ledger or mechanism.ledger
        if self.seed is None:
            return mechanism.release(problem)
        return mechanism.experiment(problem, self.checked_seed)

    def _release_in_parts(self, problem: Problem, ledger: Any) -> Release:
        """Release bounds, an offset, then columns for predictions around it; charged once."""
        seed = self.checked_seed
        randomness = as_randomness(seed)  # one stream for both draws
        promise = seeded_if(seed is not None, self._guarantee(problem))
        asked, origin = self.made.asked(problem), problem.origin
        with charging(ledger, promise, asked) as write:
            limits, start, scored = self.first.drawn(problem, randomness)
            support = self.made.chosen(scored, randomness)
            told = None if start is None else self.first.in_units(start, limits)
            drawn = limits if self.target_bounds or self.window else None
            release = Release.of(origin, support, promise, asked, told, drawn)
            write(release.to_dict()["released"])
        return release

    def experiments(self, problem: Problem, count: int, seed: int) -> NDArray[np.int64]:
        """Return the supports of so many seeded releases, for studies on synthetic tables.

        What is drawn before the columns is drawn anew for every quarter of them.
        """
        settled = self.settled(problem.n_rows)
        if not settled.first:
            return settled.made.draw(problem, count, random_state=seed)
        randomness = as_randomness(seed)
        found = []
        for part in np.array_split(np.arange(count), min(count, _ANEW)):
            scored = settled.scored(problem, randomness)
            found.append(settled.made.draw(scored, part.size, random_state=seed + int(part[0])))
        return np.concatenate(found)

    def scored(self, problem: Problem, randomness: Randomness) -> Problem:
        """Draw what comes before the columns; return the problem that these are drawn from."""
        return self.first.drawn(problem, randomness)[2]

    def posed(self, table: Table | Problem) -> Problem:
        """Return the problem of a table; one that another selection posed is refused."""
        if not isinstance(table, Problem):
            return self.problem(table)
        if table.origin.asked != self.settled(table.n_rows).asked():
            raise InputError(
                "the problem was not posed by this selection: make it with .problem(table)"
            )
        return table

    def check_ledger(self, given: LedgerLike) -> Any:
        """Return the ledger to charge; a mechanism object may have one instead."""
        ledger = as_ledger(given)
        if ledger is not None and self.made.ledger is not None:
            raise InputError(
                "ledger is given twice, to the mechanism object and to the estimator: the release "
                "would be charged twice. Give it to the estimator only"
            )
        return ledger

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as plain values; `from_dict` reads them."""
        if not isinstance(self.mechanism, str) or isinstance(self.loss, Loss):
            raise InputError("a selection with objects for mechanism or loss has no plain form")
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.metadata}
        plain |= self.given
        for name in ("always_include", "exclude"):
            plain[name] = [self.schema.label(j) for j in self._positions(name)]
        return {"schema": self.schema.to_dict(), "table": self.table, **plain}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Selection:
        """Return the selection that `to_dict` described."""
        if not isinstance(given, Mapping):
            raise InputError("not a selection: give what Selection.to_dict returned")
        known = {f.name for f in fields(cls) if f.metadata} | {"schema", "table"}
        unknown = sorted(set(given) - known)
        if unknown or "schema" not in given:
            what = f"it has {', '.join(unknown)}" if unknown else "it has no schema"
            raise InputError(f"not a selection: {what}; give what Selection.to_dict returned")
        return cls(**{**given, "schema": Schema.from_dict(given["schema"])})
