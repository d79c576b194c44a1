# mypy: disable-error-code="no-untyped-def, attr-defined"
"""The Triton kernel that ends the search for the threshold: what `fused_kernels` begins."""

from __future__ import annotations

from atklearn.stores.tensors.triton_language import constant, jit, tl
from atklearn.torch.fused_kernels import (
    ABOVE,
    AT_BOTTOM,
    AT_TOP,
    BINNED,
    EXIST,
    FINISHED,
    HIGH,
    LARGEST_KEY,
    LEFT_OUT,
    LISTED,
    LOW,
    LOWEST_KEY,
    NOTHING,
    bin_of,
    bins_of,
    bits_of,
    ends_of,
    key_of,
    loss_of,
)

RADIX_BITS, RADIX = constant(8), constant(256)


@jit
def find_rank(counts, rank):
    """Return the bin that holds the rank-th from above, how many are in the bins above it, and how many in it."""
    at_least = tl.cumsum(counts, 0, reverse=True)
    chosen = tl.sum((at_least >= rank).to(tl.int32), 0) - 1
    passed = tl.max(tl.where(at_least < rank, at_least, 0), 0)
    reached = tl.min(tl.where(at_least >= rank, at_least, tl.max(at_least, 0)), 0)
    return chosen, passed, reached - passed


@jit
def read(values, mask, first, count, MASKED: tl.constexpr, SIZE: tl.constexpr):
    """Return losses from ``first`` on, and which of them exist."""
    place = first + tl.arange(0, SIZE).to(tl.int64)
    exists = place < count
    x = tl.load(values + place, mask=exists, other=0.0, cache_modifier=".cg").to(tl.float32)
    if MASKED:
        exists = exists & (tl.load(mask + place, mask=exists, other=0) != 0)
    return x, exists


@jit
def search(values, mask, count, base, bits, rank, MASKED: tl.constexpr, SIZE: tl.constexpr):
    """Find the rank-th largest of values with keys in [base, base + 2**bits), eight bits at a time.

    Return its key, how many are above it, how many are at it, and the sum of those above.
    """
    left = rank
    low = base * 0
    tied = base * 0
    while bits > 0:
        next_bits = tl.maximum(bits - RADIX_BITS, 0)
        counts = tl.zeros((RADIX,), tl.int64)
        for first in range(0, count, SIZE):
            x, exists = read(values, mask, first, count, MASKED, SIZE)
            offset = key_of(x).to(tl.int64) - base
            exists = exists & ((offset >> bits) == (low >> bits))
            digit = tl.where(exists, (offset - low) >> next_bits, 0).to(tl.int32)
            counts += tl.histogram(digit, RADIX, mask=exists).to(tl.int64)
        chosen, passed, tied = find_rank(counts, left)
        left -= passed
        low += chosen.to(tl.int64) << next_bits
        bits = next_bits
    total = tl.zeros((SIZE,), tl.float64)
    for first in range(0, count, SIZE):
        x, exists = read(values, mask, first, count, MASKED, SIZE)
        above = exists & (key_of(x).to(tl.int64) - base > low)
        total += tl.where(above, x, 0.0).to(tl.float64)
    return (base + low).to(tl.int32), rank - left, tied, tl.sum(total, 0)


@jit
def settle(
    losses, mask, k, k_stride, counters, bins, listed, lengths, binned, sums, more_sums, values, weights, n, n_slots,
    capacity, binned_capacity, n_lists, COUNTS: tl.constexpr, MASKED: tl.constexpr, LISTS: tl.constexpr,
    WIDTH: tl.constexpr, N_BINS: tl.constexpr, N_SLOTS: tl.constexpr, N_SUMS: tl.constexpr, N_MORE: tl.constexpr
):  # fmt: skip
    """Sum the listed losses above the threshold's bin, list those in it; the last program to finish does the rest.

    Of every row it leaves the value, and (threshold, cut, weight above the cut, weight at the cut) for the gradient.
    """
    SIZE: tl.constexpr = LISTS * WIDTH
    row = tl.program_id(1).to(tl.int64)
    programs = tl.num_programs(0)
    counter = counters + row * N_SLOTS
    bottom_key, top_key, tied_bottom, tied_top, _, _ = ends_of(counter)
    bottom, top = loss_of(bottom_key), loss_of(top_key)
    low_key, shift = bins_of(counter)
    n_listed = tl.load(counter + LISTED)
    all_listed = (tl.load(counter + LEFT_OUT) == 0) & (n_listed <= binned_capacity)
    above = tl.load(counter + ABOVE)
    exist = tl.load(counter + EXIST) if MASKED else n.to(tl.int64)
    tied = tl.load(counter + AT_TOP) - tl.where(top_key == LOWEST_KEY, n_slots - exist, 0)
    tied = tl.where(tied_top > 0, tied, 0)
    at_bottom = tl.load(counter + AT_BOTTOM) - tl.where(bottom_key == LOWEST_KEY, n_slots - exist, 0)
    at_bottom = tl.where((tied_bottom > 0) & (bottom_key < top_key), at_bottom, 0)
    wanted = tl.load(k + row * k_stride)
    mass = tl.minimum(wanted, exist.to(tl.float64)) if COUNTS else wanted * exist.to(tl.float64)
    rank = tl.maximum(tl.ceil(mass * (1.0 - 1e-12)).to(tl.int64), 1)

    over = above + tied
    below_top = (rank > over) & (rank <= over + n_listed + at_bottom) & all_listed
    chosen = tl.full((), -1, tl.int32)  # all bins are above the lower end
    passed = n_listed
    partial = tl.full((), 0.0, tl.float64)
    if below_top:
        if rank <= over + n_listed:
            counts = tl.load(bins + row * N_BINS + tl.arange(0, N_BINS))
            chosen, in_bins_above, _ = find_rank(counts, (rank - over).to(tl.int32))
            passed = in_bins_above.to(tl.int64)
        lists = tl.program_id(0) * LISTS + tl.arange(0, LISTS)
        length = tl.load(lengths + row * n_lists + lists, mask=lists < n_lists, other=0)
        total = tl.zeros((SIZE,), tl.float64)
        for first in range(0, tl.max(length, 0), WIDTH):
            place = first + tl.arange(0, WIDTH)
            exists = place[None, :] < length[:, None]
            spot = (row * n_lists + lists)[:, None] * capacity + place[None, :]
            x = tl.load(listed + spot, mask=exists, other=0.0).reshape(SIZE)
            exists = exists.reshape(SIZE)
            key = key_of(x)
            its_bin = bin_of(key, low_key, shift)
            total += tl.where(exists & (its_bin > chosen), x, 0.0).to(tl.float64)
            found = exists & (its_bin == chosen)
            n_found = tl.sum(found.to(tl.int32), 0)
            if n_found > 0:
                start = tl.atomic_add(counter + BINNED, n_found.to(tl.int64), sem="relaxed")
                end = start + tl.cumsum(found.to(tl.int32), 0)
                tl.store(binned + row * binned_capacity + end - 1, x, mask=found)
                tl.atomic_min(counter + LOW, tl.min(tl.where(found, key, LARGEST_KEY), 0).to(tl.int64), sem="relaxed")
                tl.atomic_max(counter + HIGH, tl.max(tl.where(found, key, NOTHING), 0).to(tl.int64), sem="relaxed")
        partial = tl.sum(total, 0)
    tl.store(more_sums + row * programs + tl.program_id(0), partial)
    tl.debug_barrier()  # what all threads stored comes before the count of those that finished
    if tl.atomic_add(counter + FINISHED, 1, sem="acq_rel") == programs - 1:
        some = tl.arange(0, N_SUMS)
        summed = tl.sum(tl.load(sums + row * n_lists + some, mask=some < n_lists, other=0.0), 0)
        threshold = top
        if below_top:
            more = tl.arange(0, N_MORE)
            parts = tl.load(more_sums + row * programs + more, mask=more < programs, other=0.0, cache_modifier=".cg")
            summed += tl.sum(parts, 0)
            if tied > 0:  # else the upper end may be infinite, and 0 times infinity is not 0
                summed += tied.to(tl.float64) * top.to(tl.float64)
            above = over + passed
            tied = at_bottom
            threshold = bottom
            if chosen >= 0:
                tied = tl.load(counter + BINNED, cache_modifier=".cg")
                low = tl.load(counter + LOW, cache_modifier=".cg")
                high = tl.load(counter + HIGH, cache_modifier=".cg")
                key = low.to(tl.int32)
                if low < high:
                    in_bin = binned + row * binned_capacity
                    key, more_above, tied, more_sum = search(
                        in_bin, mask, tied, low, bits_of(high - low), rank - above, False, SIZE
                    )
                    above += more_above
                    summed += more_sum
                threshold = loss_of(key)
        elif (rank <= above) & (top == float("inf")):
            threshold = float("nan")
            tied = above
        elif (exist > 0) & ((rank <= above) | (rank > over)):  # the bracket missed, or listed too many
            base, bits = tl.full((), NOTHING, tl.int64), tl.full((), 32, tl.int32)
            key, above, tied, summed = search(
                losses + row * n, mask + row * n, n.to(tl.int64), base, bits, rank, MASKED, 4 * SIZE
            )
            threshold = loss_of(key)

        value = ((summed + (mass - above) * threshold) / mass).to(tl.float32)
        cut = threshold
        weight_above = (1.0 / mass).to(tl.float32)
        weight_at = ((mass - above) / (mass * tied)).to(tl.float32)
        if threshold != threshold:  # then nothing but NaN counts, and NaN is above every number
            value = threshold
            cut = float("inf")
            weight_above = (1.0 / tied).to(tl.float32)
            weight_at = 0.0
        if exist == 0:
            value = 0.0
            threshold = 0.0
            weight_above = 0.0
            weight_at = 0.0
        tl.store(values + row, value)
        tl.store(weights + 4 * row, threshold)
        tl.store(weights + 4 * row + 1, cut)
        tl.store(weights + 4 * row + 2, weight_above)
        tl.store(weights + 4 * row + 3, weight_at)
