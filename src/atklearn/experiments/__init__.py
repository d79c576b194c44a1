"""Experiments: each states its tasks, runs one of them at a time, and writes what it finds to a results file."""
