"""
Part of an OpenDP analysis
==========================

A ``Context`` of OpenDP holds the table and the budget, divides it, and answers measurements as long as it lasts. Estimators fit through it as OpenDP's own do: ``measurement`` returns one that takes the table to a fitted estimator.
"""

import matplotlib.pyplot as plt
import numpy as np
import opendp.prelude as dp

from dpsubset import Exponential, Problem, SubsetRegressor, SubsetSelector
from dpsubset.mechanisms import as_measurement

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (400, 6))
y = X[:, 2]

asked = {"n_features_to_select": 1, "epsilon": 0.5, "bounds_X": (-1, 1), "bounds_y": (-1, 1)}
select = SubsetSelector(**asked).measurement(n_samples=400, n_features=6)
fit = SubsetRegressor(**asked).measurement(n_samples=400, n_features=6)

context = dp.Context.compositor(
    data=(X, y),
    privacy_unit=(select.input_metric, 1),
    privacy_loss=(select.output_measure, 1.0),
    split_evenly_over=2,
    domain=select.input_domain,
)
print("first: ", context(select).get_support(indices=True))
print("second:", context(fit).coef_.round(2))
try:
    context(select)
except dp.OpenDPException as error:
    print("third: ", error.variant, error.message)

# %%
# ``as_measurement`` does the same for a mechanism and a problem. The map of a measurement says what any number of changed rows costs, in epsilon, or in rho of zero-concentrated privacy.

problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
pure = as_measurement(Exponential(0.5), problem)
concentrated = as_measurement(Exponential(0.5), problem, concentrated=True)
rows = np.arange(1, 9)
figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
axes.plot(rows, [pure.map(int(k)) for k in rows], "o-", label="epsilon")
axes.plot(rows, [concentrated.map(int(k)) for k in rows], "s-", label="rho (zCDP)")
axes.set(xlabel="rows that differ", ylabel="privacy loss at most")
axes.legend(frameon=False)
plt.show()
