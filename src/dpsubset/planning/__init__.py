"""How many rows are enough? By simulation on the paper's tables, or on tables of a schema."""

from dpsubset.planning.foretelling import plan
from dpsubset.planning.pictures import check_picture, draw_answer, draw_plan
from dpsubset.planning.plans import Plan, Point
from dpsubset.planning.rows import Answer, rows_for
from dpsubset.planning.simulate import Setting

__all__ = [
    "Answer",
    "Plan",
    "Point",
    "Setting",
    "check_picture",
    "draw_answer",
    "draw_plan",
    "plan",
    "rows_for",
]
