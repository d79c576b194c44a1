"""The mathematics: the objective with its certificate, the point, what a store of rows answers, the algorithm."""
