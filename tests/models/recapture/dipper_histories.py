"""The European dipper by sex (Lebreton et al. 1992): histories of 1981 to 1987 and birds with each."""

import numpy as np

from tempering.models.recapture import Histories

FEMALES = {
    "1111100": 1, "1111000": 1, "1101110": 1, "1100000": 2, "1010000": 1, "1000000": 4, "0111111": 2, "0111110": 1,
    "0111100": 2, "0111000": 1, "0110110": 1, "0110000": 4, "0100000": 18, "0011111": 2, "0011110": 1, "0011100": 2,
    "0011000": 4, "0010000": 18, "0001111": 2, "0001110": 4, "0001100": 5, "0001011": 1, "0001001": 1, "0001000": 10,
    "0000111": 6, "0000110": 6, "0000100": 7, "0000011": 11, "0000010": 12, "0000001": 22,
}  # fmt: skip
MALES = {
    "1111110": 1, "1111000": 1, "1100000": 4, "1010000": 1, "1000000": 5, "0111100": 1, "0111000": 1, "0110000": 7,
    "0100000": 11, "0011110": 1, "0011100": 4, "0011000": 8, "0010110": 1, "0010000": 11, "0001111": 6, "0001110": 3,
    "0001100": 6, "0001001": 1, "0001000": 6, "0000111": 10, "0000110": 3, "0000100": 9, "0000011": 12, "0000010": 11,
    "0000001": 17,
}  # fmt: skip


def dipper(*sexes, names=()):
    """Histories of one or both sexes, as groups."""
    rows = [(list(map(int, h)), n, g) for g, sex in enumerate(sexes, 1) for h, n in sex.items()]
    codes, number, group = zip(*rows, strict=True)
    return Histories(
        np.array(codes), years=range(1981, 1988), number=number, group=group, dead=False, groups=tuple(names)
    )
