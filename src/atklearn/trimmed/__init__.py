"""Training with the largest losses set aside: exact convex solves in turn with the choice of the rows."""
