"""How good predictions are: each measure with its name, task, direction, title and function."""
