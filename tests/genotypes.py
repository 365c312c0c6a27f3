"""Small .bed files of PLINK, written byte by byte from its description."""

from __future__ import annotations

from pathlib import Path

import numpy as np

CODE = {2.0: 0b00, 1.0: 0b10, 0.0: 0b11}  # copies of the first allele; 0b01 is missing


def write_bed(path: Path, copies: np.ndarray) -> None:
    """Write people (rows) times variants (columns); NaN is missing."""
    n, p = copies.shape
    columns = bytearray(b"\x6c\x1b\x01")
    for j in range(p):
        for start in range(0, n, 4):
            byte = 0
            for k, value in enumerate(copies[start : start + 4, j].tolist()):
                byte |= CODE.get(value, 0b01) << (2 * k)
            columns.append(byte)
    path.write_bytes(bytes(columns))
    path.with_suffix(".bim").write_text("".join(f"1 rs{j} 0 {j} A G\n" for j in range(p)))
    path.with_suffix(".fam").write_text("".join(f"f i{i} 0 0 0 -9\n" for i in range(n)))


def genotypes(n: int, p: int, seed: int = 0, missing: float = 0.05) -> np.ndarray:
    rng = np.random.default_rng(seed)
    copies = rng.binomial(2, rng.uniform(0.1, 0.5, p), (n, p)).astype(np.float64)
    copies[rng.uniform(size=(n, p)) < missing] = np.nan
    return copies
