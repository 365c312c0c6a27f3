"""The master problem and the integer program on Gurobi, for those who own it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.errors import InputError, without_context
from dpsubset.limits import Allowance
from dpsubset.search.backends import Answer, Master, Model, Positions, Program, Watch, need

__all__ = ["GurobiMaster", "GurobiProgram"]

_PARAMETERS = {"OutputFlag": 0, "Threads": 1, "FeasibilityTol": 1e-9, "IntFeasTol": 1e-9}
_OPTIMALITY = {"OptimalityTol": 1e-9}
_HELD_UP = 1e-9  # a dual value that counts
_TOO_LARGE = 10010  # Gurobi's code for a model beyond a size-limited licence
_NO_LICENCE = (10009, 10032)


@contextmanager
@without_context
def _explained(api: Any) -> Iterator[None]:
    """Say what a licence forbids."""
    try:
        yield
    except api.GurobiError as error:
        if error.errno == _TOO_LARGE:
            raise InputError(
                "the problem is larger than Gurobi's size-limited licence allows (2000 variables "
                "and 2000 rows, far fewer with cones); install a full licence or use another "
                "backend"
            ) from None
        if error.errno in _NO_LICENCE:
            raise InputError(
                "Gurobi found no valid licence; install one or use another backend"
            ) from None
        raise


class _Gurobi(Model):
    """What both models share: binaries `z`, excluded supports, a side, a run within limits."""

    def __init__(self, count: int) -> None:
        self._api = need("gurobi")
        with _explained(self._api):
            self._env = self._api.Env(params={**_PARAMETERS, **_OPTIMALITY})
            self._model = self._api.Model(env=self._env)
            self._z = self._model.addMVar(count, vtype="B")
        self._sides: list[Any] = []

    def exclude(self, chosen: Positions) -> None:
        self._model.addConstr(self._z[chosen].sum() <= chosen.size - 1)

    def share(self, centre: Positions, low: int, high: int) -> None:
        if self._sides:
            self._sides[0].RHS, self._sides[1].RHS = low, high
            return
        kept = self._z[centre].sum()
        self._sides = [self._model.addConstr(kept >= low), self._model.addConstr(kept <= high)]

    def solve(self, goal: float, tolerance: float, allowance: Allowance, watch: Watch) -> Answer:
        api, model, code = self._api, self._model, self._api.GRB
        model.Params.MIPGap = tolerance
        model.Params.TimeLimit = max(min(allowance.seconds, code.INFINITY), 0.0)
        model.Params.NodeLimit = min(allowance.nodes, code.INFINITY)
        model.Params.Cutoff = min(goal, code.INFINITY)
        stopped: list[BaseException | None] = []

        def look(current: Any, where: int) -> None:
            if where == code.Callback.MIP and not stopped:
                try:
                    if watch(current.cbGet(code.Callback.MIP_OBJBND)):
                        stopped.append(None)
                except BaseException as error:  # Gurobi would print it and go on
                    stopped.append(error)
                if stopped:
                    current.terminate()

        with _explained(api):
            model.optimize(look)
        if stopped and stopped[0] is not None:
            raise stopped[0]
        if model.Status == code.INTERRUPTED and not stopped:
            raise KeyboardInterrupt
        nodes = int(model.NodeCount)
        if model.Status in (code.INFEASIBLE, code.CUTOFF):
            return Answer(goal, None, True, nodes)
        bound = float(model.ObjBound)
        bound = min(bound, goal) if bound > -code.INFINITY else -math.inf
        ended = model.Status == code.OPTIMAL
        if ended and model.ObjVal >= goal:  # the cutoff is not strict
            return Answer(goal, None, True, nodes)
        chosen = np.flatnonzero(self._z.X > 0.5) if model.SolCount else None
        return Answer(bound, chosen, ended, nodes)


class GurobiMaster(_Gurobi, Master):
    """The least value that all cuts allow."""

    def __init__(self, count: int, choose: int) -> None:
        super().__init__(count)
        with _explained(self._api):
            self._value = self._model.addVar(lb=0.0, obj=1.0)
            self._model.addConstr(self._z.sum() == choose)
        self._cuts: list[Any] = []

    def add(self, constant: float, weights: Floats) -> None:
        self._cuts.append(self._model.addConstr(self._value + weights @ self._z >= constant))

    @property
    def rows(self) -> int:
        return len(self._cuts)

    def relaxed(self) -> tuple[Floats, float]:
        self._z.VType = "C"
        self._z.UB = 1.0
        try:
            with _explained(self._api):
                for limit in ("TimeLimit", "Cutoff"):
                    self._model.setParam(limit, self._api.GRB.INFINITY)
                self._model.optimize()
            if self._model.Status == self._api.GRB.INTERRUPTED:
                raise KeyboardInterrupt
            self._idle = [False] * len(self._cuts)
            if self._model.Status != self._api.GRB.OPTIMAL:
                return np.zeros(self._z.size), -math.inf
            self._idle = [abs(cut.Pi) < _HELD_UP for cut in self._cuts]
            return np.clip(self._z.X, 0.0, 1.0), float(self._value.X)
        finally:
            self._z.VType = "B"

    def prune(self, first: int) -> None:
        kept = self._cuts[:first]
        for cut, idle in zip(self._cuts[first:], self._idle[first:], strict=True):
            if idle:
                self._model.remove(cut)
            else:
                kept.append(cut)
        self._cuts = kept


class GurobiProgram(_Gurobi):
    """The paper's integer program."""

    def __init__(self, program: Program) -> None:
        p, fixed = program.linear.size, program.fixed
        super().__init__(program.count)
        model = self._model
        with _explained(self._api):
            beta = model.addMVar(p, lb=-1.0, ub=1.0)
            theta = model.addMVar(p, lb=0.0, ub=1.0)
            model.addConstr(self._z.sum() == program.choose)
            model.addConstr(theta.sum() <= 1.0)
            value = program.constant + program.linear @ beta + program.penalty * theta.sum()
            if program.factor is not None:
                u = model.addMVar(program.factor.shape[0], lb=-math.inf)
                model.addConstr(program.factor @ beta == u)
                value = value + u @ u
            if program.rows is not None:
                xi = model.addMVar(program.rows.shape[0], lb=0.0)
                model.addConstr(xi + program.rows @ beta >= 1.0)
                value = value + program.unit * xi.sum()
            free, wide, chosen = beta[fixed:], theta[fixed:], self._z[program.binary]
            model.addConstr(free <= chosen)
            model.addConstr(free >= -chosen)
            for j in range(p - fixed):
                model.addConstr(free[j] * free[j] <= wide[j] * chosen[j])
            for j in range(fixed):
                model.addConstr(beta[j] * beta[j] <= theta[j])
            model.setObjective(value)
