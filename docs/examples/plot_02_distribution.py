"""
The distribution behind a release
=================================

A mechanism draws one support out of all. Here are the chances of the 20 likeliest, for the exponential mechanism and for permute-and-flip, which is never less
likely to give the best one.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpsubset import Exponential, PermuteAndFlip, Problem

rng = np.random.default_rng(3)
X = rng.uniform(-1, 1, (250, 8))
y = np.clip(0.5 * X[:, 0] + 0.4 * X[:, 1] + 0.15 * rng.normal(size=250), -1, 1)
problem = Problem(X, y, size=2, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=1.0)

supports, flip = PermuteAndFlip(2.0).probabilities(problem)
_, exponential = Exponential(2.0).probabilities(problem)
order = np.argsort(-flip)[:20]

figure, axes = plt.subplots(figsize=(6.8, 3.8), layout="constrained")
places = np.arange(order.size)
axes.bar(places - 0.2, np.exp(flip[order]), 0.4, label="permute-and-flip")
axes.bar(places + 0.2, np.exp(exponential[order]), 0.4, label="exponential")
axes.set_xticks(places, [",".join(map(str, supports[i])) for i in order], rotation=60)
axes.set(xlabel="support", ylabel="chance")
axes.legend(frameon=False)
plt.show()
