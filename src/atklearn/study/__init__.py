"""A table in, a results file out: running, the comparison, the paper."""
