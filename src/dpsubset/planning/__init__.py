"""How many rows are enough? Answered by simulation on the paper's tables (`dpsubset plan`)."""

from dpsubset.planning.pictures import check_picture, draw_answer
from dpsubset.planning.rows import Answer, rows_for
from dpsubset.planning.simulate import Setting

__all__ = ["Answer", "Setting", "check_picture", "draw_answer", "rows_for"]
