"""
What one person can change
==========================

Replace one row of a table, in a hundred ways, and compare the chances of all supports. No ratio goes beyond epsilon: that is the guarantee. With
a sensitivity that is four times too small, many do, and an audit names them.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpsubset import Exponential, Problem, audit

rng = np.random.default_rng(1)
X = rng.choice([-1.0, 1.0], (6, 4))
problem = Problem(X, X[:, 0], size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
others = list(audit.neighbouring(problem, 100))


class Careless(Exponential):
    """An exponential mechanism whose exponent is four times too large."""

    def kappa(self, problem):
        return 4 * super().kappa(problem)


def ratios(mechanism):
    """Return the largest log ratio of chances, for each neighbour."""
    own = mechanism.probabilities(problem)[1]
    return [np.abs(own - mechanism.probabilities(other)[1]).max() for other in others]


figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
bins = np.linspace(0, 2.5, 41)
axes.hist(ratios(Exponential(1.0)), bins, alpha=0.8, label="exponential")
axes.hist(ratios(Careless(1.0)), bins, alpha=0.6, label="careless")
axes.axvline(1.0, color="black", linewidth=1)
axes.annotate(" epsilon", (1.0, axes.get_ylim()[1] * 0.9))
axes.set(xlabel="largest log ratio of chances", ylabel="neighbouring tables")
axes.legend(frameon=False)
plt.show()

# %%
# The audit says it in words.

print(audit.exact(Exponential(1.0), problem, others))
print(audit.exact(Careless(1.0), problem, others))
