"""What we claim about speed: every claim with its competitor, measured by benchmarks/suite.py, told by docs/benchmarks.md."""
