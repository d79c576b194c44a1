# mypy: disable-error-code="no-untyped-def, attr-defined"
"""The Triton kernels of the average top-k loss: a sample, one pass over the losses, and little work on what it leaves.

A sample of every row gives a bracket that holds the threshold, but for one case in 1e5 (`gather`, `bracket`). One pass
over all losses counts and sums what is above the bracket and lists what is inside, some percent of the row (`scan`).
An end of the bracket that is tied in the sample is not listed but counted: ties, however many, take no room. Bins of
the listed (`count_bins`) leave one bin, in which the threshold is found exactly (`settle`). Where the bracket missed,
the same search goes over the whole row: exact, slowly. The gradient is one more pass (`spread`).

Losses are compared as floats wherever that is enough. Where they are counted in bins they become keys: integers in the
order of the losses, with both zeros at 0 and NaN at the top.
"""

from __future__ import annotations

from atklearn.stores.tensors.triton_language import constant, jit, tl

SAMPLE, PIVOTS = 16384, 512  # losses looked at for the bracket, and those of them that may be its ends
BIN_BITS, BINS = constant(9), 512
LAST_BIN = constant(BINS - 1)
RADIX_BITS, RADIX = constant(8), constant(256)
SLOTS = 16  # counters of a row, which fill one cache line

# the counters of a row: the ends of its bracket, how many losses are where, what was listed, how much is done, and
# between what the finite losses of the sample lie
BOTTOM, TOP, ABOVE, AT_TOP, AT_BOTTOM, EXIST, LISTED, LEFT_OUT, BINNED, LOW, HIGH, FINISHED, SEEN_LOW, SEEN_HIGH = (
    constant(slot) for slot in range(14)
)
NOTHING = constant(-(2**31))  # the key of a loss that does not exist: below all others
LARGEST_KEY = constant(2**31 - 1)
INFINITE_KEY = constant(0x7F800000)
LOWEST_KEY = constant(-0x7F800001)  # of minus infinity


@jit
def key_of(x):
    """Return the keys of losses."""
    bits = x.to(tl.int32, bitcast=True)
    key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    key = tl.where(x == 0.0, 0, key)
    return tl.where(x == x, key, LARGEST_KEY)


@jit
def loss_of(key):
    """Return the losses of keys."""
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@jit
def mix(x):
    """Scatter integers over all of 32 bits (multiplications by odd constants, and shifts)."""
    x = x.to(tl.uint32)
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@jit
def gather(
    losses, mask, sample, bins, counters, n, MASKED: tl.constexpr, SIZE: tl.constexpr, ALL: tl.constexpr,
    N_BINS: tl.constexpr, N_SLOTS: tl.constexpr
):  # fmt: skip
    """Take one loss from each of equal parts of the row, at a place that no pattern follows; clear the counters."""
    row = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    first = part.to(tl.int64) * n // ALL
    width = (part.to(tl.int64) + 1) * n // ALL - first
    place = row * n + first + ((mix(part).to(tl.int64) * width) >> 32)
    key = key_of(tl.load(losses + place).to(tl.float32))
    if MASKED:
        key = tl.where(tl.load(mask + place) != 0, key, NOTHING)
    tl.store(sample + row * ALL + part, key)
    tl.store(bins + row * N_BINS + part, tl.zeros((SIZE,), tl.int32), mask=part < N_BINS)
    start = tl.zeros((SIZE,), tl.int64)
    start = tl.where(part == TOP, start + INFINITE_KEY * 2 + 1, start)
    start = tl.where(part == BOTTOM, start + LOWEST_KEY * 2 + 1, start)
    start = tl.where(part == LOW, start + LARGEST_KEY, start)
    start = tl.where(part == HIGH, start + NOTHING, start)
    tl.store(counters + row * N_SLOTS + part, start, mask=part < N_SLOTS)


@jit
def bracket(
    sample, k, k_stride, counters, n, deviations, COUNTS: tl.constexpr, ALL: tl.constexpr, OWN: tl.constexpr,
    STRIDE: tl.constexpr, N_SLOTS: tl.constexpr
):  # fmt: skip
    """Find two losses between which the threshold lies, from its place in the sample and how far that may be off.

    Every program counts how much of the sample is above, and at least at, some losses of its own: no search, no steps.
    """
    row = tl.program_id(1).to(tl.int64)
    counter = counters + row * N_SLOTS
    keys = tl.load(sample + row * ALL + tl.arange(0, ALL))
    size = tl.sum((keys > NOTHING).to(tl.int32), 0)
    wanted = tl.load(k + row * k_stride)
    if COUNTS:
        rank = (wanted * ALL / n).to(tl.float32)
        variance = rank * (1.0 - rank / ALL)
        rank = tl.minimum(rank, size.to(tl.float32))
    else:
        rank = (wanted * size).to(tl.float32)
        variance = rank * (1.0 - wanted.to(tl.float32))
    margin = deviations * (tl.sqrt(tl.maximum(variance, 0.0)) + 1.0)
    for place in tl.static_range(OWN):
        own = tl.load(sample + row * ALL + (tl.program_id(0) * OWN + place) * STRIDE)
        both = tl.sum((keys > own).to(tl.int32) + ((keys >= own).to(tl.int32) << 16), 0)
        above = both & 0xFFFF
        at_least = both >> 16
        number = tl.maximum(tl.minimum(own, INFINITE_KEY), LOWEST_KEY)
        end = number.to(tl.int64) * 2 + ((at_least > above + 1) | (number != own)).to(tl.int64)
        if above <= rank - margin:
            tl.atomic_min(counter + TOP, end, sem="relaxed")
        if at_least >= rank + margin:
            tl.atomic_max(counter + BOTTOM, end, sem="relaxed")
    if tl.program_id(0) == 0:
        finite = (keys > LOWEST_KEY) & (keys < INFINITE_KEY)
        tl.store(counter + SEEN_LOW, tl.min(tl.where(finite, keys, LARGEST_KEY), 0).to(tl.int64))
        tl.store(counter + SEEN_HIGH, tl.max(tl.where(finite, keys, NOTHING), 0).to(tl.int64))


@jit
def ends_of(counter):
    """Return of a bracket the keys of its lower and upper end, whether they are tied, and the range that is listed.

    A counter holds twice the key of an end, plus 1 where it is tied: such an end is not listed but counted.
    """
    top = tl.load(counter + TOP)
    tied_top = (top & 1).to(tl.int32)
    top = (top >> 1).to(tl.int32)
    tied_top = tl.where(top == LOWEST_KEY, 1, tied_top)
    bottom = tl.load(counter + BOTTOM)
    tied_bottom = (bottom & 1).to(tl.int32)
    bottom = (bottom >> 1).to(tl.int32)
    tied_bottom = tl.where(bottom == LOWEST_KEY, 1, tied_bottom)
    tied_bottom = tl.where(bottom < top, tied_bottom, tied_top)
    bottom = tl.minimum(bottom, top)
    first = bottom + tied_bottom
    last = top - tied_top
    last = tl.where(last == -1, -2, last)  # not a key, for both zeros are at 0
    return bottom, top, tied_bottom, tied_top, first, last


@jit
def bits_of(width):
    """Return a number of bits that is enough for the numbers up to ``width``."""
    return tl.maximum((width.to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 126, 0)


@jit
def bins_of(counter):
    """Return the key at which the bins of the listed losses begin, and how many bits of a key lie within one bin.

    Where k is close to 0 or to all, no loss of the sample is surely beyond the threshold, and an end of the bracket
    stays infinite. Bins that reached so far would hold all of the listed in a few of them: they end with the sample.
    """
    _, _, _, _, first_key, last_key = ends_of(counter)
    low = tl.maximum(first_key.to(tl.int64), tl.load(counter + SEEN_LOW))
    high = tl.minimum(last_key.to(tl.int64), tl.load(counter + SEEN_HIGH))
    shift = tl.maximum(bits_of(tl.maximum(high - low, 0)) - BIN_BITS, 0)
    return low.to(tl.int32), shift.to(tl.uint32)


@jit
def bin_of(key, low, shift):
    """Return the bins of keys: the first and the last one take what lies beyond them."""
    offset = tl.maximum(key, low).to(tl.uint32) - low.to(tl.uint32)
    return tl.minimum((offset >> shift).to(tl.int32), LAST_BIN)


@jit
def scan(
    losses, mask, counters, listed, lengths, sums, n, capacity, MASKED: tl.constexpr, GROUPS: tl.constexpr,
    GROUP: tl.constexpr, N_SLOTS: tl.constexpr, STAGES: tl.constexpr
):  # fmt: skip
    """Count and sum what is above the bracket, count ties at its ends, list what is inside.

    Every program has a list of its own, and takes blocks from all over the row, so that all lists get about as long.
    What does not exist is taken for minus infinity: only `settle` has to know.
    """
    BLOCK: tl.constexpr = GROUPS * GROUP
    row = tl.program_id(1).to(tl.int64)
    counter = counters + row * N_SLOTS
    own = row * tl.num_programs(0) + tl.program_id(0)
    bottom_key, top_key, tied_bottom, tied_top, first_key, last_key = ends_of(counter)
    bottom, top, least, most = loss_of(bottom_key), loss_of(top_key), loss_of(first_key), loss_of(last_key)
    ties = tied_bottom + tied_top > 0
    # a thread holds whole groups: sums over a group need no other thread
    spot = tl.arange(0, GROUPS)[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    total = tl.zeros((GROUPS,), tl.float64)
    n_above = tl.zeros((GROUPS,), tl.int32)
    n_top = tl.zeros((GROUPS,), tl.int32)
    n_bottom = tl.zeros((GROUPS,), tl.int32)
    n_exist = tl.zeros((GROUPS,), tl.int32)
    length = tl.full((), 0, tl.int32)
    for block in tl.range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0), num_stages=STAGES):
        first = tl.cast(block, tl.int64) * BLOCK
        there = spot < tl.minimum(n - first, BLOCK).to(tl.int32)
        x = tl.load(losses + (row * n + first) + spot, mask=there, other=-float("inf")).to(tl.float32)
        if MASKED:
            exists = tl.load(mask + (row * n + first) + spot, mask=there, other=0) != 0
            n_exist += tl.sum(exists.to(tl.int32), 1)
            x = tl.where(exists, x, -float("inf"))
        above = ~(x <= top)  # NaN too
        inside = (x <= most) & (x >= least)
        total += tl.sum(tl.where(above, x, 0.0).to(tl.float64), 1)
        n_above += tl.sum(above.to(tl.int32), 1)
        if ties:
            n_top += tl.sum((x == top).to(tl.int32), 1)
            n_bottom += tl.sum((x == bottom).to(tl.int32), 1)
        found = tl.sum(inside.to(tl.int32), 1)
        place = (length + tl.cumsum(found, 0) - found)[:, None] + tl.cumsum(inside.to(tl.int32), 1) - 1
        length += tl.sum(found, 0)
        if length <= capacity:
            tl.store(listed + own * capacity + place, x, mask=inside)
    tl.store(lengths + own, tl.minimum(length, capacity))
    tl.store(sums + own, tl.sum(total, 0))
    tl.atomic_add(counter + ABOVE, tl.sum(n_above, 0).to(tl.int64), sem="relaxed")
    tl.atomic_add(counter + LISTED, length.to(tl.int64), sem="relaxed")
    if ties:
        tl.atomic_add(counter + AT_TOP, tl.sum(n_top, 0).to(tl.int64), sem="relaxed")
        tl.atomic_add(counter + AT_BOTTOM, tl.sum(n_bottom, 0).to(tl.int64), sem="relaxed")
    if length > capacity:
        tl.atomic_add(counter + LEFT_OUT, 1, sem="relaxed")
    if MASKED:
        tl.atomic_add(counter + EXIST, tl.sum(n_exist, 0).to(tl.int64), sem="relaxed")


@jit
def count_bins(
    listed, lengths, counters, bins, capacity, n_lists, LISTS: tl.constexpr, WIDTH: tl.constexpr,
    N_BINS: tl.constexpr, N_SLOTS: tl.constexpr
):  # fmt: skip
    """Count the listed losses in bins of equally many keys."""
    row = tl.program_id(1).to(tl.int64)
    low, shift = bins_of(counters + row * N_SLOTS)
    lists = tl.program_id(0) * LISTS + tl.arange(0, LISTS)
    length = tl.load(lengths + row * n_lists + lists, mask=lists < n_lists, other=0)
    counts = tl.zeros((N_BINS,), tl.int32)
    missing = -tl.sum(length, 0)
    for first in range(0, tl.max(length, 0), WIDTH):
        place = first + tl.arange(0, WIDTH)
        exists = place[None, :] < length[:, None]
        at = (row * n_lists + lists)[:, None] * capacity + place[None, :]
        key = key_of(tl.load(listed + at, mask=exists, other=0.0))
        its_bin = bin_of(key, low, shift)
        # Missing ones go into bin 0 and are taken out below: a mask that is reshaped may come in another order.
        counts += tl.histogram(tl.where(exists, its_bin, 0).reshape(LISTS * WIDTH), N_BINS)
        missing += LISTS * WIDTH
    spot = tl.arange(0, N_BINS)
    counts -= tl.where(spot == 0, missing, 0)
    tl.atomic_add(bins + row * N_BINS + spot, counts, mask=counts > 0, sem="relaxed")


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


@jit
def spread(losses, mask, weights, incoming, gradient, n, MASKED: tl.constexpr, SIZE: tl.constexpr):
    """Write the gradient: the row's incoming one times the weight of every loss."""
    row = tl.program_id(1).to(tl.int64)
    from_above = tl.load(incoming + row).to(tl.float32)
    cut = tl.load(weights + 4 * row + 1)
    at_above = tl.load(weights + 4 * row + 2) * from_above
    at_cut = tl.load(weights + 4 * row + 3) * from_above
    first = tl.program_id(0).to(tl.int64) * SIZE
    spot = tl.arange(0, SIZE)
    there = spot < tl.minimum(n - first, SIZE).to(tl.int32)
    x = tl.load(losses + (row * n + first) + spot, mask=there, other=0.0).to(tl.float32)
    slope = tl.where(x <= cut, tl.where(x == cut, at_cut, 0.0), at_above)
    if MASKED:
        slope = tl.where(tl.load(mask + (row * n + first) + spot, mask=there, other=0) != 0, slope, 0.0)
    tl.store(gradient + (row * n + first) + spot, slope.to(gradient.dtype.element_ty), mask=there)
