"""Certificates: a release as one page for people, and the check that a release file is genuine.

Both rest on the record alone, its ledger and its schema: no table is read.
"""

from dpsubset.certificate.page import page
from dpsubset.certificate.reading import read_record
from dpsubset.certificate.verifying import Check, Verdict, verify

__all__ = ["Check", "Verdict", "page", "read_record", "verify"]
