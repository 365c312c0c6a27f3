"""A baseline: the exponential mechanism by a Markov chain, after Roy and coauthors (T24)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpsubset.arrays import Floats
from dpsubset.checks import one_of, whole
from dpsubset.cuts import cut_maker
from dpsubset.cuts.region import root
from dpsubset.cuts.start import complete
from dpsubset.docstrings import documented
from dpsubset.errors import InputError, UnprovenError
from dpsubset.limits import REFUSED, Allowance
from dpsubset.mechanisms.base import Mechanism, Sampler
from dpsubset.mechanisms.lasso import silence
from dpsubset.privacy import Guarantee, Randomness, exponent
from dpsubset.problem import IMPRECISE, Problem
from dpsubset.sampling.block_chain import ByBlocks
from dpsubset.sampling.chain import ROUND, ByFits, ByMoments, Rule, Walker, run
from dpsubset.sampling.l1_ball import l1_scores
from dpsubset.sampling.pieces import Support

__all__ = ["MarkovChain"]

_STARTS = ("random", "marginal", "lasso", "greedy")
_BALLS = ("l2", "l1")
_SIDE_BY_SIDE = 64 * ROUND  # steps that are drawn at once, over all chains
_HELD = 1 << 22  # columns outside the supports of all chains at once
_PATH = 512  # columns that a lasso path is followed on


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class MarkovChain(Mechanism):
    """The exponential mechanism's distribution in the limit; after finitely many steps, unknown.

    A step proposes to exchange one chosen feature for one outside, both uniform, and goes there
    with probability min(1, exp(-kappa (R(new) - R(old)))). `Exponential` draws from the same
    distribution exactly and without a condition: this class is there to be compared with.

    With squared loss a step takes a few products of columns and a small system of equations. With
    any other loss each step is a fit, as exact as every score of the problem.

    Parameters
    ----------
    steps : int
        Length of a chain.
    start : "random", "marginal", "lasso" or "greedy"
        Where a chain begins: at a uniform support; at the columns that alone explain most; at the
        first on the lasso path (y as numbers, the 512 columns that alone explain most); at
        forward selection improved by swaps. All but the first depend on the data, which is
        harmless in the limit only.
    ball : "l2" or "l1"
        Over which ball coefficients range. "l1" is the variant of Roy and coauthors, for squared
        loss: R_1(S) is the least penalised loss over |beta|_1 <= radius, and its sensitivity is
        the largest loss at predictions of at most x_bound * radius.
    limits : Limits, optional
        A node is a step.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.vstack([np.eye(3)] * 40); y = X[:, 0]
    >>> problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> MarkovChain(epsilon=5.0, steps=200).draw(problem, 2, random_state=0).tolist()
    [[0], [0]]
    """

    name = "Markov chain mechanism"

    steps: int = 1000
    start: str = "random"
    ball: str = "l2"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.steps = whole(self.steps, "steps", 0)
        self.start = one_of(self.start, "start", _STARTS)
        self.ball = one_of(self.ball, "ball", _BALLS)

    def _reach(self, problem: Problem) -> float | None:
        """Return the largest prediction, if not the problem's: |x'beta| <= x_bound |beta|_1."""
        self._check(problem)
        if self.ball == "l2":
            return None
        if not problem.quadratic:
            raise InputError(
                f"ball='l1' is for squared loss; this problem has the {problem.loss.name} loss: "
                "use ball='l2' or loss='squared'"
            )
        return problem.x_bound * problem.radius

    def _delta(self, problem: Problem, rule: str) -> float:
        """Return how far one row moves a score."""
        return problem.sensitivity(rule, self._reach(problem))

    def kappa(self, problem: Problem) -> float:
        """Return the exponent of the scores: eps/(2 Delta) or eps/Delta (T3)."""
        return exponent(self.epsilon, self._delta(problem, self.sensitivity), self.neighbours)

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee of the stationary distribution, if that was reached."""
        condition = (
            f"the chain has come to its stationary distribution after {self.steps} steps, on this "
            "table and on all its neighbours, which nobody has checked (at a total variation "
            "distance of eta from it, delta = (1 + e^epsilon) eta)"
        )
        return replace(
            super().guarantee(problem),
            sensitivity=self._delta(problem, self.sensitivity),
            precision=self._precision(problem),
            condition=condition,
        )

    def _draws(self, problem: Problem, count: int, randomness: Randomness) -> NDArray[np.int64]:
        """Return the ends of many chains, independent given the table."""
        return self._chains(problem, count, randomness)[0]

    def _sampler(self, problem: Problem) -> Sampler:
        return lambda randomness: self._chains(problem, 1, randomness)[0][0]

    def _gap(self, problem: Problem) -> float:
        """Return how exact a score over the l1 ball must be: half of what T19 allows."""
        largest = self._delta(problem, "largest")
        return 0.5 * problem.loss.precision * max(problem.n_rows, 1) * largest

    def _precision(self, problem: Problem) -> float:
        """Return the rounding of a score, in units of n times the sensitivity (T19.4, T24e)."""
        reach = self._reach(problem)
        if reach is None or problem.features.identity:
            return problem.precision(self.sensitivity, reach)
        size = self._delta(problem, "largest") / self._delta(problem, self.sensitivity)
        return (problem.loss.precision + 13 * (problem.most_columns + 4) * 2.0**-53) * size

    def _chains(
        self, problem: Problem, count: int, randomness: Randomness
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Run chains, so many at a time as memory allows; also return how many steps were taken.

        The second is for diagnostics (`benchmarks.mixing`) alone: it depends on the data.
        """
        rule = Rule(self.kappa(problem), self.steps, self.ball == "l1", self._gap(problem))
        allowance = Allowance(self.limits)
        problem = problem.within(allowance)
        if allowance.nodes < count * self.steps:
            raise UnprovenError(REFUSED)
        first = None if self.start == "random" else _STARTED[self.start](problem)
        side = _SIDE_BY_SIDE // max(1, min(self.steps, ROUND))
        side = max(1, min(side, _HELD // max(1, problem.free.size)))
        walker = _walker(problem)
        ends = np.empty((count, problem.size), dtype=np.int64)
        accepted = np.zeros(count, dtype=np.int64)
        for low in range(0, count, side):
            rows = slice(low, min(low + side, count))
            state = _standing(problem, first, rows.stop - low, randomness)
            accepted[rows] = run(walker, problem, rule, state, randomness, allowance)
            ends[rows] = np.sort(state[0], axis=1)
        return ends, accepted

    def _chance(self, problem: Problem, support: NDArray[np.intp]) -> None:
        return None  # the distribution after finitely many steps is not known

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        """Return the stationary distribution."""
        if self.ball == "l1":
            scores = self._l1_scores(problem, supports)
        logs = -self.kappa(problem) * scores
        return np.asarray(logs - logsumexp(logs))

    def _l1_scores(self, problem: Problem, supports: Support) -> Floats:
        index = problem.features.columns(np.unique(supports))
        G, b = np.ascontiguousarray(problem.gram.block(index)), problem.correlations[index]
        gap, ball = self._gap(problem), (problem.ridge, problem.radius)
        places = np.empty(problem.features.n_columns, dtype=np.int64)
        places[index] = np.arange(index.size)
        if problem.features.identity:
            tables = [(slice(None), places[supports])]
        else:  # supports differ in their numbers of columns
            columns = [places[problem.features.columns(s)][None, :] for s in supports]
            tables = [(slice(i, i + 1), local) for i, local in enumerate(columns)]
        out = np.empty(len(supports))
        for rows, local in tables:
            out[rows], widest = l1_scores(G, b, problem.energy, local, *ball, gap)
            if not widest <= gap:
                raise UnprovenError(IMPRECISE)
        return out


def _walker(problem: Problem) -> type[Walker]:
    if not problem.quadratic:
        return ByFits
    return ByMoments if problem.features.identity else ByBlocks


def _standing(
    problem: Problem, first: Support | None, chains: int, randomness: Randomness
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return supports, included features first, and the free ones outside, a row for a chain."""
    t, f = problem.to_choose, problem.free.size
    order = np.tile(problem.free.astype(np.int64), (chains, 1))
    if first is not None:
        chosen = np.isin(problem.free, first)
        order[:] = np.concatenate([problem.free[chosen], problem.free[~chosen]])
    elif chains:
        rows = np.arange(chains)
        for i in range(t):  # the first places of a uniform permutation
            j = i + randomness.belows(f - i, chains)
            order[rows, i], order[rows, j] = order[rows, j], order[rows, i]
    included = np.tile(np.array(problem.include, dtype=np.int64), (chains, 1))
    return np.hstack([included, order[:, :t]]), np.ascontiguousarray(order[:, t:])


def _strongest(problem: Problem) -> NDArray[np.intp]:
    """Return the free features, steepest slope at 0 first; for squared loss by |X_g'y|."""
    slopes = problem.correlations
    if not problem.quadratic:
        slopes = problem.design.correlate(problem.loss.slopes(problem.y, np.zeros(problem.n_rows)))
    order = np.argsort(-problem.features.sum(slopes**2)[problem.free], kind="stable")
    return problem.free[order]


def _marginal(problem: Problem) -> Support:
    return _strongest(problem)[: problem.to_choose].astype(np.int64)


def _greedy(problem: Problem) -> Support:
    return np.array(complete(cut_maker(problem), root(problem)), dtype=np.int64)


def _lasso(problem: Problem) -> Support:
    """Return the features of which a column comes first on the lasso path, then the strongest.

    Included columns are projected out. Whatever the path's code says or raises depends on the
    data, so it stays here.
    """
    features, t, strongest = problem.features, problem.to_choose, _strongest(problem)
    likely = strongest[: features.first(strongest, _PATH, t)]
    inside = features.columns(np.array(problem.include, dtype=np.intp))
    columns = np.concatenate([inside, features.columns(likely)])
    G, b = problem.gram.block(columns), problem.correlations[columns]
    k = inside.size
    try:
        projected = np.linalg.pinv(G[:k, :k], hermitian=True) @ G[:k, k:]
        first = _entered(G[k:, k:] - G[k:, :k] @ projected, b[k:] - projected.T @ b[:k], t)
        entered = features.of_column[columns[k:][first]]
    except MemoryError:
        raise
    except Exception:
        entered = np.empty(0, dtype=np.intp)
    ordered = dict.fromkeys([*entered.tolist(), *likely.tolist()])
    return np.array(list(ordered)[:t], dtype=np.int64)


def _entered(G: Floats, b: Floats, count: int) -> NDArray[np.intp]:
    """Return positions in the order in which they become nonzero along the lasso path."""
    from sklearn.linear_model import lars_path_gram

    with silence():
        most = 4 * count + 8
        _, _, path = lars_path_gram(b, G, n_samples=1, max_iter=most, method="lasso")
    moved = path != 0.0
    ever = np.flatnonzero(moved.any(axis=1))
    return np.asarray(ever[np.argsort(moved[ever].argmax(axis=1), kind="stable")])


_STARTED = {"marginal": _marginal, "lasso": _lasso, "greedy": _greedy}
