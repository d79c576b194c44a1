"""What we claim about speed, each claim with its competitor: suite.py measures, docs/benchmarks.md tells."""
