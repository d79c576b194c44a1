"""All claims of speed: measured here, kept in results/MACHINE.json, told by docs/benchmarks.md.

./run bench                       measure all claims that this machine can, then write the page
./run bench suite CLAIM ...       only these: names as --list prints them, or how they begin (linear, wide/ridge)
    --check     measure again, and say which ratios left the stored range widened by the noise; writes nothing
    --add       keep the rounds that are stored and add new ones: what another host of the kind makes of it
    --missing   only what has no result on this machine yet: goes on where a run was interrupted
    --tiny      see that everything runs, on a few hundred rows; writes nothing
    --page      write the page from the results files, and measure nothing
    --list      the names of all claims
    --machine   what this machine is called; else its GPU, or its number of cores

With a GPU, the claims that need one or many cores are measured, without one all others. What is not installed is
skipped, and said. A result is kept as soon as it is there.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from claims import page
from claims.catalogue import CLAIMS
from claims.claim import Claim
from claims.measuring import cores, measure
from claims.results import FOLDER, Result, Results, gpu_name, read, read_all, this_machine


def chosen(names: list[str], *, everywhere: bool) -> list[Claim]:
    """Return the claims that were asked for, or all that belong on this machine."""
    if not names:
        kinds = {"cpu", "gpu", "both"} if everywhere else {"gpu", "both"} if gpu_name() else {"cpu", "both"}
        return [claim for claim in CLAIMS.values() if claim.machine in kinds]
    for name in names:
        if not any(known.startswith(name) for known in CLAIMS):
            raise SystemExit(f"A claim, or how one begins, is expected, and {name!r} is none; --list prints them.")
    return [claim for claim in CLAIMS.values() if claim.id.startswith(tuple(names))]


def told(result: Result) -> str:
    seconds = "" if result.seconds is None else ", seconds {:.3g} / {:.3g}".format(*result.seconds)
    excess = " / ".join("-" if each is None else f"{each:.0e}" for each in result.excess)
    return f"{result.ratio:.3g} ({min(result.ratios):.3g} to {max(result.ratios):.3g}){seconds}, excess {excess}"


def measured(claims: list[Claim], *, tiny: bool) -> Iterable[tuple[Claim, Result | None]]:
    """Yield every claim with its result, or with None where it could not be measured, and say how it goes."""
    for number, claim in enumerate(claims, 1):
        print(f"[{number}/{len(claims)}] {claim.id}: ", end="", flush=True)
        missing = claim.missing()
        if missing:
            print(f"skipped, {' and '.join(missing)} not installed", flush=True)
            continue
        start = time.perf_counter()
        try:
            result = measure(claim, tiny=tiny)
        except Exception as error:  # the others are measured all the same
            print(f"FAILED, {type(error).__name__}: {error}", flush=True)
            yield claim, None
            continue
        print(f"{told(result)}; {time.perf_counter() - start:.0f} s", flush=True)
        yield claim, result


def stored(name: str, machine: dict[str, object]) -> Results:
    """Return what is known of this machine, with what it is now."""
    path = FOLDER / f"{name}.json"
    return Results(name, machine, read(path).results if path.exists() else [])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claims", nargs="*", metavar="CLAIM")
    for option in ("add", "check", "missing", "tiny", "page", "list"):
        parser.add_argument(f"--{option}", action="store_true")
    parser.add_argument("--machine")
    asked = parser.parse_args(arguments)
    if asked.list:
        print("\n".join(CLAIMS))
        return 0
    if asked.page:
        page.write(read_all())
        return 0
    start = time.perf_counter()
    results = stored(*this_machine(asked.machine, cores()))
    claims = chosen(asked.claims, everywhere=asked.tiny)
    known = {result.id: result for result in results.results}
    if asked.missing:
        claims = [claim for claim in claims if claim.id not in known]
    failed, left = 0, []
    print(f"{datetime.now(UTC):%d %B %Y}, {results.name}, {len(claims)} claims; our time over theirs (range)")
    for claim, result in measured(claims, tiny=asked.tiny):
        if result is None:
            failed += 1
        elif asked.check and claim.id in known and not known[claim.id].agrees_with(result):
            left.append(f"{claim.id}: {result.ratio:.3g}, stored {told(known[claim.id])}")
        elif not asked.tiny and not asked.check:
            added = result.after(known[claim.id]) if asked.add and claim.id in known else result
            results = results.merged(added, CLAIMS)
            results.write()
    if not asked.tiny and not asked.check:
        page.write(read_all())
    print(f"{time.perf_counter() - start:.0f} s, {failed} failed")
    if asked.check:
        print("\n".join(left) if left else "No ratio left the range that is stored for it.")
    return 1 if failed or left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
