"""All claims, in the order of the page, and the headings of their topics."""

from __future__ import annotations

from claims import (
    boosting,
    clusters,
    convex,
    kernel,
    linear,
    memory,
    paths,
    small,
    sparse,
    stochastic,
    tensor_fits,
    threads,
    torch_losses,
    wide,
)

CLAIMS = {
    claim.id: claim
    for topic in (
        convex,
        linear,
        wide,
        sparse,
        small,
        kernel,
        paths,
        stochastic,
        threads,
        memory,
        boosting,
        clusters,
        torch_losses,
        tensor_fits,
    )
    for claim in topic.CLAIMS
}
