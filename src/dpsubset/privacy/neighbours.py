"""Which tables count as neighbours, and the exponent that a budget buys (T3)."""

from __future__ import annotations

from dpsubset.errors import InputError

__all__ = ["NEIGHBOURS", "check_neighbours", "exponent"]

NEIGHBOURS = {
    "replace-one": "tables that differ in the values of one row",
    "add-remove": "tables of which one has one row more",
}


def check_neighbours(neighbours: str) -> str:
    """Return the relation's name if it is known.

    Parameters
    ----------
    neighbours : str
        A relation's name.

    Returns
    -------
    str
        The same name.

    Examples
    --------
    >>> check_neighbours("add-remove")
    'add-remove'
    """
    if not isinstance(neighbours, str) or neighbours not in NEIGHBOURS:
        raise InputError(
            f"unknown neighbour relation {neighbours!r}; allowed: {', '.join(NEIGHBOURS)}"
        )
    return neighbours


def exponent(epsilon: float, sensitivity: float, neighbours: str) -> float:
    """Return kappa: eps/(2 Delta) under replace-one, eps/Delta under add-remove (T3).

    Parameters
    ----------
    epsilon : float
        The budget.
    sensitivity : float
        How far one row moves a score.
    neighbours : {"replace-one", "add-remove"}
        Which tables count as neighbours.

    Returns
    -------
    float
        The factor of scores in log weights.

    Examples
    --------
    >>> exponent(1.0, 2.0, "replace-one"), exponent(1.0, 2.0, "add-remove")
    (0.25, 0.5)
    """
    factor = 2.0 if check_neighbours(neighbours) == "replace-one" else 1.0
    return epsilon / (factor * sensitivity)
