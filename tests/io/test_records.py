"""Records: sections in a file, each with a checksum."""

import pytest

from tempering.errors import DamageError
from tempering.io.records import read_record, write_record


def test_sections_come_back_with_the_header(tmp_path):
    write_record(tmp_path / "record", {"n": 3}, [b"first", b"", b"third"])
    assert read_record(tmp_path / "record") == ({"n": 3}, [b"first", b"", b"third"])


@pytest.mark.parametrize("place", [-1, -5, -9])
def test_a_flipped_bit_of_a_section_is_told(place, tmp_path):
    """Nothing else would see it: a section may hold any bytes."""
    file = tmp_path / "record"
    write_record(file, {"n": 3}, [b"first", b"second"])
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamageError, match="the checksum of a section does not match"):
        read_record(file)


def test_a_section_that_ends_too_early_is_told(tmp_path):
    file = tmp_path / "record"
    write_record(file, {}, [b"first"])
    file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(DamageError, match="ends too early"):
        read_record(file)
