"""
The best support, proven
========================

``search`` finds the best supports and proves it. It is not private: it shows what a mechanism has to choose from. Scores of the hundred best supports of two million,
and how far one person can move a score.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpsubset import Problem, search

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (2000, 50))
y = np.clip(X[:, [3, 17, 31, 40]].sum(axis=1) / 4 + 0.1 * rng.normal(size=2000), -1, 1)
problem = Problem(X, y, size=4, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=1.0)
found = search.top(problem, 100)

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axes.plot(range(1, 101), [one.score for one in found], ".")
low = found[0].score
axes.axhspan(low, low + problem.sensitivity(), alpha=0.15)
axes.annotate("what one person can change", (30, low + problem.sensitivity() * 1.1))
axes.set(xlabel=f"rank among {problem.n_supports:,} supports", ylabel="score (smaller is better)")
plt.show()
print(found[0].support, "proven" if all(one.proven for one in found) else "not proven")
