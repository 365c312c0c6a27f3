"""`dpsubset audit`: do mechanisms, estimators and methods keep their guarantees?"""

from __future__ import annotations

import json
import math
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import ending
from dpsubset.errors import InputError

if TYPE_CHECKING:
    from dpsubset.audit.campaign import Finding
    from dpsubset.audit.doors import DoorFinding

__all__ = ["audit"]


def audit(
    mechanism: Annotated[
        str,
        typer.Option(
            help="permute-and-flip, exponential, top-r, 'top-r, 3 trials', 'mistakes, tested', "
            "'mistakes, else exponential', stepwise, sample-aggregate, lasso-stability; each of "
            "them with groups of columns, such as 'exponential, groups'; the first two and "
            "stepwise with an open size, such as 'exponential, size auto'; an estimator or a "
            "method for coefficients: SubsetSelector, 'SubsetSelector, classes found', "
            "SubsetRegressor, SubsetClassifier, 'SubsetRegressor, defaults', 'SubsetClassifier, "
            "defaults', objective-perturbation, noisy-statistics, "
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
    as_json: options.Json = False,
) -> None:
    """Audit mechanisms on synthetic tables: exact distributions, draws, and a replay of the bits.

    Example: dpsubset audit --mechanism permute-and-flip

    No table of yours is read. Exit code 1 if a guarantee is broken.
    """
    with ending(as_json):
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
        passed, told = [], []
        if mechanism not in DOORS:
            names = list(AUDITED) if mechanism == "all" else [mechanism]
            losses = LOSSES if loss == "all" else [loss]
            for finding in campaign(names, losses, relations, **options):
                told.append(_told(finding))
                if not as_json:
                    _print_finding(finding)
                passed.append(finding.passed)
        if mechanism in DOORS or mechanism == "all":
            opened = None if mechanism == "all" else [mechanism]
            only = None if loss == "all" else [loss]
            for door in doors(opened, relations, losses=only, **options):
                told.append(_told(door))
                if not as_json:
                    _print_door(door)
                passed.append(door.passed)
        if not passed:
            raise InputError(f"{mechanism} has no audit with the loss {loss!r}")
        if as_json:
            typer.echo(json.dumps({"passed": all(passed), "findings": told}, indent=2))
        else:
            typer.echo(f"{sum(passed)} of {len(passed)} combinations passed.")
        if not all(passed):
            raise typer.Exit(1)


def _told(finding: Finding | DoorFinding) -> dict[str, Any]:
    """Return the plain values of a finding, and whether it passed."""
    values = {name: value for name, value in vars(finding).items() if not is_dataclass(value)}
    plain = {name: value for name, value in values.items() if isinstance(value, str | int | float)}
    return {n: None if v == math.inf else v for n, v in plain.items()} | {"passed": finding.passed}


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
