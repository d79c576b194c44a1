# mypy: disable-error-code="no-untyped-def, attr-defined"
"""The built-in losses and the densities of samples inside kernels, in float64."""

from __future__ import annotations

from atklearn.stores.tensors.triton_language import constant, jit, tl

__all__ = ["ABSOLUTE_ERROR", "density_of", "enters", "expand", "is_smooth", "losses_of"]

# In the order of ``tensor_losses``.
LOG_LOSS, HINGE, SQUARED_HINGE, SQUARED_ERROR, ABSOLUTE_ERROR, HUBER = (constant(code) for code in range(6))


@jit
def expand(code: tl.constexpr, delta, f, y):
    """Return the smooth part of the losses, its slope and its curvature."""
    if code == LOG_LOSS:
        margin = y * f
        decay = tl.exp(-tl.abs(margin))
        whole = 1.0 + decay
        part = 1.0 / whole
        # log1p(decay): the logarithm of the rounded sum, and what rounding has left out of it
        s = tl.log(whole) + (decay - (whole - 1.0)) * part - tl.minimum(margin, 0.0)
        wrong = tl.where(margin >= 0.0, decay, 1.0) * part
        slope = -y * wrong
        bend = wrong * (1.0 - wrong)
    elif code == HINGE:
        s = 1.0 - y * f
        slope = -y
        bend = s * 0.0
    elif code == SQUARED_HINGE:
        violation = tl.maximum(1.0 - y * f, 0.0)
        s = violation * violation
        slope = -2.0 * y * violation
        bend = tl.where(violation > 0.0, 2.0, 0.0).to(tl.float64)
    elif code == SQUARED_ERROR:
        error = f - y
        s = error * error
        slope = 2.0 * error
        bend = error * 0.0 + 2.0
    elif code == ABSOLUTE_ERROR:
        s = y - f
        slope = s * 0.0 - 1.0
        bend = s * 0.0
    else:
        error = f - y
        slope = tl.minimum(tl.maximum(error, -delta), delta)
        s = slope * (error - 0.5 * slope)
        bend = tl.where(tl.abs(error) <= delta, 1.0, 0.0).to(tl.float64)
    return s, slope, bend


@jit
def losses_of(code: tl.constexpr, s):
    """Return the losses, but for the positive part of those that have one."""
    return tl.abs(s) if code == ABSOLUTE_ERROR else s


@jit
def is_smooth(code: tl.constexpr):
    """Say whether a loss has no kink."""
    return (code != HINGE) and (code != ABSOLUTE_ERROR)


@jit
def enters(code: tl.constexpr, slope, bend):
    """Say which samples, their density being at its upper bound, go into the Hessian, be it a cautious one."""
    if is_smooth(code):
        return (bend > 0.0) | (slope != 0.0)
    else:
        return bend > 0.0


@jit
def density_of(code: tl.constexpr, s, centre, inverse_mu, lam):
    """Return the densities at a smoothing and a threshold."""
    if code == ABSOLUTE_ERROR:
        sign = tl.where(centre + s * inverse_mu < 0.0, -1.0, 1.0).to(tl.float64)
        r = sign * tl.minimum(tl.maximum(sign * centre + (sign * s - lam) * inverse_mu, 0.0), 1.0)
    else:
        # (s - lam) / mu, not s / mu - lam / mu: for small mu the latter cancels
        r = tl.minimum(tl.maximum(centre + (s - lam) * inverse_mu, 0.0), 1.0)
    return r
