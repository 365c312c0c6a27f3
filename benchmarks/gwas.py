"""Genotypes in linkage blocks, a trait with ten causal variants, and what a selection finds.

Age and sex explain a part of the trait, too; they are covariates, which every selection includes.

`python -m benchmarks.gwas 20000 500` prints the table of docs/scale.md: people, variants, and any
epsilons after them. `python -m benchmarks.gwas plan 20000 500` says beforehand what such a cohort
bears, by `dpsubset.plan` and public numbers alone.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpsubset import SubsetSelector, plan
from dpsubset.data import with_covariates
from dpsubset.planning import Plan

__all__ = ["cohort", "covariates", "found", "planned", "write_bed"]

CAUSAL = 10
_BLOCK = 10  # variants that are inherited together
_LINK = 0.9  # correlation of neighbours in a block, on the normal scale
_COVARIATES = {"age": (20.0, 80.0), "sex": (0.0, 1.0)}
_BOUNDS = (-4.0, 4.0)  # of the trait
_ASKED: dict[str, Any] = {
    "loss": "squared",
    "mechanism": "stepwise",  # in bounded time, where linked variants make exact draws long
    "ridge": 100.0,
    "always_include": list(_COVARIATES),
}
_CODE = np.array([0b11, 0b10, 0b00], dtype=np.uint8)  # of 0, 1 and 2 copies


def cohort(n: int, p: int, heritability: float, seed: int) -> tuple[Any, Any, list[int]]:
    """Return genotypes (people, variants), a trait of variance 1, and its causal variants."""
    rng = np.random.default_rng(seed)
    often = rng.uniform(0.05, 0.5, p)  # of the minor allele
    X = np.empty((n, p), dtype=np.uint8)
    for first in range(0, p, _BLOCK):
        width = min(_BLOCK, p - first)
        copies = np.zeros((n, width), dtype=np.uint8)
        for _ in range(2):  # one chromosome from each parent
            z = rng.normal(size=(n, width))
            for j in range(1, width):
                z[:, j] = _LINK * z[:, j - 1] + np.sqrt(1 - _LINK**2) * z[:, j]
            cut = np.quantile(z, 1 - often[first : first + width], axis=0).diagonal()
            copies += z > cut
        X[:, first : first + width] = copies
    causal = sorted(rng.choice(p // _BLOCK, CAUSAL, replace=False) * _BLOCK + _BLOCK // 2)
    G = X[:, causal].astype(np.float64)
    effect = (G - G.mean(axis=0)) / G.std(axis=0) @ rng.choice([-1.0, 1.0], CAUSAL)
    effect *= np.sqrt(heritability / CAUSAL)
    return X, effect + np.sqrt(1 - heritability) * rng.normal(size=n), [int(j) for j in causal]


def covariates(n: int, seed: int) -> tuple[pl.DataFrame, NDArray[np.float64]]:
    """Return age and sex of the people, and what they add to the trait: a quarter of its variance.

    They are independent of the genotypes.
    """
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {"age": rng.uniform(20, 80, n), "sex": rng.integers(0, 2, n).astype(float)}
    )
    age, sex = (frame[name].to_numpy() for name in ("age", "sex"))
    return frame, 0.4 * (age - 50) / 17.3 + 0.6 * (sex - 0.5)


def write_bed(path: Path, X: NDArray[np.uint8]) -> None:
    """Write genotypes as PLINK does: .bed, .bim and .fam."""
    n, p = X.shape
    codes = np.zeros((p, -(-n // 4) * 4), dtype=np.uint8)
    codes[:, :n] = _CODE[X.T]
    four = codes.reshape(p, -1, 4)
    packed = four[:, :, 0] | four[:, :, 1] << 2 | four[:, :, 2] << 4 | four[:, :, 3] << 6
    path.write_bytes(b"\x6c\x1b\x01" + packed.tobytes())
    path.with_suffix(".bim").write_text("".join(f"1 rs{j} 0 {j} A G\n" for j in range(p)))
    path.with_suffix(".fam").write_text("".join(f"f i{i} 0 0 0 -9\n" for i in range(n)))


def found(
    path: Path, more: pl.DataFrame, y: Any, causal: list[int], epsilon: float, seed: int
) -> tuple[int, int]:
    """Return how many of the causal variants a release holds, and how many of their blocks."""
    selector = SubsetSelector(
        n_features_to_select=CAUSAL + len(_COVARIATES),
        epsilon=epsilon,
        bounds_X=(0, 2),
        bounds_y=_BOUNDS,
        random_state=seed,
        **_ASKED,
    ).fit(with_covariates(path, more, _COVARIATES), y)
    p = selector.n_features_in_ - len(_COVARIATES)
    chosen = [j for j in selector.get_support(indices=True).tolist() if j < p]
    blocks = {j // _BLOCK for j in chosen} & {j // _BLOCK for j in causal}
    return len(set(chosen) & set(causal)), len(blocks)


def planned(n: int, p: int, tables: int = 2, draws: int = 10, epsilon: float = 3.0) -> Plan:
    """Say what epsilon a cohort needs; variants are independent here, and all alike.

    Of the trait's variance of 1.25 covariates explain a fifth, and causal variants two fifths.
    """
    schema = {
        "columns": {"age": [20, 80], "sex": "0/1", "rs*": [0, 2]},
        "target": {"name": "trait", "bounds": list(_BOUNDS)},
    }
    return plan(
        schema,
        rows=n,
        features=p + len(_COVARIATES),
        size=CAUSAL + len(_COVARIATES),
        epsilon=epsilon,
        signals=[0.4],
        included_signal=0.2,
        spread=0.3,
        models=False,
        tables=tables,
        draws=draws,
        seconds=600.0,
        **_ASKED,
    )


def main(n: int, p: int, epsilons: Sequence[float]) -> None:
    """Print a line for every epsilon."""
    X, trait, causal = cohort(n, p, heritability=0.5, seed=1)
    more, added = covariates(n, seed=2)
    y = trait + added
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cohort.bed"
        write_bed(path, X)
        for epsilon in epsilons:
            began = time.process_time()
            variants, blocks = found(path, more, y, causal, epsilon, seed=0)
            spent = time.process_time() - began
            print(
                f"n={n} p={p} epsilon={epsilon:g}: {variants} of {CAUSAL} causal variants, "
                f"{blocks} of their blocks; {spent:.1f} CPU s",
                flush=True,
            )


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["plan"]:
        print(planned(*(int(word) for word in given[1:3] or ("20000", "500"))))
        sys.exit()
    people, variants = (int(word) for word in given[:2]) if given else (20_000, 500)
    main(people, variants, [float(word) for word in given[2:]] or [1.0, 3.0, 10.0, 30.0])
