"""Solvers: functions from a problem to a :class:`atklearn.solution.Solution`."""
