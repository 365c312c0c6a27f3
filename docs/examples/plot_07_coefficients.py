"""
Private coefficients
====================

A private model is released once; here it is drawn thirty times for each epsilon, on a synthetic table, to show how far its coefficients scatter. With too
little budget the model falls back to a constant: all coefficients are zero.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from dpsubset import SubsetRegressor

warnings.simplefilter("ignore")  # many fits of one table are warned of; these are an experiment
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (3000, 3))
y = 0.6 * X[:, 0] - 0.3 * X[:, 1] + 0.1 * rng.normal(size=3000)

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for place, epsilon in enumerate((0.1, 0.3, 1, 3)):
    drawn = []
    for seed in range(30):
        model = SubsetRegressor(
            n_features_to_select=2, epsilon=epsilon, always_include=(0, 1),
            bounds_X=(-1, 1), bounds_y=(-1, 1), random_state=seed,
        )  # fmt: skip
        drawn.append(model.fit(X, y).coef_[:2])
    for j, colour in ((0, "#0072B2"), (1, "#D55E00")):
        at = place + 0.12 * (2 * j - 1) + 0.04 * rng.uniform(-1, 1, 30)
        axes.plot(at, np.array(drawn)[:, j], ".", color=colour)
axes.axhline(0.6, color="#0072B2", linewidth=0.8)
axes.axhline(-0.3, color="#D55E00", linewidth=0.8)
axes.set_xticks(range(4), ["0.1", "0.3", "1", "3"])
axes.set(xlabel="epsilon", ylabel="coefficients; lines: the truth")
plt.show()
