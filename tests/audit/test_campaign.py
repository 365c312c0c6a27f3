"""The exact audit of every mechanism, loss and relation, and three broken mechanisms it catches.

`dpsubset audit --pairs 10000` is the same with more pairs; docs/auditing.md has its figures.
Nothing here is random but the made-up tables, whose seed is fixed.
"""

from __future__ import annotations

import itertools

import pytest
from audit_broken import BROKEN

from dpsubset.audit.campaign import AUDITED, LOSSES, campaign
from dpsubset.audit.tables import families, rows_of
from dpsubset.errors import InputError
from dpsubset.privacy import NEIGHBOURS

PAIRS = 700
TEETH = {"permute-and-flip": 0.35, "exponential": 0.25, "sample-aggregate": 0.5}  # of epsilon


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("relation", NEIGHBOURS)
def test_every_mechanism_keeps_its_promise(loss: str, relation: str) -> None:
    for finding in campaign(losses=[loss], relations=[relation], pairs=PAIRS, draws=600):
        assert finding.passed, (finding.mechanism, finding.violations[:3], finding.replayed)
        assert finding.pairs > PAIRS
        assert finding.sampled.epsilon <= finding.largest + 1e-9 or finding.delta
        assert finding.largest >= TEETH.get(finding.mechanism, 0.1) * finding.epsilon


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("relation", NEIGHBOURS)
def test_broken_mechanisms_are_named(loss: str, relation: str) -> None:
    for finding in campaign(list(BROKEN), [loss], [relation], pairs=PAIRS, draws=600, made=BROKEN):
        assert not finding.passed, finding.mechanism
        family, violation = finding.violations[0]
        assert family >= 0
        assert violation.tables[0] != violation.tables[1]
        assert violation.epsilon > finding.epsilon
        assert violation.delta > finding.delta
        assert len(finding.violations) < finding.pairs
        assert "pair" in str(violation)


@pytest.mark.parametrize("relation", NEIGHBOURS)
def test_families_hold_neighbours(relation: str) -> None:
    """Pairs differ by one row, within the bounds, with a row at a corner in most tables."""
    for wide, loss in itertools.product((False, True), ("squared", "hinge")):
        source = families(loss, relation, 3, wide=wide)
        for family in itertools.islice(source, 10):
            tables = [sorted(map(tuple, rows_of(q).tolist())) for q in family.problems]
            assert all(abs(v) <= 1 for table in tables for row in table for v in row)
            for i, j in family.pairs:
                a, b = tables[i].copy(), tables[j].copy()
                for row in tables[i]:
                    if row in b:
                        a.remove(row)
                        b.remove(row)
                removed, added = len(a), len(b)
                expected = {(0, 1), (1, 0)} if relation == "add-remove" else {(1, 1), (0, 0)}
                assert (removed, added) in expected


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="unknown mechanism 'x'; allowed: permute-and-flip"):
        next(campaign(["x"]))
    with pytest.raises(InputError, match="pairs"):
        next(campaign(["exponential"], pairs=0))
    with pytest.raises(InputError, match="unknown neighbour relation"):
        next(campaign(["exponential"], relations=["x"]))
    assert set(TEETH) < set(AUDITED)
