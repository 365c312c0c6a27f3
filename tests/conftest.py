"""Tiers: `make test` runs what a change usually breaks, `make test-slow` the rest.

`@pytest.mark.slow` puts a test into the second tier. `@pytest.mark.grid(every=8)` does so with the
cases of a large grid, but for one in eight: the first tier keeps a sample of each grid. With `of=3`
a grid is thinned out first: one in three of its cases is run at all, the same ones always. Which
ones is for `tiers.sample` to say: every value of every axis comes up in what is run, and in the
first tier's sample too if that is long enough.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from tiers import sample, value


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: runs in `make test-slow` only")
    config.addinivalue_line("markers", "plain: slow, but runs as plain Python, too")
    config.addinivalue_line("markers", "large: too much work for plain Python")
    config.addinivalue_line(
        "markers", "grid(every, of=1): one in so many of all cases is run, all but some are slow"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    grids: defaultdict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("grid"):
            grids[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for cases in grids.values():
        mark = cases[0].get_closest_marker("grid")
        axes = [{k: value(v) for k, v in case.callspec.params.items()} for case in cases]
        run, first = sample(axes, **mark.kwargs)
        left_out |= {case for i, case in enumerate(cases) if i not in run}
        for i in set(run) - set(first):
            cases[i].add_marker(pytest.mark.slow)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
