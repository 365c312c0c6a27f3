"""Tiers: `make test` runs what a change usually breaks, `make test-slow` the rest.

`@pytest.mark.slow` puts a test into the second tier. `@pytest.mark.grid(every=8)` does so with the
cases of a large grid, but for every eighth: the first tier keeps a sample of each grid.
"""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: runs in `make test-slow` only")
    config.addinivalue_line("markers", "grid(every): all cases but every so many are slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("grid")
        if mark is not None:
            function = item.nodeid.partition("[")[0]
            if seen[function] % mark.kwargs["every"]:
                item.add_marker(pytest.mark.slow)
            seen[function] += 1
