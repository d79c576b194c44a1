"""Functions from a problem to a :class:`atklearn.problems.solution.Solution`."""
