"""Training on a ranked range of the losses: exact convex solves in turn with the choice of the rows set aside."""
