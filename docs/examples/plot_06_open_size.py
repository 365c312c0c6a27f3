"""
How many columns?
=================

With ``n_features_to_select="auto"`` the number of columns is drawn, too, under the same epsilon. With few rows nothing is released but what is
certain; with more rows all three true columns are.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpsubset import PermuteAndFlip, Problem

rng = np.random.default_rng(2)
X = rng.uniform(-1, 1, (16000, 8))
y = np.clip(0.5 * X[:, 0] + 0.3 * X[:, 1] + 0.2 * X[:, 2] + 0.1 * rng.normal(size=16000), -1, 1)

rows = [250, 1000, 4000, 16000]
shares = []
for n in rows:
    problem = Problem(
        X[:n], y[:n], size=4, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=1.0, false_columns=0.05
    )
    supports, logs = PermuteAndFlip(1.0).probabilities(problem)
    sizes = (supports >= 0).sum(axis=1)
    shares.append([np.exp(logs[sizes == k]).sum() for k in range(5)])

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
below = np.zeros(len(rows))
for k, part in enumerate(np.transpose(shares)):
    axes.bar([f"{n:,}" for n in rows], part, bottom=below, label=f"{k} columns", color=plt.cm.viridis(k / 4))
    below += part
axes.set(xlabel="rows", ylabel="chance")
axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()
