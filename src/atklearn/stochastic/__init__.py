"""The paper's stochastic solver: one visit to a sample after the other."""
