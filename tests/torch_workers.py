"""Data-parallel training in several processes, and the same training in one: what the laws compare."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from atklearn.torch import AverageTopKLoss

N_STEPS = 4
CASES = {
    "batch": {"k": 0.3},
    "batch, counted": {"k": 7},
    "batch, rows": {"k": 0.5, "dim": 1},
    "dataset": {"k": 0.2, "scope": "dataset"},
    "dataset, accumulated": {"k": 0.2, "scope": "dataset", "accumulation_steps": 2},
    "batch of groups": {"k": 2, "n_groups": 4},
    "dataset of groups": {"k": 2, "scope": "dataset", "n_groups": 4},
}
EXTRAS = ["plain", "weighted and masked"]


def batch(step, extra):
    """Return the rows of a global batch, and what goes with them."""
    rng = torch.Generator().manual_seed(step)
    X = torch.randn(24, 3, generator=rng, dtype=torch.float64)
    given = {"group": torch.arange(48).reshape(24, 2) % 4}
    if extra != "plain":
        given["weight"] = torch.rand(24, 2, generator=rng, dtype=torch.float64) + 0.1
        given["mask"] = torch.rand(24, 2, generator=rng) < 0.7
    return X, (X.sum(1, keepdim=True) + 0.3 * torch.randn(24, 2, generator=rng, dtype=torch.float64)).abs(), given


def cuts(step, n_processes):
    """Return how many rows each process has: unequal, and none at all for the last one in the third step."""
    shares = [step + 1 + 3 * place for place in range(n_processes)]
    if n_processes > 1 and step == 2:
        shares[-1] = 0
    sizes = [24 * share // sum(shares) for share in shares]
    sizes[0] += 24 - sum(sizes)
    return sizes


def train(settings, extra, rank=0, n_processes=1, resume=None, keep_after=None):
    """Return losses and parameters over the steps, the parts of several micro-batches added up."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    loss = AverageTopKLoss(**settings)
    if (
        "accumulation_steps" in settings
    ):  # only the first part of a step may bring lambda up to date: begin with a good one
        begun = AverageTopKLoss(settings["k"], scope="dataset", sync=False)
        for step in range(40):
            X, target, given = batch(step, extra)
            needed = {name: tensor for name, tensor in given.items() if name != "group"}
            begun((model(X) - target).square().detach(), **needed)
        loss.load_state_dict(begun.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    first = 0
    if resume is not None:
        saved = torch.load(resume)
        model.load_state_dict(saved["model"])
        loss.load_state_dict(saved["loss"])
        first = saved["step"]
    parallel = nn.parallel.DistributedDataParallel(model) if n_processes > 1 else model
    n_parts = settings.get("accumulation_steps", 1)
    record = []
    for step in range(first, N_STEPS):
        X, target, given = batch(step, extra)
        sizes = cuts(step, n_processes)
        begin = sum(sizes[:rank])
        rows = torch.arange(begin, begin + sizes[rank])
        value = 0.0
        for number, part in enumerate(rows.tensor_split(n_parts)):
            is_last = number == n_parts - 1
            with nullcontext() if is_last or n_processes == 1 else parallel.no_sync():
                errors = (parallel(X[part]) - target[part]).square()
                needed = {name: tensor[part] for name, tensor in given.items() if name != "group" or loss.n_groups}
                # parts of unequal size are parts of one mean when they are told how many there are
                n_all = (given["mask"] * given["weight"]).sum() if extra != "plain" else 48
                counted = {"count": n_all / n_processes} if n_parts > 1 else {}
                part_value = loss(errors, **needed, **counted)
                part_value.backward()
                value += part_value.detach()
        if n_parts > 1 and n_processes > 1:  # parts are this process's own: their mean over processes is the loss
            dist.all_reduce(value)
            value /= n_processes
        record.append([float(value), *(g for p in model.parameters() for g in p.grad.flatten().tolist())])
        optimizer.step()
        optimizer.zero_grad()
        if keep_after is not None and step + 1 == keep_after[0] and rank == 0:
            torch.save({"model": model.state_dict(), "loss": loss.state_dict(), "step": step + 1}, keep_after[1])
    return torch.tensor(record, dtype=torch.float64)


def worker(rank, n_processes, folder):
    """Train all cases in one of several processes; write what the first one found."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=n_processes)
    found = {}
    for name, settings in CASES.items():
        for extra in EXTRAS:
            found[name, extra] = train(settings, extra, rank, n_processes)
        saved = Path(folder) / f"saved-{list(CASES).index(name)}"
        train(settings, "plain", rank, n_processes, keep_after=(2, saved))
        dist.barrier()
        found[name, "resumed"] = train(settings, "plain", rank, n_processes, resume=saved)
    loss = AverageTopKLoss(0.5).eval()
    if rank == 0:  # in evaluation nobody waits for anybody
        found["evaluated"] = loss(torch.tensor([1.0, 2.0, 3.0, 4.0])).item()
        torch.save(found, Path(folder) / "found")
    alone = AverageTopKLoss(0.5, sync=False)(torch.full((4,), float(rank)))
    assert alone.item() == rank
    dist.destroy_process_group()


def run(n_processes, folder):
    """Return what training in that many processes found."""
    mp.spawn(worker, (n_processes, str(folder)), nprocs=n_processes)
    return torch.load(Path(folder) / "found")
