"""Triton without a GPU: its interpreter runs the kernels in a process of its own, and its compiler takes them all."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.stores.tensors import tensor_state
from atklearn.stores.tensors.tensor_losses import TensorLoss

ROOT = Path(__file__).parents[2]
# Of the many cases that a GPU does in no time, some of each kind.
FEW = "(share_of and 0.1) or (masked and NaN and 0.3 and 3000) or (misleads and often and zeros)"

if find_spec("triton") is None:
    pytest.skip("needs Triton: pip install 'atklearn[torch-dev]'", allow_module_level=True)


@pytest.mark.parametrize(
    "which", [["tests/stores/test_tensor_passes.py", "-k", "kernels"], ["tests/pytorch/test_fused_rows.py", "-k", FEW]],
    ids=["of the solver", "of large rows"],
)  # fmt: skip
def test_kernels_obey_their_laws(which):
    """Whether kernels are interpreted is decided when Triton is imported."""
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses", "0", "-p", "no:cacheprovider", *which]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def compiled_size(kernel, **constants):
    """Compile a kernel for a GPU that need not be there; return the length of its code."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler import compile as compile_kernel

    def kind(parameter):
        if parameter.name in constants:
            return "constexpr"
        if parameter.annotation_type:
            return parameter.annotation_type
        is_count = parameter.name in ("n", "m", "first", "n_listed") or parameter.name.endswith("stride")
        return "i64" if is_count else {"y": "*i8", "rows": "*i64"}.get(parameter.name, "*fp64")

    signature = {parameter.name: kind(parameter) for parameter in kernel.params}
    values = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    return len(compile_kernel(ASTSource(kernel, signature, values), target=GPUTarget("cuda", 90, 32)).asm["ptx"])


@pytest.mark.skipif(sys.platform != "linux", reason="Triton compiles for GPUs on Linux only")
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize("name", INDIVIDUAL_LOSSES)
def test_every_formula_is_compiled_into_kernels(name):
    kernels = TensorLoss(INDIVIDUAL_LOSSES[name](), torch.device("cpu")).kernels
    loss = dict(zip(("expand", "two_sided", "smooth"), kernels, strict=False))
    assert compiled_size(tensor_state._look, **loss, has_along=True, n_sums=32, block=128)
    flags = {"cautious": loss["smooth"], "has_rows": True, "has_own": True}
    assert compiled_size(tensor_state._weigh_rows, **loss, **flags, block=256)
    if name != "huber":  # which has a parameter
        return
    assert compiled_size(tensor_state._fill, **loss, what="stratum", block=1024)
    assert compiled_size(tensor_state._weigh_sides, **loss, block=256)
    assert compiled_size(tensor_state._scale_sides, **loss, block=256)
    assert compiled_size(tensor_state._bound, **loss, has_moved=True, block=256)
