"""Two losses that the library does not have, as docs/extending/loss.md builds them: one smooth, one with a kink."""

import numpy as np

from atklearn import ATkRegressor, IndividualLoss, elementwise


class Expectile(IndividualLoss):
    """Squared error that weighs the two directions differently: ``share e**2`` for targets above, ``(1 - share) e**2``.

    Parameters
    ----------
    share : float
        In (0, 1): what an error counts where the target is above the prediction; 0.5 is half the squared error.
    """

    task = "regression"

    def __init__(self, share):
        if not 0.0 < share < 1.0:
            raise ValueError(f"Expectile expects a share between 0 and 1, got {share!r}; 0.5 treats both sides alike.")
        self.share = share

    @elementwise
    def expand(self, prediction, target):
        """Return the loss, its slope and its curvature in the prediction."""
        error = prediction - target
        weight = np.where(error < 0.0, self.share, 1.0 - self.share)
        return weight * error**2, 2.0 * weight * error, 2.0 * weight


class ToleratedError(IndividualLoss):
    """Nothing up to a tolerance, ``e**2 - tolerance**2`` beyond: convex, with a kink at the tolerance.

    Parameters
    ----------
    tolerance : float
        The size of error, in units of the target, that costs nothing.
    """

    task = "regression"
    kink = "positive_part"  # the loss is max(0, s), with s as expand returns it

    def __init__(self, tolerance):
        if not 0.0 < tolerance < np.inf:
            raise ValueError(f"ToleratedError expects a finite tolerance > 0, got {tolerance!r}.")
        self.tolerance = tolerance

    @elementwise
    def expand(self, prediction, target):
        """Return ``s``, its slope and its curvature in the prediction: smooth, the kink is not in them."""
        error = prediction - target
        return error**2 - self.tolerance**2, 2.0 * error, 2.0


def main():
    """Fit both, and say what they did."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0] + rng.gumbel(size=2000)
    for loss in (Expectile(0.9), ToleratedError(1.0)):
        model = ATkRegressor(loss, k=0.3, C=100.0).fit(X, y)
        above = np.mean(y > model.predict(X))
        print(f"{loss!r}: {above:.0%} of the targets are above, certified to {model.dual_gap_ / model.objective_:.0e}")


if __name__ == "__main__":
    main()
