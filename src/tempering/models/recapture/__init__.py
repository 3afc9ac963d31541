"""Integrated mark-recapture-recovery models, averaged over age and time structures.

`read` a study's data, describe the models to search with `MarkRecapture`, and `fit`.
"""

from tempering.models.recapture.counts import Counts
from tempering.models.recapture.csv_files import write_arrays, write_counts
from tempering.models.recapture.estimator import MarkRecapture
from tempering.models.recapture.goodness import GoodnessOfFit, goodness_of_fit
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.reading import FORMATS, describe, read
from tempering.models.recapture.release_arrays import ReleaseArrays
from tempering.models.recapture.results import RecaptureResult
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.structures import Structure

__all__ = [
    "FORMATS",
    "Counts",
    "GoodnessOfFit",
    "Histories",
    "MarkRecapture",
    "ModelSpace",
    "RecaptureResult",
    "ReleaseArrays",
    "Structure",
    "describe",
    "goodness_of_fit",
    "read",
    "write_arrays",
    "write_counts",
]
