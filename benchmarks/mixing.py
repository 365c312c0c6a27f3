"""How far a Markov chain is from its stationary distribution.

Exactly where all supports can be listed; by draws where they cannot. All of it depends on the
data: for experiments, never part of a release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import beta

from benchmarks.measured import clipped_table, problem_of
from dpsubset.arrays import Floats
from dpsubset.checks import whole
from dpsubset.errors import InputError
from dpsubset.mechanisms.exponential import Exponential
from dpsubset.mechanisms.markov_chain import MarkovChain
from dpsubset.privacy import as_randomness
from dpsubset.problem import Problem

__all__ = ["Apart", "acceptance_rate", "apart", "distances", "transition_matrix"]

_MOST = 20_000_000  # entries of a transition matrix
_DRAWS = 2000

Supports = NDArray[np.int64]
Seed = int | np.random.Generator


def acceptance_rate(
    mechanism: MarkovChain, problem: Problem, random_state: Seed, chains: int = 1
) -> float:
    """Return the share of proposed swaps that were taken, over some chains.

    >>> import numpy as np
    >>> problem = Problem(np.eye(4), np.zeros(4), size=2, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> acceptance_rate(MarkovChain(1.0, steps=50), problem, 0)
    1.0
    """
    _, accepted = mechanism._chains(
        problem, whole(chains, "chains", 1), as_randomness(random_state)
    )
    return float(accepted.sum()) / max(1, chains * mechanism.steps)


def transition_matrix(
    mechanism: MarkovChain, problem: Problem
) -> tuple[Supports, Floats, sp.csr_array]:
    """Return all supports, the stationary distribution, and the chances of steps between them.

    >>> import numpy as np
    >>> problem = Problem(np.eye(3), np.ones(3), size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> transition_matrix(MarkovChain(1.0), problem)[2].toarray()
    array([[0. , 0.5, 0.5],
           [0.5, 0. , 0.5],
           [0.5, 0.5, 0. ]])
    """
    t, f = problem.to_choose, problem.free.size
    swaps = t * (f - t)
    if problem.n_supports * max(swaps, 1) > _MOST:
        raise InputError(
            f"a transition matrix has at most {_MOST} entries; this problem's has "
            f"{problem.n_supports * swaps}: take fewer columns or a smaller size"
        )
    supports, logs = mechanism.probabilities(problem)
    n = len(supports)
    rows, columns = _pairs(problem, supports)
    chances = np.exp(np.minimum(0.0, logs[columns] - logs[rows])) / max(swaps, 1)
    leaving = np.bincount(rows, weights=chances, minlength=n)
    moves = sp.coo_array((chances, (rows, columns)), shape=(n, n))
    stays = sp.dia_array((np.maximum(1.0 - leaving, 0.0)[None], [0]), shape=(n, n))
    return supports, np.exp(logs), sp.csr_array(moves + stays)


def _pairs(problem: Problem, supports: Supports) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the numbers of all supports that differ by one swap.

    Supports that share all but one column are one swap apart: group them by what is left.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    included = set(problem.include)
    for number, row in enumerate(supports.tolist()):
        for place, column in enumerate(row):
            if column not in included:
                groups.setdefault((*row[:place], *row[place + 1 :]), []).append(number)
    pairs = [(i, j) for group in groups.values() for i in group for j in group if i != j]
    both = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def distances(
    mechanism: MarkovChain,
    problem: Problem,
    steps: Iterable[int],
    start: Iterable[int] | None = None,
) -> dict[int, float]:
    """Return the total variation distance from the stationary distribution after so many steps.

    `start` is the support that the chain begins at; None is a uniform one.

    >>> import numpy as np
    >>> problem = Problem(np.eye(4), np.ones(4), size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> near = distances(MarkovChain(1.0), problem, [0, 1, 8], start=[2])
    >>> {t: round(d, 4) for t, d in near.items()}
    {0: 0.75, 1: 0.25, 8: 0.0001}
    """
    wanted = sorted({whole(t, "steps", 0) for t in steps})
    supports, law, matrix = transition_matrix(mechanism, problem)
    now = np.full(len(law), 1.0 / len(law))
    if start is not None:
        here = np.flatnonzero((supports == np.sort(np.array(list(start)))).all(axis=1))
        if here.size != 1:
            raise InputError("start must list the columns of one support of this problem")
        now[:] = 0.0
        now[here] = 1.0
    out, taken = {}, 0
    backwards = sp.csr_array(matrix.T)
    for t in wanted:
        for _ in range(t - taken):
            now = backwards @ now
        taken = t
        out[t] = float(0.5 * np.abs(now - law).sum())
    return out


@dataclass(frozen=True)
class Apart:
    """A lower bound on a total variation distance, wrong with probability at most 1 - confidence.

    The event was chosen on one half of the draws and counted on the other.
    """

    at_least: float
    confidence: float
    event: str
    share_of_chain: float
    share_of_exact: float


def apart(
    mechanism: MarkovChain,
    problem: Problem,
    draws: int,
    random_state: Seed,
    confidence: float = 0.99,
) -> Apart:
    """Bound the chain's distance from the exact distribution from below, by draws of both.

    >>> import numpy as np
    >>> X = np.vstack([np.eye(30)] * 40); y = X[:, 0]
    >>> problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> found = apart(MarkovChain(5.0, steps=3), problem, 400, random_state=0)
    >>> found.at_least > 0.5, found.confidence
    (True, 0.99)
    """
    draws = whole(draws, "draws", 4)
    if not (isinstance(confidence, float) and 0.0 < confidence < 1.0):
        raise InputError(f"confidence must be a number between 0 and 1, not {confidence!r}")
    if mechanism.ball != "l2":
        raise InputError("there is no exact sampler for ball='l1'; use `distances`, or ball='l2'")
    rng = np.random.default_rng(random_state)
    exact = Exponential(
        mechanism.epsilon, neighbours=mechanism.neighbours, sensitivity=mechanism.sensitivity
    )
    ours, theirs = (m.draw(problem, draws, rng) for m in (mechanism, exact))
    half = draws // 2
    names, seen = _events(problem, ours, theirs, half)
    shares = [np.array([event[:half].mean() for event in side]) for side in seen]
    best = int(np.argmax(np.abs(shares[0] - shares[1])))
    counts = [int(side[best][half:].sum()) for side in seen]
    rest, error = draws - half, (1.0 - confidence) / 2
    low, high = counts if shares[0][best] < shares[1][best] else counts[::-1]
    bound = _lower(high, rest, error) - _upper(low, rest, error)
    return Apart(max(0.0, bound), confidence, names[best], counts[0] / rest, counts[1] / rest)


def _lower(count: int, total: int, error: float) -> float:
    """Return Clopper and Pearson's lower bound on a probability."""
    return float(beta.ppf(error, count, total - count + 1)) if count else 0.0


def _upper(count: int, total: int, error: float) -> float:
    return 1.0 - _lower(total - count, total, error)


def _events(
    problem: Problem, ours: Supports, theirs: Supports, half: int
) -> tuple[list[str], list[list[NDArray[np.bool_]]]]:
    """Return events that may tell the distributions apart, and which draws fall into them.

    Events may depend on the first half of the draws, and on the table, but not on the second.
    """
    first = np.vstack([ours[:half], theirs[:half]])
    scores = [_scores(problem, side) for side in (ours, theirs)]
    levels = np.unique(np.concatenate([s[:half] for s in scores]))
    names, seen = [], []
    for level in levels[:: max(1, levels.size // 200)]:
        names.append("a score of at most a level")
        seen.append([s <= level for s in scores])
    for column, mark in _marks(problem, first):
        names.append(f"{mark} {column}")
        seen.append([_holds(side, column) for side in (ours, theirs)])
    return names, [[both[i] for both in seen] for i in (0, 1)]


def _marks(problem: Problem, first: Supports) -> Iterator[tuple[Any, str]]:
    for column in np.setdiff1d(first, problem.include).tolist():
        yield column, "column"
    rows, counts = np.unique(first, axis=0, return_counts=True)
    for row in rows[np.argsort(-counts, kind="stable")[:20]].tolist():
        yield tuple(row), "support"


def _holds(draws: Supports, mark: Any) -> NDArray[np.bool_]:
    if isinstance(mark, tuple):
        return np.asarray((draws == np.array(mark)).all(axis=1))
    return np.asarray((draws == mark).any(axis=1))


def _scores(problem: Problem, draws: Supports) -> Floats:
    rows, place = np.unique(draws, axis=0, return_inverse=True)
    return np.array([problem.score(row) for row in rows.tolist()])[place.ravel()]


def main() -> None:
    """Print a table: how far the chain is from its distribution at the paper's settings."""
    settings = [
        (p, n, ridge, steps, start)
        for p, n, ridge, steps in (
            (100, 3000, 120.0, 1000),
            (100, 5000, 120.0, 1000),
            (100, 8000, 120.0, 1000),
            (100, 5000, 120.0, 5000),
            (1000, 5000, 250.0, 8000),
        )
        for start in ("random", "marginal")
    ]
    print(
        "| p, n | steps | start | swaps taken | true support, chain | exact | distance at least |"
    )
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: |")
    for p, n, ridge, steps, start in settings:
        X, y = clipped_table(n, p)
        problem = problem_of(X, y, 5, ridge)
        chain = MarkovChain(1.0, steps=steps, start=start)
        found = apart(chain, problem, _DRAWS, random_state=1)
        taken = acceptance_rate(chain, problem, 2, chains=20)
        truth = np.arange(0, 10, 2)
        shares = [
            (m.draw(problem, _DRAWS, random_state=3) == truth).all(axis=1).mean()
            for m in (chain, Exponential(1.0))
        ]
        print(
            f"| {p}, {n} | {steps} | {start} | {taken:.1%} | {shares[0]:.2f} | {shares[1]:.2f} | "
            f"{found.at_least:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
