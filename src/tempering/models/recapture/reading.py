"""One door to every file format."""

from collections.abc import Sequence
from pathlib import Path

from tempering.errors import InputError
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.csv_files import read_arrays, read_counts, read_histories
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.mark_files import read_mark, read_recovery_matrix
from tempering.models.recapture.release_arrays import ReleaseArrays

Data = Histories | ReleaseArrays | Counts

FORMATS = ("mark", "mark-ldld", "mark-recovery", "histories", "arrays", "counts")


def read(
    path: str | Path,
    format: str,
    *,
    groups: int | None = None,
    ages: Sequence[int] = (0,),
    first_year: int = 1,
    tail: bool | None = None,
) -> Data:
    """Read a file of one of the `FORMATS`.

    Parameters
    ----------
    path : path
        The file.
    format : str
        ``mark`` (live histories), ``mark-ldld``, ``mark-recovery`` (recovery matrices), or CSV:
        ``histories``, ``arrays`` (m- and d-arrays), ``counts`` (sufficient statistics).
    groups, ages, first_year
        For MARK's files, which say none of it; see `read_mark`.
    tail : bool, optional
        Whether recoveries run past the last occasion (K = T); by default only in LDLD files.

    Returns
    -------
    Histories, ReleaseArrays or Counts
        Whatever the file holds; `MarkRecapture.fit` takes all three.
    """
    if format == "mark":
        return read_mark(path, groups=groups, ages=ages, first_year=first_year)
    if format == "mark-ldld":
        keep = True if tail is None else tail
        return read_mark(path, ldld=True, groups=groups, ages=ages, first_year=first_year, tail=keep)
    if format == "mark-recovery":
        return read_recovery_matrix(path, ages=ages, first_year=first_year)
    if format == "histories":
        return read_histories(path, tail=bool(tail))
    if format == "arrays":
        return read_arrays(path)
    if format == "counts":
        return read_counts(path, tail=bool(tail))
    raise InputError(f"The format must be one of {', '.join(FORMATS)}, but got {format!r}.")


def as_counts(data: Data, age_classes: int) -> Counts:
    """Turn any data into sufficient statistics with ``age_classes`` classes."""
    if not isinstance(data, Counts):
        return data.to_counts(age_classes)
    if data.n_age_classes != age_classes:
        raise InputError(
            f"The counts have {data.n_age_classes} age classes, but {age_classes} were asked for; "
            "counts cannot be split, so give the histories or age_classes=" + str(data.n_age_classes) + "."
        )
    return data
