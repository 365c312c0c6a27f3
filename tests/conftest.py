"""Tiers: `make test` runs what a change usually breaks, `make test-slow` the rest.

`@pytest.mark.slow` puts a test into the second tier. `@pytest.mark.grid(every=8)` does so with the
cases of a large grid, but for every eighth: the first tier keeps a sample of each grid. With `of=3`
a grid is thinned out first: of all its cases only every third is run at all, the same ones always.
Strides are best primed to the lengths of the axes, so that every value of each comes up.
"""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: runs in `make test-slow` only")
    config.addinivalue_line(
        "markers", "grid(every, of=1): every so many of all cases are run, all but some are slow"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seen: Counter[str] = Counter()
    kept, left_out = [], []
    for item in items:
        mark = item.get_closest_marker("grid")
        if mark is not None:
            function = item.nodeid.partition("[")[0]
            place, of = seen[function], mark.kwargs.get("of", 1)
            seen[function] += 1
            if place % of:
                left_out.append(item)
                continue
            if (place // of) % mark.kwargs["every"]:
                item.add_marker(pytest.mark.slow)
        kept.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
