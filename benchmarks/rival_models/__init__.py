"""Private models by others, written from their papers, for the comparison on real tables.

All take coded columns on the scale of public bounds, with a constant one, and a target on [-1, 1];
all return one coefficient a column. They are no part of the package.
"""
