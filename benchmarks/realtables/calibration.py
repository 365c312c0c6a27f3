"""Ask `plan` about the real tables, and compare with what happened.

`python -m benchmarks.realtables.calibration` writes foretold.jsonl; the page shows it.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.optimize import brentq
from scipy.special import expit

from benchmarks.realtables.run import EPSILONS, RESULTS
from benchmarks.realtables.tables import TABLES
from dpsubset.data import Schema
from dpsubset.planning import plan
from dpsubset.planning.quality import auc

__all__ = ["FORETOLD", "compare", "main", "signal_of_auc"]

FORETOLD = Path(__file__).with_name("foretold.jsonl")
# What `plan` is asked with; by default it judges models on tables more like real ones.
WORLDS: dict[str, dict[str, Any]] = {
    "default": {},
}
_SIGNALS = (0.02, 0.95)


def signal_of_auc(wanted: float, balance: float) -> float:
    """Return the strength of a normal signal in log odds whose chances have that AUC."""
    z = np.random.default_rng(0).standard_normal(20_000)
    uniform = np.random.default_rng(1).random(z.size)

    def of(signal: float) -> float:
        odds = math.sqrt(math.pi**2 / 3 * signal / (1 - signal)) * z
        shift = brentq(lambda b: float(expit(odds + b).mean()) - balance, -60, 60)
        return auc(uniform < expit(odds + shift), odds)

    low, high = _SIGNALS
    if wanted <= of(low):
        return low
    if wanted >= of(high):
        return high
    return float(brentq(lambda s: of(s) - wanted, low, high, xtol=1e-3))


def _medians() -> dict[tuple[str, str, Any], float]:
    values: dict[tuple[str, str, Any], list[float]] = {}
    for line in RESULTS.read_text().splitlines():
        row = json.loads(line)
        if "quality" in row:
            key = row["table"], row["method"], row["epsilon"]
            values.setdefault(key, []).append(row["quality"])
    return {key: float(np.median(found)) for key, found in values.items()}


def _balance(name: str) -> float:
    _, y, schema = TABLES[name].read()
    values = y.cast(str).to_numpy()
    second = str((schema.target.classes or (0, 1))[1])
    return float(np.mean((values == second) | (values == f"{second}.0")))


def main() -> None:
    """Ask plan about every table of the comparison that it has not been asked about."""
    medians = _medians()
    done = set()
    if FORETOLD.exists():
        rows_done = [json.loads(line) for line in FORETOLD.read_text().splitlines()]
        done = {(r["world"], r["table"]) for r in rows_done}
    known = [t for t in TABLES if (t, "best subset", None) in medians]
    todo = [(w, t) for w in WORLDS for t in known if (w, t) not in done]
    for world, name in track(todo, "foretelling", console=Console(stderr=True)):
        schema = Schema.read_toml(TABLES[name].path)
        labels = schema.target.limits is None
        ceiling = medians[name, "best subset", None]
        balance = _balance(name) if labels else 0.5
        signal = signal_of_auc(ceiling, balance) if labels else min(0.95, max(0.02, ceiling))
        rows = round(0.7 * TABLES[name].load().height)
        found = plan(
            schema,
            rows=rows,
            size=min(5, schema.n_columns - 1),
            signals=[signal],
            balance=balance,
            tables=3,
            draws=1,
            seconds=60.0,
            **WORLDS[world],
        )
        row: dict[str, Any] = {"world": world, "table": name, "labels": labels, "signal": signal}
        row |= {"balance": balance, "rows": rows}
        row["points"] = [point.to_dict() for point in found.points]
        with FORETOLD.open("a") as file:
            file.write(json.dumps(row) + "\n")


def _reached(at: list[float], quality: list[float], wanted: float) -> float | None:
    """Return where a curve reaches a height and stays there, on a logarithmic axis."""
    above = [q >= wanted for q in quality]
    if not above[-1]:
        return None
    k = len(above) - 1
    while k and above[k - 1]:
        k -= 1
    if not k:
        return at[0]
    part = (wanted - quality[k - 1]) / (quality[k] - quality[k - 1])
    return float(at[k - 1] * (at[k] / at[k - 1]) ** part)


def compare(world: str) -> list[tuple[str, float | None, float | None]]:
    """Return tables with the epsilon foretold, and seen, for half of the best subset's quality."""
    medians, out = _medians(), []
    for line in FORETOLD.read_text().splitlines():
        row = json.loads(line)
        if row["world"] != world:
            continue
        name, points = row["table"], row["points"]
        nothing = 0.5 if row["labels"] else 0.0  # what no model has
        foretold = _reached(
            [p["epsilon"] for p in points],
            [p["quality"] for p in points],
            (nothing + points[-1]["best"]) / 2,
        )
        at = [e for e in sorted(EPSILONS) if (name, "ours", e) in medians]
        ceiling = medians[name, "best subset", None]
        seen = _reached(at, [medians[name, "ours", e] for e in at], (nothing + ceiling) / 2)
        out.append((name, foretold, seen))
    return out


if __name__ == "__main__":
    main()
