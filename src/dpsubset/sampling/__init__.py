"""Sampling: exact draws over all supports without listing them (T13 to T16)."""

ENUMERATION_LIMIT = 20_000  # problems with fewer supports are listed: it is faster
