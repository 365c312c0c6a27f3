"""
More epsilon, or more rows
==========================

How likely are the true columns, exactly? On one synthetic table, for several epsilons, over the number of rows. Twice the rows buy what
twice the epsilon buys.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpsubset import PermuteAndFlip, Problem

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (8000, 10))
y = np.clip(0.6 * X[:, 2] - 0.4 * X[:, 5] + 0.2 * rng.normal(size=8000), -1, 1)

rows = [125, 250, 500, 1000, 2000, 4000, 8000]
figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for epsilon in (0.25, 0.5, 1, 2):
    chances = []
    for n in rows:
        problem = Problem(X[:n], y[:n], size=2, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=1.0)
        chances.append(PermuteAndFlip(epsilon).chance(problem, [2, 5]))
    axes.plot(rows, chances, "o-", label=f"epsilon {epsilon:g}")
axes.set(xscale="log", xlabel="rows", ylabel="chance of the true columns", ylim=(-0.02, 1.02))
axes.set_xticks(rows, [f"{n:,}" for n in rows], minor=False)
axes.minorticks_off()
axes.legend(frameon=False)
plt.show()

# %%
# A data owner cannot draw this picture of a private table: chances are no private output. ``dpsubset plan`` draws it by simulation.
