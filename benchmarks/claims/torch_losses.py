"""The loss for PyTorch: forward and backward over the mean, which is what it replaces, and over torch.topk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from claims.claim import Claim, Contest, Setting, nothing

N_LOSSES = {"cpu": 10**6, "gpu": 10**8}
LOGITS = {"cpu": (1, 19, 256, 512), "gpu": (4, 19, 1024, 2048)}
IGNORED = 255


def top_k(losses: Any, share: float) -> Any:
    return losses.flatten().topk(max(1, int(share * losses.numel()))).values.mean()


def aggregate(name: str, share: float, mask: Any = None) -> Callable[[Any], Any]:
    """Return one of the three as a function of the losses."""
    from atklearn.torch import average_top_k

    if name == "topk":
        return lambda losses: top_k(losses, share)
    if name == "atklearn":
        return lambda losses: average_top_k(losses, share, mask=mask)
    return lambda losses: losses.mean() if mask is None else losses.sum() / mask.sum()


def burst(run: Callable[[], Any], times: int) -> Callable[[], Any]:
    """Return many runs as one, so that the host is ahead of the device and its own time does not count."""

    def runs() -> Any:
        for _ in range(times):
            result = run()
        return result

    return runs


def captured(run: Callable[[], Any]) -> Callable[[], Any]:
    """Return the replay of a run as a CUDA graph, in which the host has no part."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def contest(runs: list[Callable[[], Any]], *, gpu: bool, tiny: bool, capture: bool) -> Contest:
    import torch

    if gpu and not tiny:
        runs = [burst(captured(run) if capture else run, 20) for run in runs]
        return Contest(*runs, turns=3, settle=torch.cuda.synchronize)
    return Contest(*runs, turns=1 if tiny else 30, settle=torch.cuda.synchronize if gpu else nothing)


def of_losses(setting: Setting, *, over: str, share: float, where: str) -> Contest:
    import torch

    gpu = where == "gpu" and torch.cuda.is_available()
    generator = torch.Generator("cuda" if gpu else "cpu").manual_seed(0)
    losses = torch.empty(setting.rows(N_LOSSES[where]), device=generator.device)
    losses.exponential_(generator=generator).requires_grad_()

    def down(name: str) -> Callable[[], Any]:
        average = aggregate(name, share)
        return lambda: torch.autograd.grad(average(losses), losses)

    return contest([down("atklearn"), down(over)], gpu=gpu, tiny=setting.tiny, capture=True)


def of_pixels(setting: Setting, *, over: str, kind: str, where: str) -> Contest:
    import torch

    gpu = where == "gpu" and torch.cuda.is_available()
    generator = torch.Generator("cuda" if gpu else "cpu").manual_seed(0)
    batch, classes, height, width = (1, 19, 16, 32) if setting.tiny else LOGITS[where]
    device = generator.device
    logits = torch.randn((batch, classes, height, width), generator=generator, device=device)
    target = torch.randint(classes, (batch, height, width), generator=generator, device=device)
    mask = None
    if kind == "ignored":
        target = target.masked_fill(torch.rand(target.shape, generator=generator, device=device) < 0.1, IGNORED)
        mask = target != IGNORED
    inputs = logits.to(torch.bfloat16 if kind == "bfloat16" else torch.float32).requires_grad_()

    def down(name: str) -> Callable[[], Any]:
        average = aggregate(name, 0.1, mask)

        def run() -> Any:
            losses = torch.nn.functional.cross_entropy(inputs, target, reduction="none", ignore_index=IGNORED)
            return torch.autograd.grad(average(losses), inputs)

        return run

    return contest([down("atklearn"), down(over)], gpu=gpu, tiny=setting.tiny, capture=False)


OVER = {"mean": "the mean of the losses", "topk": "`torch.topk(...).mean()`"}
KINDS = {"float32": "float32", "bfloat16": "bfloat16", "ignored": "float32, a tenth of the pixels ignored"}


def claims_of(where: str) -> list[Claim]:
    common = {
        "packages": ("torch", "triton") if where == "gpu" else ("torch",),
        "needs": ("torch",),
        "threads": 1 if where == "gpu" else "all",
        "rounds": 5,
        "machine": where,
    }
    shares = (0.1, 0.5, 0.01) if where == "gpu" else (0.1,)
    kinds = KINDS if where == "gpu" else {"float32": "float32"}
    return [
        *(
            Claim(
                f"torch/{where}-losses-{share:g}-{over}",
                f"forward and backward, k = {share:.0%}",
                f"{N_LOSSES[where]:.0e} losses".replace("e+0", "e"),
                told,
                partial(of_losses, over=over, share=share, where=where),
                **common,
            )
            for share in shares
            for over, told in OVER.items()
        ),
        *(
            Claim(
                f"torch/{where}-step-{kind}-{over}",
                f"cross entropy per pixel, k = 10 %, down to the logits, {said}",
                " x ".join(f"{size}" for size in LOGITS[where]),
                told,
                partial(of_pixels, over=over, kind=kind, where=where),
                **common,
            )
            for kind, said in kinds.items()
            for over, told in OVER.items()
            if over == "mean" or kind == "float32"
        ),
    ]


CLAIMS = [*claims_of("cpu"), *claims_of("gpu")]
