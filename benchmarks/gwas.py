"""Genotypes in linkage blocks, a trait with ten causal variants, and what a selection finds.

`python -m benchmarks.gwas` prints the table of docs/scale.md.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset import SubsetSelector

__all__ = ["cohort", "found", "write_bed"]

CAUSAL = 10
_BLOCK = 10  # variants that are inherited together
_LINK = 0.9  # correlation of neighbours in a block, on the normal scale
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


def found(path: Path, y: Any, causal: list[int], epsilon: float, seed: int) -> tuple[int, int]:
    """Return how many of the causal variants a release holds, and how many of their blocks."""
    selector = SubsetSelector(
        n_features_to_select=CAUSAL,
        epsilon=epsilon,
        bounds_X=(0, 2),
        bounds_y=(-3, 3),
        loss="squared",
        mechanism="stepwise",  # in bounded time, where linked variants make exact draws long
        ridge=100.0,
        random_state=seed,
    ).fit(path, y)
    chosen = selector.get_support(indices=True).tolist()
    blocks = {j // _BLOCK for j in chosen} & {j // _BLOCK for j in causal}
    return len(set(chosen) & set(causal)), len(blocks)


def main(n: int, p: int) -> None:
    """Print a line for every epsilon."""
    X, y, causal = cohort(n, p, heritability=0.5, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cohort.bed"
        write_bed(path, X)
        for epsilon in (1.0, 3.0, 10.0, 30.0):
            began = time.process_time()
            variants, blocks = found(path, y, causal, epsilon, seed=0)
            spent = time.process_time() - began
            print(
                f"n={n} p={p} epsilon={epsilon:g}: {variants} of {CAUSAL} causal variants, "
                f"{blocks} of their blocks; {spent:.1f} CPU s",
                flush=True,
            )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (20_000, 3000))
