"""When values of a log density are the same, to the rounding of another machine."""

import pytest

from tempering.execution.identity import agree


@pytest.mark.parametrize(
    ("there", "here", "same"),
    [
        ("-1.5 20.25", "-1.5 20.25", True),
        ("1.234567891", "1.234567892", True),  # the last of ten digits
        ("1.234567", "1.234568", False),  # data that were changed a little
        ("1000000.1", "1000000.2", False),
        ("0", "1e-09", False),
        ("-inf 2.0", "-inf 2.0", True),
        ("nan", "nan", True),
        ("-inf", "-1e+300", False),
        ("ValueError 1.0", "ValueError 1.0", True),
        ("ValueError", "1.0", False),
        ("ValueError", "TypeError", False),
        ("1.0 2.0 3.0", "1.0 2.0", True),  # one machine was too slow for the third
        ("1.0 2.0 3.0", "1.0 2.5", False),
    ],
)
def test_values_agree_to_rounding_and_no_further(there, here, same):
    assert agree(there, here) is same
    assert agree(here, there) is same
