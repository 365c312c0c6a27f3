"""A selection: what is asked of a table, as one value from the user to the ledger.

Estimators and commands make one of their parameters; its fields (`question`) are the options of
both. It turns a table into a problem and a problem into a release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from dpsubset.checks import positive, whole, yes_or_no
from dpsubset.data.bounds import narrowed, rescale_target
from dpsubset.data.frames import Table, column_positions
from dpsubset.data.schema import Schema
from dpsubset.data.target import ANY, PRIVATE
from dpsubset.errors import InputError, at_once
from dpsubset.losses import Loss, Weighted, as_loss
from dpsubset.losses.weighted import weights_by_class
from dpsubset.mechanisms import Exponential, Mechanism, PermuteAndFlip, Release
from dpsubset.mechanisms.named import OWN_OPTIONS, UNSCALED, make_mechanism
from dpsubset.mechanisms.offset import PrivateOffset, moved, widest, with_target
from dpsubset.mechanisms.target_bounds import TargetBounds
from dpsubset.privacy import Guarantee, Randomness, as_randomness, compose
from dpsubset.privacy.guarantee import (
    decimal_rest,
    decimal_sum,
    rounded_down,
    rounded_up,
    seeded_if,
)
from dpsubset.privacy.ledger import LedgerLike, as_ledger
from dpsubset.problem import Origin, Problem, check_false_columns
from dpsubset.question import Question, default_loss, default_radius
from dpsubset.records import charging

__all__ = ["Selection", "check_seed", "loss_name", "shortfall", "with_share"]

# From docs/hardness.md: sizes and rows from which some tables take long, for a loss that bends and
# for one that is straight but for its kinks.
_LARGE_EPSILON = 3.0
_HARD_BENT = (8, 10_000)
_HARD_STRAIGHT = (5, 1000)


@dataclass(frozen=True, kw_only=True, eq=False)
class Selection(Question):
    """Which columns of a table best explain its target? All settings, public and checked.

    `called` says how the caller names fields that go by another name, for error messages.

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

    def __post_init__(self) -> None:
        self._make_plain()
        at_once(
            self._check_table,
            lambda: narrowed((0.0, 1.0), self.clip),
            partial(positive, self.radius, "radius"),
            partial(positive, self.ridge, "ridge", zero=True),
            partial(yes_or_no, self.intercept, self._called("intercept")),
            lambda: as_loss(self.loss),
            lambda: self._weights,
            lambda: self.made,
            lambda: self.checked_seed,
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
        labels = self.schema.target.limits is None
        if self.loss is None:
            object.__setattr__(self, "loss", default_loss(labels))
        if self.radius is None:
            object.__setattr__(self, "radius", default_radius(labels))
        for name in (f.name for f in fields(self) if f.metadata):
            value = getattr(self, name)
            if isinstance(value, np.generic):
                object.__setattr__(self, name, value.item())
            elif isinstance(value, Fraction):
                object.__setattr__(self, name, float(value))

    def _check_table(self) -> None:
        named = isinstance(self.table, str) and self.table.strip()
        if self.table is not None and not named:
            raise InputError(f"the name of the table must be a text, not {self.table!r}")

    def _called(self, name: str) -> str:
        return self.called.get(name, name)

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
        p, included, excluded = self.schema.n_columns, self._included, self._excluded
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
    def _included(self) -> tuple[int, ...]:
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

    def _checked_share(self, name: str, none: str) -> float:
        share = getattr(self, name)
        good = isinstance(share, Real) and not isinstance(share, bool)
        if not (good and 0.0 <= share < 1.0):
            raise InputError(
                f"{self._called(name)} must be 0 ({none}) or a number below 1, not {share!r}"
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
        self.target_bounds  # noqa: B018 - its share is checked
        if self.offset is None and self.target_bounds is None:
            return
        name = self._called("target_bounds_share" if self.offset is None else "offset_share")
        if not isinstance(self.mechanism, str):
            raise InputError(
                f"{name} is for mechanisms by name: a mechanism object brings its own epsilon"
            )
        if self.mechanism in UNSCALED and self.offset is not None:
            raise InputError(f"{self.mechanism} looks at no scores: leave {name} at 0")
        if self.made.guarantee(self.rehearsal()).condition is not None:
            raise InputError(
                f"the guarantee of {self.mechanism} has a condition on the table, which {name} "
                "would change: leave it out, or choose a mechanism without a condition"
            )
        if self.schema.target.limits is None and self.schema.target.classes is None:
            raise InputError(
                f"{name} tells which of the two classes is the larger one, so which is which must "
                "be public: give classes=(first, second), or --classes first,second"
            )

    @property
    def _spent(self) -> float:
        """What mechanism and offset spend together, if nothing weakens the guarantee."""
        own = [part.epsilon for part in (self.target_bounds, self.offset) if part is not None]
        return decimal_sum([self.made.epsilon, *own])

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
        before = [part.epsilon for part in (self.target_bounds, self.offset) if part is not None]
        if not before:
            return self.epsilon
        whole, spent = positive(self.epsilon, "epsilon"), decimal_sum(before)
        if not spent < whole:
            raise InputError(
                f"{self._called('offset_share')} and {self._called('target_bounds_share')} leave "
                "nothing of epsilon for the selection: make them smaller"
            )
        return decimal_rest(whole, spent)

    def settled(self, rows: int) -> Selection:
        """Return the same with all that depends on the number of rows, where that is public."""
        return self

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
        schema = self.schema
        rows = schema.read(table, self.clip, constant=bool(self.intercept))
        if not rows.design.n_rows and self.made.neighbours == "replace-one" and not rehearsal:
            raise InputError(
                "the table has 0 sample(s) (no rows) while a minimum of 1 is required when one row "
                "is replaced by another (replace-one)"
            )
        size, include = self.largest_size, self._included
        visible = schema.n_columns
        asked = self.settled(rows.design.n_rows).asked()
        if self.intercept:
            # The constant column comes last, is always included, and no record shows it.
            size, include = size + 1, (*include, visible)
        return Problem(
            rows.design,
            rows.target,
            size=size,
            loss=self.weighted(as_loss(self.loss)),
            x_bound=1.0,
            y_bound=1.0,
            radius=positive(self.radius, "radius"),
            ridge=self.ridge,
            include=include,
            exclude=self._excluded,
            false_columns=self.false_columns if self.open_size else None,
            groups=rows.groups,
            origin=Origin(asked, visible, schema.names, schema.levels),
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
            "intercept": bool(self.intercept),
            "always_include": [schema.label(j) for j in self._included],
            "exclude": [schema.label(j) for j in self._excluded],
        }
        if self.open_size:
            asked |= {"max_size": int(self.max_size), "false_columns": float(self.false_columns)}
        if self.offset is not None:
            asked["offset_share"] = self.offset_share
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
        problem = problem or self.rehearsal()
        first = self._first_parts(problem)
        if not first:
            return self.made.guarantee(problem)
        return compose([with_share(part) for part in [*first, widest(self.made, problem)]])

    def _first_parts(self, problem: Problem) -> list[Guarantee]:
        """Return what is guaranteed of all that is drawn before the columns."""
        bounds = [] if self.target_bounds is None else [self.target_bounds.guarantee(problem)]
        return bounds + ([] if self.offset is None else [self.offset.guarantee(problem)])

    def weaker(self, problem: Problem) -> str | None:
        """Say in what the guarantee is weaker than the epsilon asked for, if it is."""
        return shortfall(self.guarantee(problem), self._spent, self.delta or 0.0)

    def slow(self, problem: Problem) -> str | None:
        """Say, before anything is spent, if an exact draw may take long on some tables.

        It rests on public numbers alone: under add-remove the number of rows is not one of them.
        """
        made, loss = self.made, as_loss(self.loss)
        if not isinstance(made, (PermuteAndFlip, Exponential)) or made.epsilon < _LARGE_EPSILON:
            return None
        rows = problem.n_rows if made.neighbours == "replace-one" else math.inf
        least_size, least_rows = _HARD_BENT if loss.bends else _HARD_STRAIGHT
        if problem.quadratic or self.largest_size < least_size or rows < least_rows:
            return None
        columns = f"{'up to ' if self.open_size else ''}{self.largest_size} columns"
        asked = f"{columns} at epsilon {made.epsilon:g} with {loss.name} loss"
        other = "" if loss.bends else ", or a loss that bends (huber:0.2, logistic),"
        return (
            f"an exact draw of {asked} takes seconds on most tables, and minutes or more on some; "
            f"the mechanism stepwise{other} takes less (docs/mechanisms.md)"
        )

    def release(self, table: Table | Problem, ledger: LedgerLike = None) -> Release:
        """Spend the budget: select columns of a table, or of the problem it poses."""
        problem = self.posed(table)
        if self.offset is not None or self.target_bounds is not None:
            return self._release_in_parts(problem, ledger)
        mechanism = copy(self.made)
        mechanism.ledger = self.check_ledger(ledger) or mechanism.ledger
        if self.seed is None:
            return mechanism.release(problem)
        return mechanism.experiment(problem, self.checked_seed)

    def _release_in_parts(self, problem: Problem, ledger: LedgerLike) -> Release:
        """Release bounds, an offset, then columns for predictions around it; charged once."""
        seed = self.checked_seed
        randomness = as_randomness(seed)  # one stream for both draws
        promise = seeded_if(seed is not None, self.guarantee(problem))
        asked, origin = self.made.asked(problem), problem.origin
        with charging(self.check_ledger(ledger), promise, asked) as write:
            limits, scored = self._bounded(problem, randomness)
            told = None
            if self.offset is not None:
                start = self.offset.draw(scored, randomness)
                scored, told = moved(scored, start), self._in_units(start, limits)
            support = self.made.chosen(scored, randomness)
            drawn = None if self.target_bounds is None else limits
            release = Release.of(origin, support, promise, asked, told, drawn)
            write(release.to_dict()["released"])
        return release

    def _bounded(
        self, problem: Problem, randomness: Randomness
    ) -> tuple[tuple[float, float] | None, Problem]:
        """Return the bounds of the target, drawn if need be, and the problem within them."""
        if self.target_bounds is None:
            return self.schema.target.limits, problem
        raw = problem.y * ANY[1]
        limits = self.target_bounds.draw(raw, randomness)
        target = rescale_target(raw, narrowed(limits, self.clip))
        return limits, with_target(problem, target, problem.loss)

    def _in_units(self, offset: float, limits: tuple[float, float] | None) -> float:
        """Return an offset in the units of the target; log odds have none."""
        if limits is None:
            return offset
        lower, upper = narrowed(limits, self.clip)
        return float(lower / 2 + upper / 2 + offset * (upper / 2 - lower / 2))

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


def with_share(part: Guarantee) -> Guarantee:
    """Return a guarantee whose name says what it takes of epsilon."""
    return replace(part, mechanism=f"{part.mechanism} (epsilon {rounded_up(part.epsilon)})")


def check_seed(random_state: Any, name: str) -> Any:
    """Return what the mechanisms take: None, a whole number or a generator."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if not whole or random_state < 0:
        allowed = "a whole number from 0 on"
        if not name.startswith("--"):  # who types has no generator
            allowed = f"None (a real release), {allowed}, or a numpy generator"
        raise InputError(f"{name} must be {allowed}")
    return int(random_state)


def loss_name(loss: Loss) -> str:
    """Return the loss as users type it, with its parameter.

    >>> loss_name(as_loss("huber")), loss_name(as_loss("hinge"))
    ('huber:0.1', 'hinge')
    """
    parameter = repr(loss).partition("(")[2].rstrip(")")
    return f"{loss.name}:{parameter}" if parameter else loss.name


def shortfall(guarantee: Guarantee, epsilon: float, delta: float = 0.0) -> str | None:
    """Say in what a guarantee is weaker than the epsilon and delta asked for, if it is.

    The text rests on the guarantee alone, so it is the same for all tables that count as
    neighbours.
    """
    found = []
    if guarantee.epsilon > epsilon:
        found.append(
            f"is {guarantee.epsilon}-differentially private, which is weaker than the epsilon of "
            f"{epsilon} asked for"
        )
    if guarantee.delta > delta:
        found.append(f"may fail to protect with a chance of {rounded_up(guarantee.delta)}")
    if guarantee.condition:
        found.append(f"is private only if {guarantee.condition}")
    return f"the {guarantee.mechanism} {' and '.join(found)}" if found else None
