"""
A measurement for OpenDP
========================

``as_measurement`` turns a mechanism into a measurement of OpenDP, whose map says what any number of changed rows costs. (OpenDP 0.16 offers its ``Context`` for queries that it
builds by itself; a measurement is the way in for others.)
"""

import matplotlib.pyplot as plt
import numpy as np

from dpsubset import Exponential, Problem
from dpsubset.mechanisms import as_measurement

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (400, 6))
y = X[:, 2]
problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
pure = as_measurement(Exponential(0.5), problem)
concentrated = as_measurement(Exponential(0.5), problem, concentrated=True)
print("released:", pure((X, y)))

rows = np.arange(1, 9)
figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
axes.plot(rows, [pure.map(int(k)) for k in rows], "o-", label="epsilon")
axes.plot(rows, [concentrated.map(int(k)) for k in rows], "s-", label="rho (zCDP)")
axes.set(xlabel="rows that differ", ylabel="privacy loss at most")
axes.legend(frameon=False)
plt.show()
