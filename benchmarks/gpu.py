"""The exact solver on tensors: seconds to a certified gap of 1e-6 on a GPU, for every loss and several k.

fits      ATkClassifier or ATkRegressor, checks of X and all, on generated data of 1e7 x 100 and of 1e8 x 32 in float64,
          and of 1e8 x 32 in float32; best of three. Beside them: passes, the time of a fit over that of reading X
          once. Labels are those of a line with much noise (wrong for 15 %); for k = n/100, where these would leave
          nothing but w = 0, with little (wrong for 0.1 %), and there k = n is fitted once more to compare with.
large     the same on 5e7 x 100, log loss alone.
real      the real data of a folder (ATKLEARN_DATA): coefficients beside the compiled solver's, in float64 and float32.

Beside L-BFGS and the compiled solver: ./run bench suite gpu

Without a GPU everything is a thousand times smaller, on the CPU.

Usage: ./run bench gpu [fits|large|real ...] [--columns 100 32] [--data NAME ...]
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from claims.tensors import DEVICE, NOISE, ON_GPU, Data, wait

from atklearn import ATkClassifier, ATkRegressor, CollapseWarning
from atklearn.datasets import DATASETS, load_dataset
from atklearn.encoding import encoded as encoding
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.runtime import namespaces

SIZES = {100: 10**7 if ON_GPU else 10**4, 32: 10**8 if ON_GPU else 10**5}  # rows for so many columns
CLASSIFICATION = [name for name, loss in INDIVIDUAL_LOSSES.items() if loss.task == "classification"]
LITTLE_NOISE = 0.003
TOL = 1e-6
REPEATS = 3


def seconds(run: Callable[[], Any], repeats: int = REPEATS) -> tuple[float, Any]:
    """Return the least time of some runs, after one that does not count, and what the last returned."""
    best = float("inf")
    for turn in range(repeats + 1):
        wait()
        start = time.perf_counter()
        out = run()
        wait()
        if turn:
            best = min(best, time.perf_counter() - start)
    return best, out


def data_of(d: int, dtype: torch.dtype = torch.float64, times: int = 1) -> Data:
    return Data(times * SIZES[d], d, dtype)


def pass_seconds(data: Data) -> float:
    """Return the time to read X once."""
    return seconds(lambda: data.X.sum(), 10)[0]


def model(loss: str, k: float, n: int) -> ATkClassifier | ATkRegressor:
    kind = ATkClassifier if loss in CLASSIFICATION else ATkRegressor
    return kind(loss, k=k, C=float(n), tol=TOL)


def timed_fit(data: Data, loss: str, k: float, y: Any) -> tuple[float, Any]:
    """Return the seconds of a fit, and the fitted model."""
    return seconds(lambda: model(loss, k, data.n).fit(data.X, y))


def fits(asked: argparse.Namespace) -> None:
    for d in asked.columns:
        _fits_on(data_of(d))
    if 32 in asked.columns:
        _fits_on(data_of(32, torch.float32))


def large(_asked: argparse.Namespace) -> None:
    _fits_on(data_of(100, times=5), ["log_loss"])


def _fits_on(data: Data, losses: Iterable[str] = INDIVIDUAL_LOSSES) -> None:
    once = pass_seconds(data)
    size = data.X.numel() * data.X.element_size()
    print(f"\n{data.name}: one pass over X {1e3 * once:.2f} ms ({size / once / 1e12:.2f} TB/s)")
    print(f"{'loss':15} {'k':>6} {'labels':>7} {'seconds':>8} {'passes':>7} {'steps':>6} {'gap':>8}")
    for loss in losses:
        cases = [("n", 1.0, NOISE), ("n/2", 0.5, NOISE), ("n/100", 0.01, NOISE)]
        if loss in CLASSIFICATION:
            cases[2:] = [("n", 1.0, LITTLE_NOISE), ("n/100", 0.01, LITTLE_NOISE)]
        for name, k, noise in cases:
            took, fitted = timed_fit(data, loss, k, data.targets(loss, noise))
            gap = fitted.dual_gap_ / fitted.objective_
            labels = "" if loss not in CLASSIFICATION else "noisy" if noise == NOISE else "clean"
            print(
                f"{loss:15} {name:>6} {labels:>7} {took:8.3f} {took / once:7.1f} {fitted.n_iter_:6d} {gap:8.0e}",
                flush=True,
            )
    if ON_GPU:
        peak = torch.cuda.max_memory_allocated() - size
        print(f"most memory beside X: {peak / 1e9:.1f} GB, {peak / data.n:.0f} bytes a row", flush=True)
        torch.cuda.reset_peak_memory_stats()


def real(asked: argparse.Namespace) -> None:
    folder = os.environ.get("ATKLEARN_DATA")
    if not folder:
        raise SystemExit("ATKLEARN_DATA is expected to name the folder with the real data, and does not.")
    namespaces.FEW_NUMBERS = 0  # nor are parts of them left to the compiled solver
    print("largest difference of coefficients from the compiled solver's, over losses and k = n, n/2, n/10; tol 1e-13")
    print(f"{'data':12} {'rows':>6} {'columns':>8} {'float64':>9} {'float32':>9}   gap claimed in float32")
    for name in asked.data:
        dataset = load_dataset(name, data_dir=folder, network=False)
        X, y = dataset.X, dataset.y
        X = np.ascontiguousarray((X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0))
        is_regression = dataset.task == "regression"
        y = (y - y.mean()) / y.std() if is_regression else y
        apart = {torch.float64: 0.0, torch.float32: 0.0}
        gap = 0.0
        for loss in INDIVIDUAL_LOSSES:
            if (loss in CLASSIFICATION) == is_regression:
                continue
            for k in (1.0, 0.5, 0.1):
                for dtype in apart:
                    data = torch.tensor(X, dtype=dtype, device=DEVICE)
                    arrays = data.cpu().numpy()  # in the same precision
                    fits = []
                    for features in (arrays, data):
                        kind = ATkClassifier if loss in CLASSIFICATION else ATkRegressor
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")  # a tolerance out of reach is what is asked for here
                            warnings.simplefilter("ignore", CollapseWarning)
                            fits.append(kind(loss, k=k, C=10.0, tol=1e-13).fit(features, y).to_numpy())
                    apart[dtype] = max(apart[dtype], float(np.abs(fits[0].coef_ - fits[1].coef_).max()))
                    if dtype == torch.float32:
                        gap = max(gap, float(np.max(fits[1].dual_gap_ / fits[1].objective_)))
        found = " ".join(f"{each:9.0e}" for each in apart.values())
        print(f"{name:12} {len(X):6d} {X.shape[1]:8d} {found}   {gap:.0e}", flush=True)


PARTS = {"fits": fits, "large": large, "real": real}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=["fits", "large"])
    parser.add_argument("--data", nargs="+", default=list(DATASETS), choices=list(DATASETS), help="for real")
    parser.add_argument("--columns", type=int, nargs="+", default=list(SIZES), choices=list(SIZES))
    asked = parser.parse_args()
    where = torch.cuda.get_device_name() if ON_GPU else "CPU"
    print(f"{time.strftime('%Y-%m-%d')}, {where}, {os.cpu_count()} cores, torch {torch.__version__}")
    encoding.is_quicker_on_host = lambda *_: False  # else few numbers, and all on the CPU, were the compiled solver's
    for part in asked.parts:
        PARTS[part](asked)


if __name__ == "__main__":
    main()
