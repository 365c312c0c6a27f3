"""The paper's integer program on SCIP."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpsubset.limits import Allowance
from dpsubset.search.backends import Answer, Model, Positions, Program, Watch, need

__all__ = ["ScipProgram"]

_PARAMETERS: dict[str, Any] = {
    "display/verblevel": 0,
    "numerics/feastol": 1e-7,
    "constraints/nonlinear/tightenlpfeastol": False,  # it complains where it cannot
    "parallel/maxnthreads": 1,
}
_INFINITE = 1e20  # SCIP's own


class ScipProgram(Model):
    """Binaries z, coefficients beta, cones beta^2 <= theta z; the objective behind a variable."""

    def __init__(self, program: Program) -> None:
        self._api = need("scip")
        self._model = model = self._api.Model()
        model.setParams(_PARAMETERS)
        model.setHeuristics(self._api.SCIP_PARAMSETTING.OFF)  # good supports are known before
        p, fixed = program.linear.size, program.fixed
        total = self._api.quicksum
        beta = [model.addVar(lb=-1.0, ub=1.0) for _ in range(p)]
        theta = [model.addVar(lb=0.0, ub=1.0) for _ in range(p)]
        self._z = z = [model.addVar(vtype="B") for _ in range(program.count)]
        model.addCons(total(z) == program.choose)
        model.addCons(total(theta) <= 1.0)
        for j, (b, t) in enumerate(zip(beta, theta, strict=True)):
            if j < fixed:
                model.addCons(b * b <= t)
                continue
            chosen = z[int(program.binary[j - fixed])]
            model.addCons(b * b <= t * chosen)
            model.addCons(b <= chosen)
            model.addCons(b >= -chosen)
        value = total(float(c) * b for c, b in zip(program.linear, beta, strict=True))
        value += program.penalty * total(theta) + program.constant
        if program.factor is not None:
            square = model.addVar(lb=0.0)
            parts = [model.addVar(lb=None) for _ in program.factor]
            for row, part in zip(program.factor, parts, strict=True):
                line = total(float(c) * b for c, b in zip(row, beta, strict=True))
                model.addCons(line == part)
            model.addCons(total(part * part for part in parts) <= square)
            value += square
        if program.rows is not None:
            losses = [model.addVar(lb=0.0) for _ in program.rows]
            for row, loss in zip(program.rows, losses, strict=True):
                line = total(float(c) * b for c, b in zip(row, beta, strict=True))
                model.addCons(line + loss >= 1.0)
            value += program.unit * total(losses)
        model.setObjective(value, "minimize")
        self._side: Any = None
        self._watch: Watch = lambda _: False
        self._stopped = False
        self._error: BaseException | None = None
        events = self._api.SCIP_EVENTTYPE
        model.attachEventHandlerCallback(self._look, [events.NODESOLVED, events.FIRSTLPSOLVED])

    def exclude(self, chosen: Positions) -> None:
        self._model.addCons(self._api.quicksum(self._z[int(j)] for j in chosen) <= chosen.size - 1)

    def share(self, centre: Positions, low: int, high: int) -> None:
        if self._side is None:
            kept = self._api.quicksum(self._z[int(j)] for j in centre)
            self._side = self._model.addCons((kept <= high) >= low)
            return
        self._model.chgLhs(self._side, low)
        self._model.chgRhs(self._side, high)

    def solve(self, goal: float, tolerance: float, allowance: Allowance, watch: Watch) -> Answer:
        model = self._model
        model.setParam("limits/gap", tolerance)
        model.setParam("limits/time", max(min(allowance.seconds, _INFINITE), 0.0))
        model.setParam("limits/totalnodes", int(min(allowance.nodes, 2**62)))
        model.setObjlimit(min(goal, _INFINITE))
        self._watch, self._stopped = watch, False
        model.optimize()
        if self._error is not None:
            raise self._error
        status, nodes = model.getStatus(), int(model.getNTotalNodes())
        if status == "userinterrupt" and not self._stopped:
            raise KeyboardInterrupt
        bound, chosen = float(model.getDualbound()), None
        bound = min(bound, goal) if abs(bound) < _INFINITE else -math.inf
        if model.getNSols():
            values = np.array([model.getVal(z) for z in self._z])
            chosen = np.flatnonzero(values > 0.5)
        model.freeTransform()
        if status == "infeasible":
            return Answer(goal, None, True, nodes)
        ended = status in ("optimal", "gaplimit") and chosen is not None
        return Answer(bound, chosen, ended, nodes)

    def _look(self, model: Any, _: Any) -> None:
        """Let the caller watch; SCIP would swallow an error raised here."""
        try:
            self._stopped = self._watch(float(model.getDualbound()))
        except BaseException as error:
            self._error, self._stopped = error, True
        if self._stopped:
            model.interruptSolve()
