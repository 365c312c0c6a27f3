"""The version of dpsubset, in one place."""

__version__ = "0.1.0"
