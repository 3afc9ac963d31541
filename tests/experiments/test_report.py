import io
import json
import math

import pytest
from rich.console import Console

from tempering.errors import InputError
from tempering.experiments import Report, Row, summarise

REPORT = Report(
    "Table 2",
    (Row("ESS sum", 22910, 25000.4, 512.0), Row("k*", 0.5, 0.5), Row("extra", None, math.inf)),
    notes=("A note.",),
)


def printed(report, width=100):
    console = Console(file=io.StringIO(), width=width)
    report.print(console)
    return console.file.getvalue()


def test_the_table_shows_the_paper_beside_ours():
    text = printed(REPORT)
    line = next(line for line in text.splitlines() if "ESS sum" in line)
    assert line.index("22910") < line.index("25000") < line.index("512")
    assert "A note." in text
    assert "Picture" not in text


def test_the_json_is_a_list_of_the_four_fields_and_stays_valid_without_numbers(tmp_path):
    path = tmp_path / "rows.json"
    REPORT.write_json(path)
    rows = json.loads(path.read_text())
    assert rows[0] == {"quantity": "ESS sum", "paper": 22910.0, "ours": 25000.4, "spread": 512.0}
    assert rows[1]["spread"] is None
    assert rows[2] == {"quantity": "extra", "paper": None, "ours": None, "spread": None}


def test_a_file_that_cannot_be_written_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="must be writable"):
        REPORT.write_json(tmp_path / "missing" / "rows.json")


def test_rows_are_found_by_their_quantity():
    assert REPORT["k*"].ours == 0.5
    with pytest.raises(KeyError):
        REPORT["k"]


def test_a_summary_has_the_mean_and_the_spread_over_runs():
    row = summarise("ESS", None, [1.0, 2.0, 6.0])
    assert (row.ours, row.spread) == (3.0, pytest.approx(math.sqrt(7)))
    assert summarise("ESS", None, [4.0]).spread is None
