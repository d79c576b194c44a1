"""Choosing k and C: grids of fits, scores of a grid on a fold, the rule that reads them."""
