"""What developers run and no user needs: measurements, comparisons, the demo, and their results.

Run from the repository's root, `python -m benchmarks.bench`; it is no part of the wheel.
"""
