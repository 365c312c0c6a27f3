"""
Tight bounds and generous ones
==============================

Public bounds that are too wide drown the columns in noise. Tight ones clip, which does little harm here: a column and a target that rise together still do when both are
clipped. Privacy holds in all cases.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpsubset import PermuteAndFlip, Schema, Selection
from dpsubset.data import Table
from dpsubset.data.target import Target

rng = np.random.default_rng(1)
X = rng.normal(50, 10, (600, 8))
y = X[:, 2] + 5 * rng.normal(size=600)
table = Table(X, y)

widths = [3, 6, 12, 20, 30, 50, 80, 150, 300]
chances = []
for width in widths:
    schema = Schema.of(None, 8, (50 - width, 50 + width), Target((50.0 - width, 50.0 + width)))
    problem = Selection(schema=schema, size=1, epsilon=1.0).problem(table)
    chances.append(PermuteAndFlip(1.0).chance(problem, [2, 8]))  # 8 is the intercept

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axes.plot(widths, chances, "o-", color="#D55E00")
axes.axvspan(20, 30, alpha=0.15)
axes.annotate("two to three standard\ndeviations", (20.5, 0.05))
axes.set(xscale="log", xlabel="bounds: 50 plus or minus", ylabel="chance of the true column")
axes.set_xticks(widths, widths)
axes.minorticks_off()
axes.set_ylim(0, 1.02)
plt.show()
