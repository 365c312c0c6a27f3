"""Large .bed files of independent variants, written word by word; a trait with five causal ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["CAUSAL", "write_large_bed"]

CAUSAL = 5
_FIRST_BITS = np.uint64(0x5555555555555555)
_AT_ONCE = 1 << 23  # words of 32 entries that are made together


def _alleles(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.uint64]:
    """Return one bit an entry, set in an eighth, a quarter, or half of a variant's entries."""
    out = rng.integers(0, 1 << 64, shape, dtype=np.uint64)
    for first in (1, 2):  # every third variant is rarer, and every third again
        out[first::3] &= rng.integers(0, 1 << 64, out[first::3].shape, dtype=np.uint64)
    out[2::3] &= rng.integers(0, 1 << 64, out[2::3].shape, dtype=np.uint64)
    return out & _FIRST_BITS


def write_large_bed(path: Path, n: int, p: int, seed: int) -> tuple[NDArray[np.float64], list[int]]:
    """Write .bed, .bim and .fam; return a trait of variance 1, and its causal variants."""
    if n % 4:
        raise ValueError("the number of people must be a multiple of four")
    rng = np.random.default_rng(seed)
    causal = sorted(int(j) for j in rng.choice(p, CAUSAL, replace=False))
    words, width = -(-n // 32), n // 4
    trait = np.zeros(n)
    with path.open("wb") as file:
        file.write(b"\x6c\x1b\x01")
        for first in range(0, p, max(3, _AT_ONCE // words // 3 * 3)):
            last = min(first + max(3, _AT_ONCE // words // 3 * 3), p)
            one, two = (_alleles(rng, (last - first, words)) for _ in range(2))
            low, high = ~(one | two) & _FIRST_BITS, ~(one & two) & _FIRST_BITS
            packed = (low | high << np.uint64(1)).astype("<u8").view(np.uint8)[:, :width]
            file.write(np.ascontiguousarray(packed).data)
            for j in causal:
                if first <= j < last:
                    trait += _standard(packed[j - first], n)
    with path.with_suffix(".bim").open("w") as file:
        for first in range(0, p, 1 << 16):
            some = range(first, min(first + (1 << 16), p))
            file.write("".join(f"1\trs{j}\t0\t{j + 1}\tA\tG\n" for j in some))
    path.with_suffix(".fam").write_text("".join(f"f i{i} 0 0 0 -9\n" for i in range(n)))
    return np.sqrt(0.5 / CAUSAL) * trait + np.sqrt(0.5) * rng.normal(size=n), causal


def _standard(packed: NDArray[np.uint8], n: int) -> NDArray[np.float64]:
    """Return a variant's copies with mean 0 and variance 1."""
    codes = (packed[:, None] >> np.arange(0, 8, 2, dtype=np.uint8) & 3).ravel()[:n]
    copies = np.array([2.0, 1.0, 1.0, 0.0])[codes]
    return np.asarray((copies - copies.mean()) / copies.std())
