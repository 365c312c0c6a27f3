"""The commands `ledger` and `audit`: what was spent, and whether mechanisms keep their word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsubset.cli.ending import errors_as_text
from dpsubset.errors import InputError

if TYPE_CHECKING:
    from dpsubset.audit.campaign import Finding
    from dpsubset.audit.doors import DoorFinding
    from dpsubset.privacy import Ledger

__all__ = ["audit", "show_ledger"]


def show_ledger(
    path: Annotated[Path, typer.Argument(help="The file of the ledger.")],
    epsilon: Annotated[
        float | None, typer.Option(help="Begin a ledger with this budget; it cannot be changed.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Its budget of deltas; 0 if not given.")
    ] = None,
    neighbours: Annotated[
        str | None,
        typer.Option(help="What it is meant for: replace-one if not given, or add-remove."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            help="The name of the file of the table that it is for; if not given, that of the "
            "first one that is charged. Other tables are refused."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Begin a privacy budget in a file, or show what was spent of one, on what.

    `select` and `fit` charge it with --ledger. A ledger is for one table, known by the name of its
    file, and refuses others.
    """
    with errors_as_text():
        from dpsubset.privacy import Ledger

        ledger = Ledger(path, epsilon, delta, neighbours, table)
        if as_json:
            budget = {"epsilon": ledger.epsilon, "delta": ledger.delta}
            content = {
                "table": ledger.table,
                "budget": budget | {"neighbours": ledger.neighbours},
                "spent": dict(zip(("epsilon", "delta"), ledger.spent, strict=True)),
                "history": [entry.to_dict() for entry in ledger.history()],
            }
            typer.echo(json.dumps(content, indent=2))
        else:
            _print_ledger(ledger)


def _print_ledger(ledger: Ledger) -> None:
    from dpsubset.privacy.guarantee import rounded_up
    from dpsubset.privacy.shown import printable

    typer.echo(str(ledger))
    history = ledger.history()
    for entry in history:
        released = entry.released or {}
        names = released.get("columns") or released.get("support") or ()
        shown = ", ".join(printable(str(name)) for name in names)
        unnamed = " (table unnamed)" if entry.table is None else ""
        typer.echo(
            f"{entry.number:>4}  {entry.time}  epsilon {rounded_up(entry.guarantee.epsilon):<8} "
            f"delta {rounded_up(entry.guarantee.delta):<8} {entry.outcome:<9} "
            f"{printable(entry.guarantee.mechanism)}{unnamed}: {shown}"
        )
    conditions = dict.fromkeys(e.guarantee.condition for e in history if e.guarantee.condition)
    for condition in conditions:
        typer.echo(f"What was spent rests on the condition that {condition}.")
    if any(entry.guarantee.randomness == "seeded" for entry in history):
        typer.echo("Some releases were seeded: for experiments only, not private.")


def audit(
    mechanism: Annotated[
        str,
        typer.Option(
            help="permute-and-flip, exponential, top-r, 'top-r, 3 trials', 'mistakes, tested', "
            "'mistakes, else exponential', sample-aggregate, lasso-stability; an estimator or a "
            "method for coefficients: SubsetSelector, 'SubsetSelector, classes found', "
            "SubsetRegressor, SubsetClassifier, objective-perturbation, noisy-statistics, "
            "'CSV files'; or all."
        ),
    ] = "all",
    loss: Annotated[str, typer.Option(help="A loss by its name, or all.")] = "all",
    neighbours: Annotated[str, typer.Option(help="replace-one, add-remove, or all.")] = "all",
    epsilon: Annotated[float, typer.Option(help="The privacy budget that is claimed.")] = 1.0,
    pairs: Annotated[
        int, typer.Option(help="Pairs of neighbouring tables for each combination.")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Of the synthetic tables.")] = 0,
) -> None:
    """Audit mechanisms on synthetic tables: exact distributions, draws, and a replay of the bits.

    No table of yours is read. Exit code 1 if a guarantee is broken.
    """
    with errors_as_text():
        from dpsubset.audit.campaign import AUDITED, LOSSES, campaign
        from dpsubset.audit.doors import DOORS, doors
        from dpsubset.checks import positive, whole
        from dpsubset.privacy import NEIGHBOURS, check_neighbours

        relations = list(NEIGHBOURS) if neighbours == "all" else [check_neighbours(neighbours)]
        options: dict[str, Any] = {
            "pairs": pairs,
            "epsilon": positive(epsilon, "epsilon"),
            "seed": whole(seed, "seed", 0),
        }
        passed = []
        if mechanism not in DOORS:
            names = list(AUDITED) if mechanism == "all" else [mechanism]
            losses = LOSSES if loss == "all" else [loss]
            for finding in campaign(names, losses, relations, **options):
                _print_finding(finding)
                passed.append(finding.passed)
        if mechanism in DOORS or mechanism == "all":
            opened = None if mechanism == "all" else [mechanism]
            only = None if loss == "all" else [loss]
            for door in doors(opened, relations, losses=only, **options):
                _print_door(door)
                passed.append(door.passed)
        if not passed:
            raise InputError(f"{mechanism} has no audit with the loss {loss!r}")
        typer.echo(f"{sum(passed)} of {len(passed)} combinations passed.")
        if not all(passed):
            raise typer.Exit(1)


def _print_door(finding: DoorFinding) -> None:
    said = "passed  " if finding.passed else "VIOLATED"
    typer.echo(
        f"{said}  {finding.door:<29}  {finding.loss:<15}  {finding.neighbours:<11}  "
        f"{finding.pairs:>6} pairs: log ratio {finding.largest:.4f} of {finding.epsilon:.4f}"
    )
    if not finding.passed:
        typer.echo(
            f"    {finding.worst}; {finding.refused} tables refused; one row changed "
            f"{finding.moved} rows"
        )


def _print_finding(finding: Finding) -> None:
    said = "passed  " if finding.passed else "VIOLATED"
    typer.echo(
        f"{said}  {finding.mechanism:<26}  {finding.loss:<12}  {finding.neighbours:<11}  "
        f"{finding.pairs:>6} pairs: log ratio {finding.largest:.4f} of {finding.epsilon:.4f}, "
        f"mass beyond {finding.beyond:.2g} of {finding.delta:.2g}; "
        f"draws: epsilon >= {finding.sampled.epsilon:.3f}, p-value {finding.followed:.2g}"
    )
    for family, violation in finding.violations[:3]:
        typer.echo(f"    family {family}, {violation}")
    for difference in [d for d in finding.replayed.differences if not d.harmless][:3]:
        typer.echo(f"    replay, {difference}")
