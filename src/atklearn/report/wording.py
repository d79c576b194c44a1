"""How names and numbers of the results are written for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.measures import MEASURES
from atklearn.study.results import Record

__all__ = [
    "AGGREGATE_TITLES",
    "ANSWER_TITLES",
    "LOSS_TITLES",
    "WEIGHT_TITLES",
    "amount",
    "certified",
    "listed",
    "model_in_words",
    "number",
    "percent",
    "sentence",
    "span",
    "times",
    "units",
]

LOSS_TITLES = {name: loss.title for name, loss in INDIVIDUAL_LOSSES.items()}
AGGREGATE_TITLES = {
    "maximum": "maximum",
    "average": "average",
    "atk": "AT_k",
    "trimmed": "trimmed average",
    "range": "ranked range (AoRR)",
}
ANSWER_TITLES = {"helps": "helps", "hurts": "hurts", "same": "the same", "undecided": "undecided"}
WEIGHT_TITLES = {"plain": "", "balanced": "balanced"}


def number(value: float, measure: str, *, signed: bool = False, like: float | None = None) -> str:
    """Return a value of a measure as text, or a difference with the digits of the value it is a difference to.

    Examples
    --------
    >>> number(0.12345, "error"), number(-0.02, "error", signed=True), number(12345.678, "rmse")
    ('12.3', '-2.0', '12346')
    >>> number(-0.1234, "rmse", signed=True, like=27.692), number(27.692, "rmse")
    ('-0.12', '27.69')
    """
    shown = MEASURES[measure]
    digits, size = shown.digits, abs(shown.factor * (value if like is None else like))
    if not shown.percent and size >= 10.0:  # in units of the target: as many figures as matter
        digits = max(0, 4 - len(str(int(size))))
    rounded = round(shown.factor * value, digits) + 0.0  # no minus before a zero
    return f"{rounded:{'+' if signed else ''}.{digits}f}"


def amount(value: float, like: float, *, signed: bool = False) -> str:
    """Return a number of the data as text, with the digits that a number of another size has.

    Examples
    --------
    >>> amount(-3.14159, 250.0), amount(3.14159, 2.5, signed=True), amount(250000.4, 250000.4), amount(-1e-9, 1.0)
    ('-3.1', '+3.142', '250000', '0.000')
    """
    size = math.floor(math.log10(abs(like))) if like and math.isfinite(like) else 0
    digits = min(max(0, 3 - size), 12)
    return f"{round(value, digits) + 0.0:{'+' if signed else ''}.{digits}f}"


def times(n: int) -> str:
    """Say how often.

    Examples
    --------
    >>> times(1), times(5)
    ('once', '5 times')
    """
    return "once" if n == 1 else "twice" if n == 2 else f"{n} times"


def model_in_words(loss: str, weights: str) -> str:
    """Return the name of a loss with its class weights.

    Examples
    --------
    >>> model_in_words("log_loss", "balanced")
    'log loss, balanced'
    """
    return ", ".join(part for part in (LOSS_TITLES[loss], WEIGHT_TITLES[weights]) if part)


def span(low: float, high: float, measure: str, like: float) -> str:
    """Return an interval of a difference to a value as text.

    Examples
    --------
    >>> span(-0.021, 0.004, "error", like=0.2)
    '-2.1 to +0.4'
    """
    return " to ".join(number(end, measure, signed=True, like=like) for end in (low, high))


def units(measure: str) -> str:
    """Return what to write behind a difference."""
    return " percentage points" if MEASURES[measure].percent else ""


def listed(names: Sequence[str], word: str = "and") -> str:
    """Return names as a list in a sentence.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return f" {word} ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def sentence(text: str) -> str:
    """Return a text with a capital letter at its beginning.

    Examples
    --------
    >>> sentence("largest error"), sentence("R²")
    ('Largest error', 'R²')
    """
    return text[:1].upper() + text[1:]


def percent(share: float) -> str:
    """Return a part of a whole as text.

    Examples
    --------
    >>> percent(0.75), percent(0.125)
    ('75 %', '12.5 %')
    """
    return f"{100.0 * share:g} %"


def certified(records: Iterable[Record]) -> str:
    """Say how exact the fits are that records are about, and what was asked for; empty without fits.

    Parameters
    ----------
    records : iterable of Record
        With the fields of :func:`atklearn.study.results.certificate`.

    Examples
    --------
    >>> certified([{"tol": 1e-3, "gap": 0.00042, "n_fits": 5, "n_missed": 0}])
    'every fit is certified to a relative duality gap of at most 0.00042 (0.001 was asked for)'
    >>> certified([{"tol": 1e-3, "gap": None, "fold_gap": 0.002, "n_fits": 5, "n_missed": 1}])
    '4 of 5 fits are certified to a relative duality gap of 0.001, as asked for; the largest gap is 0.002'
    """
    fitted = [record for record in records if record["n_fits"]]
    if not fitted:
        return ""
    reached = [record.get(field) for record in fitted for field in ("gap", "fold_gap")]
    largest = max(gap for gap in reached if gap is not None)
    asked = " or ".join(f"{tol:g}" for tol in sorted({record["tol"] for record in fitted}))
    n_fits, n_missed = (sum(record[field] for record in fitted) for field in ("n_fits", "n_missed"))
    if n_missed:
        return (
            f"{n_fits - n_missed} of {n_fits} fits are certified to a relative duality gap of {asked}, as asked for; "
            f"the largest gap is {largest:.2g}"
        )
    who = "every fit is certified" if n_fits > 1 else "certified"
    return f"{who} to a relative duality gap of at most {largest:.2g} ({asked} was asked for)"
