"""The numbers of the paper, as printed: Tables 1 to 4, and the ranges of k of its appendix."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["APPENDIX_RANGES", "PAPER_TABLES", "TABLE_NUMBERS", "Printed"]


class Printed(NamedTuple):
    """Mean and standard deviation over ten splits of maximum, average and AT_k with k chosen."""

    maximum: tuple[float, float]
    average: tuple[float, float]
    atk: tuple[float, float]


TABLE_NUMBERS = {"error": "Table 1", "rmse": "Table 2", "g_mean": "Table 3", "mae": "Table 4"}
"""Per measure, where the paper prints it."""

PAPER_TABLES: dict[str, dict[str, dict[str, Printed]]] = {
    "error": {
        "monk": {
            "log_loss": Printed((22.41, 2.95), (20.46, 2.02), (16.76, 2.29)),
            "hinge": Printed((22.04, 3.08), (18.61, 3.16), (17.04, 2.77)),
        },
        "australian": {
            "log_loss": Printed((19.88, 6.64), (14.27, 3.22), (11.70, 2.82)),
            "hinge": Printed((19.82, 6.56), (14.74, 3.10), (12.51, 4.03)),
        },
        "madelon": {
            "log_loss": Printed((47.85, 2.51), (40.68, 1.43), (39.65, 1.72)),
            "hinge": Printed((48.55, 1.97), (40.58, 1.86), (40.18, 1.64)),
        },
        "splice": {
            "log_loss": Printed((23.57, 1.93), (17.25, 0.93), (16.12, 0.97)),
            "hinge": Printed((23.40, 2.10), (16.25, 1.12), (16.23, 0.97)),
        },
        "spambase": {
            "log_loss": Printed((21.30, 3.05), (8.36, 0.97), (8.36, 0.97)),
            "hinge": Printed((21.03, 3.26), (7.40, 0.72), (7.40, 0.72)),
        },
        "german": {
            "log_loss": Printed((28.24, 1.69), (25.36, 1.27), (23.28, 1.16)),
            "hinge": Printed((27.88, 1.61), (24.16, 0.89), (23.80, 1.05)),
        },
        "titanic": {
            "log_loss": Printed((26.50, 3.35), (22.77, 0.82), (22.44, 0.84)),
            "hinge": Printed((25.45, 2.52), (22.82, 0.74), (22.02, 0.77)),
        },
        "phoneme": {
            "log_loss": Printed((28.67, 0.58), (25.50, 0.88), (24.17, 0.89)),
            "hinge": Printed((28.81, 0.62), (22.88, 1.01), (22.88, 1.01)),
        },
    },
    "rmse": {
        "sinc": {
            "squared_error": Printed((0.2790, 0.0449), (0.1147, 0.0060), (0.1139, 0.0057)),
            "absolute_error": Printed((0.1916, 0.0771), (0.1188, 0.0067), (0.1161, 0.0060)),
        },
        "housing": {
            "squared_error": Printed((0.1531, 0.0226), (0.1065, 0.0132), (0.1050, 0.0132)),
            "absolute_error": Printed((0.1498, 0.0125), (0.1097, 0.0180), (0.1082, 0.0189)),
        },
        "abalone": {
            "squared_error": Printed((0.1544, 0.1012), (0.0800, 0.0026), (0.0797, 0.0026)),
            "absolute_error": Printed((0.1243, 0.0283), (0.0814, 0.0029), (0.0811, 0.0027)),
        },
        "cpusmall": {
            "squared_error": Printed((0.2895, 0.0722), (0.1001, 0.0035), (0.0998, 0.0037)),
            "absolute_error": Printed((0.2041, 0.0933), (0.1170, 0.0061), (0.1164, 0.0062)),
        },
    },
    "g_mean": {
        "monk": {
            "log_loss": Printed((75.80, 3.37), (79.47, 2.05), (82.95, 2.39)),
            "hinge": Printed((76.37, 3.51), (81.15, 3.11), (82.68, 2.79)),
        },
        "australian": {
            "log_loss": Printed((78.88, 7.56), (86.10, 3.19), (88.37, 2.97)),
            "hinge": Printed((78.99, 7.47), (85.72, 3.15), (87.50, 4.14)),
        },
        "madelon": {
            "log_loss": Printed((51.20, 2.92), (59.28, 1.41), (60.26, 1.58)),
            "hinge": Printed((49.42, 2.71), (59.36, 1.83), (59.72, 1.51)),
        },
        "splice": {
            "log_loss": Printed((76.31, 1.94), (82.73, 1.01), (83.90, 0.97)),
            "hinge": Printed((76.47, 2.12), (83.78, 1.12), (83.79, 0.97)),
        },
        "spambase": {
            "log_loss": Printed((69.48, 5.94), (90.63, 1.21), (90.63, 1.21)),
            "hinge": Printed((69.96, 6.76), (91.90, 0.85), (91.90, 0.85)),
        },
        "german": {
            "log_loss": Printed((44.88, 7.37), (60.12, 7.59), (63.80, 4.29)),
            "hinge": Printed((44.87, 7.34), (61.02, 7.49), (62.96, 3.33)),
        },
        "titanic": {
            "log_loss": Printed((46.52, 15.27), (66.69, 1.44), (66.69, 1.44)),
            "hinge": Printed((48.55, 13.15), (66.65, 1.43), (67.74, 1.78)),
        },
        "phoneme": {
            "log_loss": Printed((19.10, 11.84), (63.00, 1.84), (66.29, 2.04)),
            "hinge": Printed((12.89, 11.47), (70.41, 1.65), (70.41, 1.65)),
        },
    },
    "mae": {
        "sinc": {
            "squared_error": Printed((0.2438, 0.0445), (0.0816, 0.0045), (0.0806, 0.0044)),
            "absolute_error": Printed((0.1489, 0.0466), (0.0827, 0.0048), (0.0821, 0.0055)),
        },
        "housing": {
            "squared_error": Printed((0.1198, 0.0150), (0.0738, 0.0075), (0.0736, 0.0079)),
            "absolute_error": Printed((0.1233, 0.0127), (0.0713, 0.0089), (0.0712, 0.0088)),
        },
        "abalone": {
            "squared_error": Printed((0.1312, 0.0919), (0.0575, 0.0016), (0.0574, 0.0015)),
            "absolute_error": Printed((0.1082, 0.0303), (0.0559, 0.0014), (0.0557, 0.0016)),
        },
        "cpusmall": {
            "squared_error": Printed((0.2404, 0.0832), (0.0634, 0.0027), (0.0627, 0.0025)),
            "absolute_error": Printed((0.1868, 0.0997), (0.0423, 0.0018), (0.0422, 0.0018)),
        },
    },
}
"""Per measure, data set and loss; error and G-mean in percent."""

APPENDIX_RANGES: dict[int, dict[str, tuple[int, int]]] = {
    1: {"log_loss": (1, 200), "hinge": (1, 200)},
    2: {"log_loss": (3, 200), "hinge": (3, 200)},
    3: {"log_loss": (1, 18), "hinge": (1, 50)},
    4: {"log_loss": (4, 24), "hinge": (3, 62)},
    5: {"log_loss": (1, 25), "hinge": (1, 135)},
    6: {"log_loss": (2, 12), "hinge": (3, 59)},
}
"""Per toy case and loss, the k that the appendix says classify best."""
