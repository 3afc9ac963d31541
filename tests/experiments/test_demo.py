import pytest

from tempering.errors import InputError
from tempering.experiments import demo, table2


@pytest.mark.slow
def test_the_demo_is_a_small_table_2_with_a_picture(tmp_path):
    settings = {"n_runs": 2, "n_draws": 10_000, "n_tune": 10_000}
    report = demo.run(tmp_path / "new", **settings)
    assert report.rows == table2.run(**settings).rows
    assert report.figure.read_bytes().startswith(b"\x89PNG")
    assert report.figure.stat().st_size > 20_000
    assert "times the effective sample size" in report.notes[0]


def test_a_folder_that_cannot_be_made_is_an_input_error_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="must be writable"):
        demo.run(tmp_path / "file" / "folder")
