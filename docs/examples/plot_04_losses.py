"""
Losses, and what one row can do
===============================

Noise is scaled by how far one row can move a score: by the loss between the bounds. A loss that grows slowly buys more accuracy for the same privacy.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpsubset.losses import as_loss

t = np.linspace(-1, 1, 301)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.6), layout="constrained")
for name in ("squared", "absolute", "huber:0.2", "quantile:0.8"):
    left.plot(t, as_loss(name).value(np.ones_like(t) * 0.5, t), label=name)
left.set(title="numbers: target 0.5", xlabel="prediction", ylabel="loss")
for name in ("hinge", "huber_hinge", "logistic"):
    right.plot(t, as_loss(name).value(np.ones_like(t), t), label=name)
right.set(title="labels: class +1", xlabel="prediction")
for axes in (left, right):
    axes.legend(frameon=False)
plt.show()

# %%
# The spread is what counts: the largest difference between two losses of one target.

for name in ("squared", "absolute", "huber:0.2", "hinge", "logistic"):
    print(f"{name:10} {as_loss(name).spread(1.0, 1.0):.3f}")
