"""dpsubset."""
