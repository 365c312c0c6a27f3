"""Head to head on real tables: our models and those of others, under the same public schemas.

`python -m benchmarks.realtables` runs what is not in results.jsonl yet, seed after seed, and writes
docs/real-tables.md with its figures; it may be stopped and started again at any time.
"""
