"""Tables in, results file out: reading, features, running, the comparison, the paper."""
