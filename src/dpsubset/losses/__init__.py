"""Losses by name."""

from __future__ import annotations

from dpsubset.errors import InputError, without_context
from dpsubset.losses.base import Fit, Loss
from dpsubset.losses.brier import Brier
from dpsubset.losses.checking import check
from dpsubset.losses.hinge import Hinge
from dpsubset.losses.huber import Huber
from dpsubset.losses.huber_hinge import HuberHinge
from dpsubset.losses.huber_logistic import HuberLogistic
from dpsubset.losses.logistic import Logistic
from dpsubset.losses.offset import Offset
from dpsubset.losses.quantile import Absolute, Quantile
from dpsubset.losses.squared import Squared
from dpsubset.losses.weighted import Weighted

__all__ = [
    "LOSSES",
    "Absolute",
    "Brier",
    "Fit",
    "Hinge",
    "Huber",
    "HuberHinge",
    "HuberLogistic",
    "Logistic",
    "Loss",
    "Offset",
    "Quantile",
    "Squared",
    "Weighted",
    "as_loss",
    "check",
    "register",
]

LOSSES: dict[str, type[Loss]] = {
    kind.name: kind
    for kind in (
        Squared,
        Absolute,
        Huber,
        Quantile,
        Brier,
        Hinge,
        HuberHinge,
        Logistic,
        HuberLogistic,
    )
}


def register(kind: type[Loss]) -> type[Loss]:
    """Make a custom loss known by its name; may be used as a decorator.

    Run `dpsubset.losses.check` on it first: a wrong conjugate or largest value breaks the privacy
    of every release.

    Parameters
    ----------
    kind : type
        A subclass of Loss with a name of its own.

    Returns
    -------
    type
        The same class.

    Examples
    --------
    >>> from dpsubset.losses import Huber
    >>> register(Huber) is Huber
    True
    """
    if not (isinstance(kind, type) and issubclass(kind, Loss)):
        raise InputError("register takes a subclass of dpsubset.losses.Loss")
    if missing := sorted(kind.__abstractmethods__):
        raise InputError(f"the loss {kind.__name__} lacks {', '.join(missing)}")
    if not (isinstance(getattr(kind, "name", None), str) and kind.name.isidentifier()):
        raise InputError(f"the loss {kind.__name__} needs a name, such as name = 'squared_hinge'")
    known = LOSSES.get(kind.name, kind)
    # A class that is defined again, as in a notebook, takes the place of its former self.
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise InputError(f"a loss of the name {kind.name!r} exists; choose another name")
    LOSSES[kind.name] = kind
    return kind


@without_context
def as_loss(loss: str | Loss) -> Loss:
    """Return the loss of that name, or the loss itself.

    A number after a colon is the loss's parameter.

    Parameters
    ----------
    loss : str or Loss
        A name, perhaps with a parameter, or a loss.

    Returns
    -------
    Loss
        The loss.

    Examples
    --------
    >>> as_loss("squared").name, as_loss("huber:0.2"), as_loss(Quantile(0.9))
    ('squared', Huber(0.2), Quantile(0.9))
    """
    if isinstance(loss, Loss) and (type(loss) in (*LOSSES.values(), Offset, Weighted)):
        return loss
    if isinstance(loss, Loss):
        raise InputError(
            f"unknown loss {loss!r}; make it known by dpsubset.losses.register, after "
            "dpsubset.losses.check"
        )
    name, colon, given = loss.partition(":") if isinstance(loss, str) else ("", "", "")
    if name not in LOSSES:
        raise InputError(f"unknown loss {loss!r}; allowed: {', '.join(sorted(LOSSES))}")
    if not colon:
        return LOSSES[name]()
    try:
        return LOSSES[name](float(given))  # type: ignore[call-arg]
    except InputError:
        raise  # says itself what is allowed
    except (ValueError, TypeError):
        raise InputError(
            f"the loss {loss!r} is not understood; a parameter is one number, as in huber:0.1 or "
            "quantile:0.9, and the other losses have none"
        ) from None
