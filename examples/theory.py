"""Simulate what the paper's theory says, on distributions whose Bayes rule is known.

(a) Theorem 1 and the calibration interval, (b) Theorem 2 and its bound, (c) the nu-property, (d) the outlier argument,
(e) the identity of the hinge.
Prints the tables of docs/theory.md; takes about a minute. Usage: python examples/theory.py
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from atklearn import ATkClassifier, CollapseWarning, theory
from atklearn.theory.outliers import OutlierRange

SIMULATIONS = 100
TRAINING_SETS = 1000

# (a) Six points, one indicator feature each, so that linear functions are all functions: Theorem 1's own setting.
PRIOR = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
NOISY = np.array([0.95, 0.1, 0.85, 0.2, 0.9, 0.05])
CLEAN = np.array([0.99, 0.02, 0.97, 0.02, 0.99, 0.01])
SHIFT = 1.2

# (b) f(x) = w x on x in {-1, -1/2, 1/2, 1}, one label in ten wrong. The hinge risk is smallest at w = 2.
LINE_X = np.array([[-1.0], [-0.5], [0.5], [1.0]])
LINE_POSITIVE = np.array([0.1, 0.1, 0.9, 0.9])
LINE = {"kappa": 1.0, "norm": 2.0, "risk": 0.25, "approximation": 0.05}


def fit(X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None, **parameters: object) -> ATkClassifier:
    """Fit a classifier; a collapse is a result here and needs no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        return ATkClassifier(**parameters).fit(X, y, sample_weight)


def bayes_error(prior: np.ndarray, positive: np.ndarray) -> float:
    """Return the Bayes error of a discrete distribution."""
    return float(prior @ np.minimum(positive, 1.0 - positive))


def draw_points(positive: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw indicator features and labels."""
    point = rng.choice(PRIOR.size, size=n, p=PRIOR)
    return np.eye(PRIOR.size)[point], np.where(rng.random(n) < positive[point], 1.0, -1.0)


def draw_gaussian(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw from two unit Gaussians in the plane; the Bayes rule is the sign of the first feature."""
    y = rng.choice([-1.0, 1.0], size=n)
    X = rng.standard_normal((n, 2))
    X[:, 0] += SHIFT * y
    return X, y


def gaussian_switch() -> float:
    """Return the smallest hinge risk of a linear function: by symmetry that of ``a x_1``, y x_1 being N(SHIFT, 1)."""

    def risk(a: float) -> float:
        gap = (1.0 - a * SHIFT) / a
        return float(a * (gap * norm.cdf(gap) + norm.pdf(gap)))

    return float(minimize_scalar(risk, bounds=(1e-3, 10.0), method="bounded").fun)


def theorem_1_population() -> None:
    """Fit the distribution itself, its probabilities being sample weights, around the switch 2 R*."""
    X, y = np.tile(np.eye(PRIOR.size), (2, 1)), np.repeat([1.0, -1.0], PRIOR.size)
    mass = np.concatenate([PRIOR * NOISY, PRIOR * (1.0 - NOISY)])
    bayes = np.sign(NOISY - 0.5)
    print(f"(a) Theorem 1 on the population: R* = {bayes_error(PRIOR, NOISY):.3f}, switch 2 R* = 0.200")
    print(f"{'k/n':>8} {'loss':>9} {'|w|':>8}  points where the sign is that of Bayes")
    for loss in ("hinge", "log_loss"):
        for share in (0.05, 0.15, 0.199, 0.201, 0.25, 0.5, 1.0):
            model = fit(X, y, mass, loss=loss, k=share, C=1e4, fit_intercept=False)
            agree = int((np.sign(model.coef_[0]) == bayes).sum())
            print(f"{share:8.3f} {loss:>9} {np.linalg.norm(model.coef_):8.3f}  {agree} of {bayes.size}")


def theorem_1_samples() -> None:
    """Count how often the interval covers the switch, and look at the fits at its two ends."""
    cases = {
        "noisy points": (lambda n, rng: draw_points(NOISY, n, rng), 2.0 * bayes_error(PRIOR, NOISY), NOISY),
        "clean points": (lambda n, rng: draw_points(CLEAN, n, rng), 2.0 * bayes_error(PRIOR, CLEAN), CLEAN),
        "two Gaussians": (draw_gaussian, gaussian_switch(), None),
    }
    print(f"\n(a) Calibration interval, confidence 0.95, {SIMULATIONS} simulations each")
    print(
        f"{'distribution':>14} {'loss':>9} {'n':>5} {'switch':>7} {'mean interval':>15} {'covers':>7} {'tight':>6} "
        f"{'w = 0 below':>12} {'differs from Bayes above':>25}"
    )
    for name, (draw, switch, positive) in cases.items():
        for loss, n in (("hinge", 200), ("hinge", 1000), ("log_loss", 1000)):
            print(f"{name:>14} {loss:>9} {n:5d} {switch:7.3f} {simulate_intervals(draw, switch, positive, loss, n)}")
    X, y = draw_gaussian(1000, np.random.default_rng(0))
    print(f"\n{theory.calibration_interval(X, y, random_state=0)}")


def simulate_intervals(draw: object, switch: float, positive: np.ndarray | None, loss: str, n: int) -> str:
    """Return the row of the table for one distribution, loss and n."""
    discrete = positive is not None
    ends, covers, tight, tried, zeros, differing = [], 0, 0, 0, 0, []
    X_test = np.eye(PRIOR.size) if discrete else draw_gaussian(10_000, np.random.default_rng(1))[0]
    bayes = np.sign(positive - 0.5) if discrete else np.sign(X_test[:, 0])
    for seed in range(SIMULATIONS):
        X, y = draw(n, np.random.default_rng([seed, n]))
        interval = theory.calibration_interval(X, y, loss, fit_intercept=not discrete, random_state=seed)
        ends.append((interval.lower, interval.upper))
        covers += interval.lower <= switch <= interval.upper
        tight += interval.switch_lower <= switch <= interval.switch_upper
        if interval.degenerate_k > 0:
            tried += 1
            zeros += not fit(X, y, loss=loss, k=interval.degenerate_k, C=1e4, fit_intercept=not discrete).coef_.any()
        model = fit(X, y, loss=loss, k=interval.calibrated_k, C=1e4, fit_intercept=not discrete)
        differing.append(np.mean(np.sign(model.decision_function(X_test)) != bayes))
    low, high = np.mean(ends, axis=0)
    return (
        f"[{low:.3f}, {high:.3f}] {covers:7d} {tight:6d} {f'{zeros} of {tried}':>12} "
        f"{100.0 * np.mean(differing):23.2f} %"
    )


def theorem_2() -> None:
    """Compare the excess error over training sets with the bound, and the norm of the solution with its radius."""
    print(f"\n(b) Theorem 2, C = 1, {TRAINING_SETS} training sets each: f_H(x) = 2 x, R* = 0.1, A = 0.05")
    print(
        f"{'n':>7} {'mu':>5} {'k':>7} {'epsilon':>8} {'bound':>7} {'stated':>7} {'probability':>12} {'exceeded':>9} "
        f"{'largest excess':>15} {'|f| > rho R':>12} {'its probability':>16}"
    )
    for n, mu in ((300, 0.15), (300, 0.6), (30_000, 0.15), (30_000, 0.6), (300_000, 0.15), (1_000_000, 0.1)):
        excess, ratio = simulate_line(n, mu)
        for epsilon in (0.05, 0.2):
            bound = theory.excess_error_bound(n, mu=mu, epsilon=epsilon, C=1.0, **LINE)
            exceeded = float(np.mean(excess >= bound.value))
            passed = float(np.mean(ratio > bound.radius))
            assert exceeded <= bound.probability
            assert passed <= bound.radius_failure
            print(
                f"{n:7d} {mu:5.2f} {bound.k:7d} {epsilon:8.2f} {bound.value:7.3f} {bound.stated_value:7.3f} "
                f"{bound.probability:12.2e} {exceeded:9.3f} {excess.max():15.4f} {passed:12.3f} "
                f"{bound.radius_failure:16.2e}"
                f"{'  vacuous' if bound.is_vacuous else ''}"
            )
    print("best mu, confidence 0.95:", theory.excess_error_bound(1_000_000, confidence=0.95, C=1.0, **LINE))
    for wanted in (0.5, 0.3, 0.2):
        print(f"for a bound of {wanted}:", theory.required_samples(wanted, confidence=0.95, C=1.0, **LINE))


def simulate_line(n: int, mu: float) -> tuple[np.ndarray, np.ndarray]:
    """Return excess errors and ``|f| / rho`` over training sets, drawn as counts of the eight (x, y)."""
    bound = theory.excess_error_bound(n, mu=mu, epsilon=1.0, C=1.0, **LINE)
    X, y = np.tile(LINE_X, (2, 1)), np.repeat([1.0, -1.0], 4)
    joint = np.concatenate([LINE_POSITIVE, 1.0 - LINE_POSITIVE]) / 4.0
    rng = np.random.default_rng([n, int(1000 * mu)])
    excess, ratio = np.empty((2, TRAINING_SETS))
    for trial in range(TRAINING_SETS):
        counts = rng.multinomial(n, joint)
        model = fit(X, y, counts, loss="hinge", k=bound.k, C=bound.library_C, fit_intercept=False)
        wrong = np.where(model.predict(LINE_X) > 0, 1.0 - LINE_POSITIVE, LINE_POSITIVE)
        excess[trial] = max(wrong.mean() - 0.1, 0.0)  # not -1e-17
        rho = 1.0 - model.loss_threshold_
        ratio[trial] = np.linalg.norm(model.coef_) / rho if rho > 0.0 else np.inf
    return excess, ratio


def nu_property() -> None:
    """Check the property over random fits, with and without a positive threshold."""
    held = two_sided = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X, y = draw_gaussian(300, rng)
        mass = rng.uniform(0.5, 2.0, 300)
        model = fit(X, y, mass, loss="hinge", k=rng.uniform(0.02, 1.0), C=10.0 ** rng.uniform(-2, 3))
        found = theory.check_nu_property(model, X, y, mass)
        held += found.holds
        two_sided += found.is_two_sided
    print(f"\n(c) nu-property: holds in {held} of 200 weighted fits, {two_sided} of them with rho < 1; for example")
    X, y = draw_gaussian(300, np.random.default_rng(0))
    for k in (30, 90, 150, 300):
        model = fit(X, y, loss="hinge", k=k, C=1.0)
        print(f"    {theory.check_nu_property(model, X, y)}")


def outliers() -> None:
    """Flip one label in twenty of data that are separable otherwise, and vary k around the number of flips."""
    allowed = theory.k_for_outliers(0.05, 1000)
    print(f"\n(d) {allowed}")
    print(f"{'first feature -1 or 1':>49} | up to 1.5 either side")
    print(
        f"{'k':>5} {'outliers weigh up to':>21} {'w = 0':>7} {'not as Bayes':>13} | {'w = 0':>7} {'not as Bayes':>13}"
    )
    for k in (25, 50, 75, allowed.lower, 125, 150, 200, 500, 1000):
        zeros, differs = zip(*(simulate_flips(allowed, k, spread) for spread in (0.0, 0.5)), strict=True)
        print(
            f"{k:5d} {allowed.outlier_weight(k):21.2f} {zeros[0]:4d}/20 {100.0 * differs[0]:11.1f} % | "
            f"{zeros[1]:4d}/20 {100.0 * differs[1]:11.1f} %"
        )


def simulate_flips(allowed: OutlierRange, k: int, spread: float) -> tuple[int, float]:
    """Return how many of 20 fits collapse, and how often their predictions differ from the Bayes rule."""
    n, zeros, differing = allowed.n_samples, 0, []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth = rng.choice([-1.0, 1.0], size=n)
        X = np.column_stack([truth * rng.uniform(1.0, 1.0 + spread, n), rng.standard_normal((n, 4))])
        y = np.where(np.arange(n) < allowed.n_outliers, -truth, truth)
        model = fit(X, y, loss="hinge", k=k, C=1e3)
        zeros += not model.coef_.any()
        differing.append(np.mean(model.predict(X) != truth))
    return zeros, float(np.mean(differing))


def hinge_identity() -> None:
    """Compare AT_k fits with averages: at the C of the identity, and, for three losses, at the nearest of a grid."""
    rng = np.random.default_rng(0)
    X, y = draw_gaussian(301, rng)
    X[:20] += [1.0, 2.0]  # a group of its own: top and average disagree
    y[:20] = -1.0
    fresh = draw_gaussian(10_000, rng)[0]
    print("\n(e) hinge at C = 0.1: rho times the average at C', and 10000 new points")
    print("    k     rho       C'  |w - rho w'| / |w|  signs that differ")
    for k in (145, 165, 185, 225, 301):
        model = fit(X, y, loss="hinge", k=k, C=0.1, tol=1e-10)
        rho, C = theory.hinge_equivalent(model)
        average = fit(X, y, loss="hinge", k=1.0, C=C, tol=1e-10)
        distance = np.linalg.norm(model.coef_ - rho * average.coef_) / np.linalg.norm(model.coef_)
        differing = np.count_nonzero(model.predict(fresh) != average.predict(fresh))
        print(f"{k:5d} {rho:7.4f} {C:8.3f} {distance:19.0e} {differing:18d}")
    print("    k = 165: angle to the nearest of 161 averages with C from 1e-3 to 1e5, in degrees")
    for loss in ("hinge", "log_loss", "squared_hinge"):
        boundary = direction(fit(X, y, loss=loss, k=165, C=0.1, tol=1e-8))
        averages = [direction(fit(X, y, loss=loss, k=1.0, C=C, tol=1e-8)) for C in np.geomspace(1e-3, 1e5, 161)]
        print(f"{loss:>17} {np.degrees(np.arccos(min(1.0, max(boundary @ other for other in averages)))):.3f}")


def direction(model: ATkClassifier) -> np.ndarray:
    """Return the boundary as a vector of length one, intercept included."""
    boundary = np.append(model.coef_, model.intercept_)
    return boundary / np.linalg.norm(boundary)


if __name__ == "__main__":
    theorem_1_population()
    theorem_1_samples()
    theorem_2()
    nu_property()
    outliers()
    hinge_identity()
