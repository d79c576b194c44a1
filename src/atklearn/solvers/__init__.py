"""Functions from a problem to a :class:`atklearn.core.problem.Solution`."""
