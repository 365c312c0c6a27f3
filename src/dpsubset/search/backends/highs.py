"""The master problem on HiGHS; rows are added to a model that is never built again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.limits import Allowance
from dpsubset.search.backends import Answer, Master, Positions, Watch, need

__all__ = ["HighsMaster"]

_OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "parallel": "off",  # a number of threads would clash with other users of HiGHS
    "presolve": "off",  # rows are dense and few: nothing to gain
    "mip_heuristic_run_rins": False,  # they take most of the time, and the loop needs bounds
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}
_HELD_UP = 1e-9  # a dual value that counts


class HighsMaster(Master):
    """Columns 0 to count - 1 choose, column `count` is the value."""

    def __init__(self, count: int, choose: int) -> None:
        self._api = need("highs")
        self._count = count
        self._model = model = self._api.Highs()
        for name, value in _OPTIONS.items():
            model.setOptionValue(name, value)
        infinite = self._api.kHighsInf
        none: list[Any] = []
        for _ in range(count):
            model.addCol(0.0, 0.0, 1.0, 0, none, none)
        model.addCol(1.0, 0.0, infinite, 0, none, none)
        self._all = np.arange(count + 1, dtype=np.int32)
        model.addRow(choose, choose, count, self._all[:-1], np.ones(count))
        model.addRow(-infinite, infinite, 0, none, none)
        self._centre: Positions | None = None

    def add(self, constant: float, weights: Floats) -> None:
        row = np.append(weights, 1.0)
        self._model.addRow(constant, self._api.kHighsInf, row.size, self._all, row)

    def exclude(self, chosen: Positions) -> None:
        index = chosen.astype(np.int32)
        self._model.addRow(-math.inf, chosen.size - 1.0, chosen.size, index, np.ones(chosen.size))

    def share(self, centre: Positions, low: int, high: int) -> None:
        if self._centre is None:
            self._centre = centre
            for j in centre:
                self._model.changeCoeff(1, int(j), 1.0)
        self._model.changeRowBounds(1, low, high)

    def relaxed(self) -> tuple[Floats, float]:
        self._whole(False)
        self._model.changeColBounds(self._count, 0.0, self._api.kHighsInf)
        self._model.setOptionValue("time_limit", self._api.kHighsInf)
        self._model.run()
        if self._model.getModelStatus() != self._api.HighsModelStatus.kOptimal:
            return np.zeros(self._count), -math.inf
        values = np.array(self._model.getSolution().col_value)
        return np.clip(values[:-1], 0.0, 1.0), float(values[-1])

    @property
    def rows(self) -> int:
        return int(self._model.getNumRow())

    def prune(self, first: int) -> None:
        duals = np.abs(np.array(self._model.getSolution().row_dual))
        idle = np.flatnonzero(duals < _HELD_UP)
        idle = idle[idle >= first].astype(np.int32)
        if idle.size:
            self._model.deleteRows(idle.size, idle)

    def solve(self, goal: float, tolerance: float, allowance: Allowance, watch: Watch) -> Answer:
        model, status = self._model, self._api.HighsModelStatus
        self._whole(True)
        model.changeColBounds(self._count, 0.0, min(goal, self._api.kHighsInf))
        model.setOptionValue("mip_rel_gap", tolerance)
        seconds = model.getRunTime() + max(allowance.seconds, 0.0)  # HiGHS counts all runs together
        model.setOptionValue("time_limit", min(seconds, self._api.kHighsInf))
        model.setOptionValue("mip_max_nodes", int(min(allowance.nodes, 2**31 - 1)))

        def look(event: Any) -> None:
            event.data_in.user_interrupt = watch(event.data_out.mip_dual_bound)

        model.cbMipInterrupt.subscribe(look)
        try:
            model.run()
        finally:
            model.cbMipInterrupt.unsubscribe(look)
        ending, info = model.getModelStatus(), model.getInfo()
        nodes = max(int(info.mip_node_count), 0)
        if ending == status.kInfeasible:
            return Answer(goal, None, True, nodes)
        bound = float(info.mip_dual_bound)
        bound = min(bound, goal) if math.isfinite(bound) else -math.inf
        chosen = None
        if math.isfinite(info.objective_function_value):
            values = np.array(model.getSolution().col_value)[:-1]
            chosen = np.flatnonzero(values > 0.5)
        ended = ending == status.kOptimal and chosen is not None
        return Answer(bound, chosen, ended, nodes)

    def _whole(self, whole: bool) -> None:
        kinds = self._api.HighsVarType
        kind = kinds.kInteger if whole else kinds.kContinuous
        self._model.changeColsIntegrality(
            self._count, self._all[:-1], np.array([kind] * self._count)
        )
