"""The questions that may be asked of a table: their options, defaults and help, and nothing else.

This file is light, so that the command can show its help at once; `selection` and `model` give the
questions their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "ModelQuestion",
    "Question",
    "default_loss",
    "default_radius",
    "option",
]

MECHANISM_NAMES = (
    "permute-and-flip, exponential, top-r, mistakes; stepwise, which takes bounded time on every "
    "table; the baselines markov-chain, sample-aggregate, "
    "lasso-stability (sample-aggregate under add-remove needs the schema's rows), kendall, "
    "screening"
)


WINDOWED = ("permute-and-flip", "exponential", "stepwise")  # mechanisms with a window by default


def default_loss(labels: bool, windowed: bool = False, offset: bool = False) -> str:
    """Return the loss of a selection where none is named; an offset of labels is of log odds.

    >>> default_loss(labels=True), default_loss(labels=False, windowed=True)
    ('brier', 'squared')
    >>> default_loss(labels=True, offset=True)
    'logistic'
    """
    if labels:
        return "logistic" if offset else "brier"
    return "squared" if windowed else "huber:0.2"


def default_radius(loss: Any, labels: bool, windowed: bool = False, size: int = 5) -> float:
    """Return the largest norm of the coefficients where none is given.

    Whatever the size, predictions of labels by brier stay between the labels, and those within a
    window within one and a half of its half width.

    >>> default_radius("brier", labels=True, size=3), default_radius("logistic", labels=True)
    (0.5, 1.0)
    >>> default_radius("huber:0.2", labels=False)
    0.5
    >>> default_radius("squared", labels=False, windowed=True, size=8)
    0.5
    """
    if labels and loss != "brier":
        return 1.0
    if labels or windowed:
        return float(round((1.0 if labels else 1.5) / (size + 1) ** 0.5, 4))
    return 0.5


def option(default: Any, group: str, text: str, typed: Any = None) -> Any:
    """Return a field that is an option: its default, its group in the help, and its help.

    `typed` is the type that the command takes, if it is not the field's own.
    """
    return field(default=default, metadata={"group": group, "help": text, "typed": typed})


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """Which columns best explain a target? One field an option."""

    size: Any = option(
        5,
        "question",
        "How many columns to select, those always included counted; or auto, where nobody knows: "
        "their number is then found, and released with them under the same epsilon.",
        str,
    )
    max_size: int = option(
        10,
        "question",
        "--size auto: the most columns to select, all if there are fewer. Noise grows with it.",
    )
    false_columns: float = option(
        0.05,
        "question",
        "--size auto: about how many of the selected columns explain nothing, on average.",
    )
    loss: Any = option(
        None,
        "question",
        "For a target of numbers: squared, absolute, quantile, huber, with a parameter as in "
        "quantile:0.9 and huber:0.1. For two classes: brier, hinge, logistic, huber_hinge; the "
        "target needs no bounds then. If not given: brier where classes are named (logistic with "
        "--offset-share); for numbers huber:0.2, and squared within a private window "
        "(--window-share) from epsilon n = 1000 on or where n is private.",
        str | None,
    )
    class_weights: Any = option(
        None,
        "question",
        "For two classes: public weights of their rows, no=1,yes=5, for selection and "
        "coefficients. They must not be computed from the table.",
        str | None,
    )
    always_include: Any = option(
        (),
        "question",
        "Columns to select in any case, a,b,c, quoted as in --features; may be repeated.",
        list[str] | None,
    )
    exclude: Any = option(
        (),
        "question",
        "Columns never to select, a,b,c, quoted as in --features; may be repeated.",
        list[str] | None,
    )
    intercept: bool = option(
        True,
        "question",
        "Add a constant, not counted in the size. Bounds are rarely centred at the mean; without "
        "it a column far from its middle is taken for a constant.",
    )
    clip: float = option(1.0, "question", "Clip values to this central fraction of the bounds.")
    radius: float | None = option(
        None,
        "question",
        "Largest norm of the coefficients; if not given 1.5 / sqrt(size + 1) within a window, 0.5 "
        "without; for labels 1 / sqrt(size + 1) by brier, 1 by other losses.",
    )
    ridge: float = option(10.0, "question", "Weight of the squared coefficients.")
    row_ridge: float | None = option(
        None,
        "question",
        "Weight of the squared coefficients for every row, added to --ridge. If not given 0.05 for "
        "absolute and quantile loss, 0.1 c for huber:c up to c = 0.1, 0.005 for huber_hinge and "
        "0.002 for logistic loss, whose exact draws may not end without it, and 0 for others.",
    )
    epsilon: float = option(
        1.0,
        "privacy",
        "What the release spends of the privacy budget: the chance of any answer changes by a "
        "factor of at most e^epsilon with one person's row. Smaller protects more.",
    )
    neighbours: str = option(
        "replace-one",
        "privacy",
        "Which tables are compared: replace-one (one row has other values), or add-remove (one row "
        "more or less; the number of rows is private, too).",
    )
    offset_share: float | None = option(
        0.0,
        "privacy",
        "The part of epsilon that buys an offset of all predictions: a private median of the "
        "target, or the log odds of the second class; 0 for none. It is released, too. Helps where "
        "a target lies far from the middle of its bounds, or a class is rare, and the radius is "
        "small.",
    )
    target_bounds_share: float = option(
        0.1,
        "privacy",
        "Where bounds of the target are private: the part of epsilon that buys them, around two "
        "private quantiles.",
    )
    window_share: Any = option(
        None,
        "privacy",
        "The part of epsilon that buys a window of a target of numbers, around two private "
        "quartiles: the selection clips the target to it, so that a row counts by what is usual. "
        "auto: 200 / (epsilon n), at least 0.001 and at most 0.1 (0.1 under add-remove); 0 for "
        "none. If not given, auto where no loss is named and epsilon n is 1000 or more, or n is "
        "private; 0 otherwise.",
        str | None,
    )
    seed: Any = option(
        None,
        "privacy",
        "Experiments only: a draw that can be repeated, and its guarantee says so.",
        int | None,
    )
    mechanism: Any = option("permute-and-flip", "mechanism", f"{MECHANISM_NAMES}.", str)
    max_seconds: float | None = option(
        None,
        "mechanism",
        "Refuse after so many seconds of work; the budget counts as spent. Whether that happens "
        "depends on the data, which is outside the guarantee.",
    )
    jobs: int | None = option(
        None,
        "mechanism",
        "How many cores may be used; all if not given. What is drawn does not depend on it.",
    )
    sensitivity: str = option(
        "tight",
        "mechanism",
        "How far one row moves a score: tight, largest (the largest loss of a row, never smaller), "
        "or paper (the published, looser constant).",
    )
    count: int | None = option(
        None, "mechanism", "top-r: how many best supports keep their own weight."
    )
    trials: int | None = option(
        None, "mechanism", "top-r: how many draws in the tail; no limit if not given."
    )
    accounting: str | None = option(
        None, "mechanism", "top-r with trials: paper, or sharp (less is paid for the same)."
    )
    delta: float | None = option(
        None,
        "mechanism",
        "mistakes: test the condition of its guarantee privately, with this chance of passing "
        "wrongly; epsilon pays for test and release. lasso-stability: of its test.",
    )
    otherwise: str | None = option(
        None,
        "mechanism",
        "mistakes with delta, if the test does not pass: refuse, or exponential (fall back to that "
        "mechanism).",
    )
    at_once: int | None = option(
        None, "mechanism", "stepwise: how many columns a step chooses; 1 if not given."
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelQuestion(Question):
    """The same, and coefficients on what is selected, under one budget."""

    epsilon: float = option(
        1.0,
        "privacy",
        "What selection and coefficients together spend of the privacy budget: the chance of any "
        "answer changes by a factor of at most e^epsilon with one person's row. Smaller protects "
        "more.",
    )
    selection_share: float | None = option(
        None,
        "privacy",
        "The part for the selection (between 0 and 1) of what the offset leaves of epsilon. If not "
        "given 0.5; 0.35 for numbers where epsilon n is below 1000, which under add-remove is by "
        "the schema's rows.",
    )
    offset_share: float | None = option(
        None,
        "privacy",
        "The part of epsilon that buys an offset of all predictions, to which a model falls back "
        "where epsilon is too small for coefficients: the target's centre, or the log odds of the "
        "second class; 0 for none. If not given, 50 / (epsilon n), at least 0.01 and at most 0.9; "
        "under add-remove n is the schema's rows, and without them it is 0.1. It is released, too.",
    )
    delta: float = option(
        0.0,
        "privacy",
        "With delta > 0 the noise on coefficients is Gaussian, and the guarantee has this delta, "
        "too; lasso-stability adds its own.",
    )
    coefficients: str = option(
        "objective-perturbation",
        "coefficients",
        "How coefficients are made private: objective-perturbation, or noisy-statistics (squared "
        "loss).",
    )
    coefficient_loss: Any = option(
        None,
        "coefficients",
        "What they minimise: huber:0.2 if not given, squared for noisy-statistics; for labels "
        "huber_logistic:0.5, or logistic, huber_hinge.",
        str | None,
    )
    coefficient_radius: float | None = option(
        None,
        "coefficients",
        "Largest norm; if not given 2, for squared loss 1, for labels 10.",
    )
    coefficient_ridge: float | None = option(
        None,
        "coefficients",
        "Weight of their squared norm; more is taken where it must be. If not given, as much as "
        "keeps noise small, by epsilon and the number of rows (under add-remove the schema's; 0 "
        "without them).",
    )
