"""Experiments: the paper's settings, runs and measurements."""
