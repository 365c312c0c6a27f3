"""Audits: is a mechanism as private as it says? Nothing here trusts the mechanism's own proof.

`exact` compares enumerated distributions, `worst` looks for the worst neighbour, `sampled` bounds
epsilon from draws, `replay` looks at everything else that could tell two tables apart, `doors`
audits estimators and coefficient methods from the raw table on. Audits see tables, distributions
and truth: they are for synthetic tables, and their reports are no private releases.
"""

from dpsubset.audit.campaign import Finding, campaign
from dpsubset.audit.doors import DoorFinding, doors
from dpsubset.audit.exact import ExactReport, Violation, exact, exact_pairs
from dpsubset.audit.families import Family, families
from dpsubset.audit.replay import Difference, ReplayReport, replay
from dpsubset.audit.sampled import SampledReport, sampled
from dpsubset.audit.tables import neighbouring
from dpsubset.audit.worst import worst

__all__ = [
    "Difference",
    "DoorFinding",
    "ExactReport",
    "Family",
    "Finding",
    "ReplayReport",
    "SampledReport",
    "Violation",
    "campaign",
    "doors",
    "exact",
    "exact_pairs",
    "families",
    "neighbouring",
    "replay",
    "sampled",
    "worst",
]
