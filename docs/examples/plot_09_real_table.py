"""
A real table: visits to a doctor
================================

The RAND health insurance experiment, with health as a category. A private model of two features, and its coefficients in the table's own units.
"""

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

from dpsubset import SubsetRegressor

table = sm.datasets.randhie.load_pandas().data
health = np.select(
    [table.hlthg == 1, table.hlthf == 1, table.hlthp == 1], ["good", "fair", "poor"], "excellent"
)
visits = table.pop("mdvis")
table = table.drop(columns=["hlthg", "hlthf", "hlthp"]).assign(health=health)

schema = {
    "columns": {
        "lncoins": [0, 4.62],
        "idp": "0/1",
        "lpi": [0, 7.2],
        "fmde": [0, 8.3],
        "physlm": [0, 1],
        "disea": [0, 60],
        "health": ["excellent", "good", "fair", "poor"],
    },
    "target": {"name": "visits", "bounds": [0, 20]},
}
model = SubsetRegressor(schema=schema, n_features_to_select=2, epsilon=2.0).fit(table, visits)
print(model.get_feature_names_out())
print(model.guarantee_)

# %%
# One unit more of a column changes the prediction by its coefficient; levels of a category are differences from their mean.

figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
chosen = [(name, value) for name, value in zip(model.coef_names_, model.coef_) if value]
axes.barh(*zip(*reversed(chosen)), color="#009E73")
axes.axvline(0, color="black", linewidth=0.8)
axes.set(xlabel="visits a year")
plt.show()
