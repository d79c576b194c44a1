"""What benchmarks/fuzz.py and its test share: nasty problems, an outside solver, and the verdict on a fit."""
