"""The exact solver on a GPU: over torch.optim.LBFGS there, and over our own on the cores of the same machine."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from claims.accuracy import estimator
from claims.claim import LOSS_NAMES, Claim, Contest, Setting, share

SIZES = {"1e7 x 100": (10**7, 100), "1e8 x 32": (10**8, 32)}
TOL = 1e-6


def on_device() -> None:
    """Let tensors do all that is asked of them: few numbers, and all on the CPU, would go to the other solver."""
    from atklearn.encoding import encoded as encoding

    encoding.is_quicker_on_host = lambda *_: False


def gap(model: Any) -> float:
    return float(model.dual_gap_ / model.objective_)


def against_lbfgs(setting: Setting, *, size: tuple[int, int], loss: str) -> Contest:
    from claims import tensors

    on_device()
    data = tensors.made(setting.rows(size[0]), size[1])
    y = data.targets(loss)
    numbers = y.double()

    def ours() -> Any:
        return estimator(loss, k=1.0, C=float(data.n), tol=TOL).fit(data.X, y)

    best = estimator(loss, k=1.0, C=float(data.n), tol=1e-8).fit(data.X, y)
    bound = float(best.objective_ - best.dual_gap_)
    return Contest(
        ours,
        lambda: tensors.descend(data, numbers, loss, (1.0 + TOL) * bound),
        lambda model, least: (float(model.objective_) / bound - 1.0, least / bound - 1.0),
        settle=tensors.wait,
    )


@lru_cache(maxsize=1)
def on_the_host(n: int, d: int) -> tuple[Any, Any]:
    from claims import tensors

    data = tensors.made(n, d)
    return data.X.cpu().numpy(), data.targets("log_loss").cpu().numpy()


def against_cores(setting: Setting, *, size: tuple[int, int], k: float) -> Contest:
    from claims import tensors

    on_device()
    data = tensors.made(setting.rows(size[0]), size[1])
    X, labels = on_the_host(data.n, data.d)
    y = data.targets("log_loss")

    def fit(X: Any, y: Any) -> Any:
        return estimator("log_loss", k=k, C=float(data.n), tol=TOL).fit(X, y)

    fit(X[:100_000], labels[:100_000])
    fit(data.X, y)
    tensors.wait()
    return Contest(
        lambda: fit(data.X, y),
        lambda: fit(X, labels),
        lambda model, other: (gap(model), gap(other)),
        settle=tensors.wait,
        warm=True,
    )


def claim(name: str, **told: Any) -> Claim:
    return Claim(f"gpu/{name}", needs=("torch",), machine="gpu", **told)


CLAIMS = [
    each
    for told, size in SIZES.items()
    for each in (
        *(
            claim(
                f"lbfgs-{loss}-{size[1]}",
                task=f"{LOSS_NAMES[loss]}, k = n, C = n",
                sizes=told,
                over="`torch.optim.LBFGS`, stopped when within 1e-6, which it knows from us",
                prepare=partial(against_lbfgs, size=size, loss=loss),
                packages=("torch",),
            )
            for loss in ("log_loss", "squared_hinge", "huber", "squared_error")
        ),
        *(
            claim(
                f"cores-{k:g}-{size[1]}",
                task=f"log loss, {share(k)}, C = n",
                sizes=told,
                over="our own on all cores",
                prepare=partial(against_cores, size=size, k=k),
                packages=(),
                threads="all",
                rounds=2,
            )
            for k in (1.0, 0.5)
        ),
    )
]
