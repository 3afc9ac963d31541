"""Read the encounter histories of Program MARK: live ones, live and dead ones (LDLD), with states."""

import re
from collections.abc import Sequence
from pathlib import Path

from tempering.errors import InputError
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.history_rows import Line, Rows, could_be_ldld, group_names, states_in
from tempering.models.recapture.mark_records import records_of


def read_mark(
    path: str | Path,
    *,
    ldld: bool | None = None,
    states: bool = False,
    groups: int | Sequence[str] | None = None,
    ages: Sequence[int] = (0,),
    first_year: int = 1,
    tail: bool = True,
    lengths: Sequence[float] | None = None,
) -> Histories:
    """Read MARK encounter histories: ``HISTORY f_1 [f_2 ...] [covariate ...];``.

    Parameters
    ----------
    path : path
        An ``.inp`` file; ``/* ... */`` comments may span lines. A dot in all histories is an occasion without sampling.
    ldld : bool, optional
        Whether there are two characters an occasion, alive then dead (Burnham, Barker and recovery models), rather
        than one. Left out, live histories are read, and a file that could be either is refused.
    states : bool
        Whether a letter (or digit) says in which state a bird is seen.
    groups : int or names, optional
        How many columns are frequencies, one for each group, or the names of the groups; what follows is a covariate.
        It may be left out where one column follows the history, or where each line has one bird in one group.
    ages : sequence of int
        Completed years at marking in each group (0 chick, 99 adult); a single one holds for all.
    first_year : int
        The year of the first occasion.
    tail : bool
        With ``ldld``, keep the interval after the last occasion (K = T).
    lengths : sequence of float, optional
        Lengths of the intervals between occasions; 1 by default.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.inp"
    >>> _ = file.write_text("/* two groups */ 11000 5 2; 10100 1 -1;")
    >>> read_mark(file, groups=2).number
    array([ 5,  2,  1, -1])
    >>> _ = file.write_text("A0B 3; BB0 2;")
    >>> read_mark(file, states=True).states
    ('A', 'B')
    """
    lines = []
    for record in records_of(path):
        history, *columns = re.split(r"[\s,]+", record.text.strip())
        lines.append(Line(history, [c for c in columns if c], f"{path}:{record.line}: history {history}"))
    if not lines:
        raise InputError(
            f"{path}: there must be at least one encounter history ending in ';', but there is none. "
            "Check that it is a MARK file."
        )
    names = group_names(lines, groups, path)
    histories = [line.history for line in lines]
    if ldld is None and could_be_ldld(histories):
        how = "ldld=True or ldld=False (--ldld or --no-ldld)" if states else "format mark-live or mark-ldld"
        raise InputError(
            f"{path}: these histories could be live encounters, or pairs of live and dead ones (LDLD). "
            f"Say which: {how}."
        )
    codes = states_in(histories, bool(ldld), path) if states else ()
    rows = Rows(lines, names, bool(ldld), first_year, ages, lengths, codes)
    return rows.histories(path, tail)
