"""Pictures from Python: plans, ledgers and models, each as a figure of matplotlib.

A figure shows itself in a notebook; `figure.savefig("plan.png")` writes it. Each shows what is in
the thing that it is given, no more.
"""

from __future__ import annotations

from typing import Any

from dpsubset.errors import InputError
from dpsubset.model_file import LinearModel
from dpsubset.planning.pictures import answer_figure, figure_of, plan_figure
from dpsubset.planning.plans import Plan
from dpsubset.planning.rows import Answer
from dpsubset.planning.simulate import Setting
from dpsubset.privacy.ledger import LedgerLike, as_ledger
from dpsubset.privacy.shown import printable

__all__ = ["ledger", "model", "plan"]

_BLUE, _GREEN, _GREY = "#0072B2", "#009E73", "#BBBBBB"


def plan(answer: Plan | Answer, setting: Setting | None = None) -> Any:
    """Draw a plan: how often the right columns are released, over rows or epsilon.

    Parameters
    ----------
    answer : Plan or Answer
        What `dpsubset.plan` or `dpsubset.planning.rows_for` found.
    setting : Setting, optional
        What `rows_for` was asked for; a plan knows it.

    Returns
    -------
    matplotlib.figure.Figure
        The picture.

    Examples
    --------
    >>> from dpsubset.planning import Answer, Setting
    >>> answer = Answer(256, 0.9, {128: 0.5, 256: 0.95})
    >>> plan(answer, Setting("huber:0.2", 1.0, 10.0)).axes[0].get_xlabel()
    'rows'
    """
    if isinstance(answer, Plan):
        return plan_figure(answer)
    if setting is None:
        raise InputError("give the Setting that rows_for was asked for, too")
    return answer_figure(answer, setting)


def ledger(given: LedgerLike) -> Any:
    """Draw what was left of a budget after each entry of its ledger.

    Refused and failed entries are spent, too; that they were refused depends on the data, so a
    picture of them is for the owner and for auditors.

    Parameters
    ----------
    given : Ledger or path
        The ledger.

    Returns
    -------
    matplotlib.figure.Figure
        The picture.

    Examples
    --------
    >>> import tempfile
    >>> from dpsubset import Ledger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger(Ledger(f"{folder}/budget.db", epsilon=3.0)).axes[0].get_ylabel()
    'epsilon left'
    """
    opened = as_ledger(given)
    if opened is None:
        raise InputError("there is no ledger to draw: give a Ledger or the path of one")
    history, whole = opened.history(), opened.epsilon
    left = [whole]
    for entry in history:
        left.append(left[-1] - entry.guarantee.epsilon)
    picture, place = figure_of(6.4, 3.4)
    places = range(len(left))
    place.step(places, left, where="post", color=_BLUE)
    for number, entry in enumerate(history, start=1):
        filled = _BLUE if entry.outcome == "released" else "white"
        place.plot(number, left[number], "o", color=_BLUE, markerfacecolor=filled)
    place.axhline(0.0, color=_GREY, linewidth=0.8)
    shown = range(0, len(left), max(1, len(left) // 12))
    place.set_xticks(
        list(shown), ["begin" if i == 0 else str(history[i - 1].number) for i in shown]
    )
    place.set_ylim(-0.03 * whole, 1.05 * whole)
    place.set_xlabel("entry (hollow: nothing was released)")
    place.set_ylabel("epsilon left")
    name = "table not named" if opened.table is None else printable(opened.table)
    place.set_title(_plain(f"{name}: epsilon {whole:.12g}"), fontsize=10)
    return picture


def model(given: LinearModel) -> Any:
    """Draw the coefficients of a released model, in the units of its columns.

    Their private uncertainty is not drawn: no method here releases one.

    Parameters
    ----------
    given : LinearModel
        What `Model.release` returned, or `dpsubset.model_file.read_model` read.

    Returns
    -------
    matplotlib.figure.Figure
        The picture.

    Examples
    --------
    >>> from dpsubset.model_file import LinearModel
    >>> picture = model(LinearModel("cost", ("age", "dose"), (2.0, -1.0), 0.5))
    >>> [label.get_text() for label in picture.axes[0].get_yticklabels()]
    ['dose', 'age']
    """
    if not isinstance(given, LinearModel):
        raise InputError("a picture of a model needs what Model.release or read_model returned")
    names = [_plain(printable(name)) for name in given.labels][::-1]
    picture, place = figure_of(6.4, 1.2 + 0.3 * max(3, len(names)))
    rows = list(range(len(names)))
    place.barh(rows, given.coefficients[::-1], color=_GREEN, height=0.6)
    place.axvline(0.0, color="black", linewidth=0.8)
    place.set_yticks(rows, names)
    place.set_xlabel(_plain(printable(given.target or "target")) + " for one unit more")
    epsilon = given.guarantee.get("epsilon")
    told = "" if epsilon is None else f", epsilon {epsilon:.6g}"
    place.set_title(f"intercept {given.intercept:.6g}{told}", fontsize=10)
    return picture


def _plain(text: str) -> str:
    """Return a text in which a dollar is no formula."""
    return text.replace("$", r"\$")
