"""The average top-k loss in PyTorch: what it costs beside the mean, and beside torch.topk.

losses   forward and backward on many losses (1e8 on a GPU, 1e6 without one), k = 10 %, 50 % and 1 %.
step     cross-entropy on logits of 4 x 19 x 1024 x 2048 (of 1 x 19 x 128 x 256 without a GPU) down to the gradient of
         the logits, k = 10 %: in float32, in bfloat16, and with a tenth of the pixels ignored.

Prints milliseconds, and times over those of the mean: the median of ratios of runs that take turns. On a GPU ``losses``
are also timed as captured graphs, in which the host has no part.

Usage: ./run bench torch_loss [losses|step ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from atklearn.torch import average_top_k

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
N_LOSSES = 10**8 if ON_GPU else 10**6
LOGITS = (4, 19, 1024, 2048) if ON_GPU else (1, 19, 128, 256)
SHARES = (0.1, 0.5, 0.01)
IGNORED = 255
REPEATS = 40 if ON_GPU else 10

Average = Callable[[Tensor], Tensor]


def milliseconds(runs: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return the times of every run, all of them taking turns; on a GPU nothing waits in between."""
    for run in (*runs.values(), *runs.values()):
        run()
    if not ON_GPU:
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(REPEATS):
            for name, run in runs.items():
                start = time.perf_counter()
                run()
                times[name].append(1e3 * (time.perf_counter() - start))
        return times
    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in runs}
    for _ in range(REPEATS):
        for name, run in runs.items():
            start_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start_event.record()
            run()
            end_event.record()
            events[name].append((start_event, end_event))
    torch.cuda.synchronize()
    return {name: [start.elapsed_time(end) for start, end in pairs] for name, pairs in events.items()}


def report(what: str, runs: dict[str, Callable[[], object]]) -> None:
    """Print the times of all runs, the first of which is the mean."""
    times = milliseconds(runs)
    base = next(iter(times.values()))
    print(what)
    for name, own in times.items():
        ratio = median(one / other for one, other in zip(own, base, strict=True))
        print(f"    {name:10}{median(own):10.3f} ms {ratio:9.3f}")


def captured(run: Callable[[], object]) -> Callable[[], object]:
    """Return the replay of a run as a CUDA graph."""
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


def top_k(losses: Tensor, share: float) -> Tensor:
    return losses.flatten().topk(max(1, int(share * losses.numel()))).values.mean()


def compare_losses() -> None:
    losses = torch.empty(N_LOSSES, device=DEVICE).exponential_().requires_grad_()

    def down_to_losses(average: Average) -> Callable[[], object]:
        return lambda: torch.autograd.grad(average(losses), losses)

    for share in SHARES:
        runs = {
            "mean": down_to_losses(torch.mean),
            "torch.topk": down_to_losses(lambda x, share=share: top_k(x, share)),  # type: ignore[misc]
            "atklearn": down_to_losses(lambda x, share=share: average_top_k(x, share)),  # type: ignore[misc]
        }
        report(f"{N_LOSSES:.0e} losses, k = {share:.0%}", runs)
        if ON_GPU:
            report("  the same, captured", {name: captured(run) for name, run in runs.items()})


def compare_steps() -> None:
    generator = torch.Generator(DEVICE).manual_seed(0)
    logits = torch.randn(LOGITS, generator=generator, device=DEVICE)
    target = torch.randint(LOGITS[1], (LOGITS[0], *LOGITS[2:]), generator=generator, device=DEVICE)
    ignored = torch.rand(target.shape, generator=generator, device=DEVICE) < 0.1
    for what, dtype, pixels in [
        ("float32", torch.float32, target),
        ("bfloat16", torch.bfloat16, target),
        ("float32, a tenth ignored", torch.float32, target.masked_fill(ignored, IGNORED)),
    ]:
        inputs = logits.to(dtype).requires_grad_()
        valid = pixels != IGNORED if pixels is not target else None

        def down_to_logits(average: Average, inputs: Tensor = inputs, pixels: Tensor = pixels) -> Callable[[], object]:
            def run() -> object:
                losses = torch.nn.functional.cross_entropy(inputs, pixels, reduction="none", ignore_index=IGNORED)
                return torch.autograd.grad(average(losses), inputs)

            return run

        def plain_mean(losses: Tensor, valid: Tensor | None = valid) -> Tensor:
            return losses.mean() if valid is None else losses.sum() / valid.sum()

        runs = {
            "mean": down_to_logits(plain_mean),
            "torch.topk": down_to_logits(lambda losses: top_k(losses, SHARES[0])),
            "atklearn": down_to_logits(lambda losses, valid=valid: average_top_k(losses, SHARES[0], mask=valid)),  # type: ignore[misc]
        }
        report(
            f"a step of cross-entropy, logits of {' x '.join(map(str, LOGITS))} in {what}, k = {SHARES[0]:.0%}", runs
        )


PARTS = {"losses": compare_losses, "step": compare_steps}

if __name__ == "__main__":
    print(torch.cuda.get_device_name() if ON_GPU else "CPU", "- PyTorch", torch.__version__)
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
