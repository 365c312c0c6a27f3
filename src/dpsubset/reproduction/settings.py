"""Figures, panels and methods as data: `figures.toml` read into plain objects."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from dpsubset.errors import InputError

__all__ = ["Figure", "Method", "Panel", "Settings", "settings"]


@dataclass(frozen=True)
class Method:
    """A mechanism with its options; what is None is the panel's."""

    name: str
    label: str
    colour: str
    mechanism: str
    options: dict[str, Any] = field(default_factory=dict)
    drawn: bool = True
    loss: str | None = None
    bound: float | None = None
    ridge: float | None = None


@dataclass(frozen=True)
class Panel:
    """One plot: a setting, and the values of one of its parameters."""

    name: str
    title: str
    kind: str
    axis: str
    values: tuple[float, ...]
    quick: tuple[float, ...]
    methods: tuple[str, ...]
    columns: int
    rows: int
    size: int
    snr: float
    rho: float
    epsilon: float
    loss: str
    ridge: float
    bound: float
    radius: float
    steps: int

    def at(self, value: float) -> Panel:
        """Return the panel with its axis's parameter at a value.

        >>> settings().panels["ablation-ridge"].at(10).ridge
        10
        """
        changed: dict[str, Any] = {} if self.axis == "count" else {self.axis: value}
        return replace(self, **changed)


@dataclass(frozen=True)
class Figure:
    """Panels, each drawn once for every metric."""

    name: str
    title: str
    panels: tuple[str, ...]
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class Settings:
    """All there is to draw."""

    methods: dict[str, Method]
    panels: dict[str, Panel]
    figures: dict[str, Figure]

    def chosen(self, name: str) -> list[Figure]:
        """Return the figure of that name, or all of them.

        >>> [figure.name for figure in settings().chosen("hinge")]
        ['hinge']
        """
        if name == "all":
            return list(self.figures.values())
        if name not in self.figures:
            raise InputError(f"unknown figure {name!r}; allowed: all, {', '.join(self.figures)}")
        return [self.figures[name]]


@cache
def settings() -> Settings:
    """Read the settings that come with the library."""
    text = files("dpsubset.reproduction").joinpath("figures.toml").read_text()
    given = tomllib.loads(text)
    common = given["defaults"]
    return Settings(
        {name: Method(name, **entry) for name, entry in given["methods"].items()},
        {name: _panel(name, common | entry) for name, entry in given["panels"].items()},
        {
            name: Figure(name, e["title"], tuple(e["panels"]), tuple(e["metrics"]))
            for name, e in given["figures"].items()
        },
    )


def _panel(name: str, entry: dict[str, Any]) -> Panel:
    lists = {key: tuple(entry[key]) for key in ("values", "quick", "methods")}
    return Panel(name=name, **(entry | lists))
