"""The peak of memory of a fit beyond X, in units of the size of X."""

from __future__ import annotations

import ctypes
from functools import partial
from pathlib import Path

from claims.accuracy import estimator
from claims.claim import LOSS_NAMES, Claim, Gauge, Setting, shape, share
from claims.data import linear_data, wide_data

MARKER = Path("/proc/self/clear_refs")
CASES = (
    ((1_000_000, 50), "log_loss", 1.0),
    ((1_000_000, 50), "log_loss", 0.5),
    ((1_000_000, 50), "squared_error", 0.01),
    ((2000, 2000), "log_loss", 0.5),
    ((2000, 2000), "squared_error", 1.0),
    ((5000, 3000), "log_loss", 0.5),
    ((500, 5000), "squared_error", 1.0),
)


def status(field: str) -> float:
    """Return an entry of Linux's status of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def peak(setting: Setting, *, size: tuple[int, int], loss: str, k: float) -> Gauge:
    if not MARKER.exists():
        raise RuntimeError("Peaks of memory are read from /proc/self/clear_refs, which only Linux has.")
    n, d = setting.rows(size[0]), setting.columns(size[1])
    if d < 1000:
        X, y = linear_data(loss, n, d)
    else:
        X, *targets = wide_data(n, d, "plain")
        y = targets[loss == "squared_error"]
    estimator(loss, k=k, tol=1e-4).fit(X[:300], y[:300])  # compiled code is no memory of the fit

    def read() -> float:
        ctypes.CDLL(None).malloc_trim(0)  # memory that was freed but kept would hide what the fit takes
        MARKER.write_text("5")  # resets the peak
        before = status("VmRSS")
        estimator(loss, k=k, tol=1e-4).fit(X, y)
        return (status("VmHWM") - before) / float(X.nbytes)

    return Gauge(read)


CLAIMS = [
    Claim(
        f"memory/{loss}-{size[0]}x{size[1]}-{k:g}",
        f"{LOSS_NAMES[loss]}, {share(k)}",
        shape(*size),
        "the size of X",
        partial(peak, size=size, loss=loss, k=k),
        packages=(),
        rounds=2,
    )
    for size, loss, k in CASES
]
