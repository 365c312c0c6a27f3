"""One source of randomness in several hands: processes, threads and copies never draw the same.

Numbers drawn twice would let whoever sees two releases take their noise away. Each way has a twin:
a source that keeps words for later, as ours once did, must be caught.
"""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from dpsubset.privacy import Randomness, as_randomness
from dpsubset.privacy import randomness as module
from dpsubset.privacy.noise import add_laplace

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
Numbers = list[float]


def fresh(count: int) -> Any:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class Keeping(module._System):
    """The twin: reads 1024 words at once, and keeps those that are not asked for."""

    def __init__(self) -> None:
        self.kept = np.empty(0, dtype=np.uint64)

    def words(self, count: int) -> Any:
        if count > self.kept.size:
            self.kept = fresh(max(count, 1024))
        out, self.kept = self.kept[:count], self.kept[count:]
        return out


def kept_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_System", Keeping)


def drawn(source: Randomness) -> Numbers:
    """Draw in every way: of each, the chance that two draws agree is below 1e-9."""
    return [
        *source.uniforms(2).tolist(),
        *source.exponentials(2).tolist(),
        *source.normals(1).tolist(),
        float(source.below(2**50)),
        float(source.belows(2**50, 1)[0]),
    ]


def common(draws: list[Numbers]) -> list[float]:
    """Return the numbers that were drawn more than once."""
    every = [number for numbers in draws for number in numbers]
    return sorted({number for number in every if every.count(number) > 1})


# Processes --------------------------------------------------------------------------------------


@contextmanager
def forking() -> Iterator[None]:
    """Let newer versions of Python fork without a warning: the children only draw and write."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        yield


def in_a_fork(act: Callable[[], Any]) -> Any:
    """Do something in a child of this process, and return what came of it."""
    reading, writing = os.pipe()
    with forking():
        child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(act()).encode())
        finally:
            os._exit(0)  # no test goes on in the child
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text)


def by_fork(source: Randomness, draw: Callable[[Randomness], Numbers] = drawn) -> list[Numbers]:
    """Draw here, in two children, in a grandchild, and here again."""
    here = [draw(source)]  # what is read ahead is read now

    def with_a_child_of_its_own() -> list[Numbers]:
        return [in_a_fork(lambda: draw(source)), draw(source)]

    first, others = in_a_fork(lambda: draw(source)), in_a_fork(with_a_child_of_its_own)
    return [*here, first, *others, draw(source)]


def by_multiprocessing(source: Randomness) -> list[Numbers]:
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    here = [drawn(source)]
    children = [context.Process(target=lambda: queue.put(drawn(source))) for _ in range(2)]
    with forking():
        for child in children:
            child.start()
    found = [queue.get() for _ in children]
    for child in children:
        child.join()
    return [*here, *found, drawn(source)]


WAYS = {"fork": by_fork, "multiprocessing": by_multiprocessing}


@FORKS
@pytest.mark.parametrize("way", list(WAYS))
def test_processes_with_one_source_draw_different_numbers(way: str) -> None:
    draws = WAYS[way](as_randomness(None))
    assert len(draws) >= 4
    assert common(draws) == []


@FORKS
@pytest.mark.parametrize("way", list(WAYS))
def test_words_kept_across_a_fork_are_noticed(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_for_later(monkeypatch)
    assert len(common(WAYS[way](as_randomness(None)))) >= 4


@FORKS
def test_a_seed_repeats_in_a_fork() -> None:
    """As was asked for: such draws are for experiments, and their guarantee says so."""
    source = as_randomness(3)
    assert in_a_fork(lambda: drawn(source)) == in_a_fork(lambda: drawn(source))


@FORKS
def test_noise_of_opendp_differs_between_processes() -> None:
    pytest.importorskip("opendp")

    def noise(source: Randomness) -> Numbers:
        return add_laplace(np.zeros(2), 1.0, 1e-12, source).tolist()

    assert common(by_fork(as_randomness(None), noise)) == []


# Copies and threads -----------------------------------------------------------------------------


def by_copies(source: Randomness) -> list[Numbers]:
    first = drawn(source)
    pickled = pickle.loads(pickle.dumps(source))
    copies = [copy.copy(source), copy.deepcopy(source), copy.deepcopy(source), pickled]
    return [first, drawn(source), *map(drawn, copies)]


def test_copies_draw_different_numbers() -> None:
    assert common(by_copies(as_randomness(None))) == []


def test_words_kept_in_copies_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_for_later(monkeypatch)
    assert common(by_copies(as_randomness(None)))


def by_threads(source: Randomness) -> list[Numbers]:
    start = threading.Barrier(4)

    def work(_: int) -> Numbers:
        start.wait()
        return [number for _ in range(200) for number in source.uniforms(2).tolist()]

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(work, range(4)))


def test_threads_with_one_source_draw_different_numbers() -> None:
    assert common(by_threads(as_randomness(None))) == []


def test_threads_that_share_words_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes its words before another has put the rest back."""
    together = threading.Barrier(4)

    class Racing(Keeping):
        def __init__(self) -> None:
            self.kept = fresh(10_000)

        def words(self, count: int) -> Any:
            kept = self.kept
            together.wait()
            self.kept = kept[count:]
            together.wait()
            return kept[:count]

    monkeypatch.setattr(module, "_System", Racing)
    assert common(by_threads(as_randomness(None)))


def test_the_source_keeps_nothing() -> None:
    source = as_randomness(None)
    drawn(source)
    assert vars(source) == {"_bits": source._bits, "seeded": False}
    assert vars(source._bits) == {}
