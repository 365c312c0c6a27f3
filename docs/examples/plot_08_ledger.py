"""
A budget over several releases
==============================

Everybody who works on a table charges one ledger. Here are its entries, and what was left after each.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dpsubset import Ledger, SubsetRegressor, SubsetSelector
from dpsubset.errors import BudgetError

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, (1500, 5))
y = X[:, 1] + rng.normal(size=1500)
folder = tempfile.TemporaryDirectory()
ledger = Ledger(Path(folder.name) / "budget.db", epsilon=3.0, table="study 7")
given = {"bounds_X": (0, 10), "bounds_y": (0, 10), "ledger": ledger}

SubsetSelector(n_features_to_select=1, epsilon=0.5, **given).fit(X, y)
SubsetSelector(n_features_to_select=2, epsilon=0.5, **given).fit(X, y)
SubsetRegressor(n_features_to_select=1, epsilon=1.5, **given).fit(X, y)
try:
    SubsetRegressor(n_features_to_select=2, epsilon=1.0, **given).fit(X, y)
except BudgetError as error:
    print("refused:", str(error).partition(" in /")[0])

history = ledger.history()
left = ledger.epsilon - np.cumsum([0, *(entry.guarantee.epsilon for entry in history)])
figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
axes.step(range(len(left)), left, where="post", color="#0072B2")
axes.plot(range(len(left)), left, "o", color="#0072B2")
names = ["begin", *(f"entry {entry.number}\n{entry.guarantee.epsilon:g}" for entry in history)]
axes.set_xticks(range(len(left)), names)
axes.set(ylabel="epsilon left", ylim=(0, 3.2))
plt.show()
folder.cleanup()
