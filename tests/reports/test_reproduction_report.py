"""The page of a reproduction: its verdicts, its figures, and where its points are."""

import re

import pytest

from albert_tf.reports import reproduction_report


def _row(label, theirs, *seeds):
    row = {"name": label, "label": label, "values": {}, "paper": {"average": theirs}}
    row |= {"parameters": 1234, "gradient_bytes": 5_678_900}
    if seeds:
        mean = sum(seeds) / len(seeds)
        found = {"mean": mean, "min": min(seeds), "max": max(seeds)}
        row["values"] = {"accuracy": {**found, "num_seeds": len(seeds)}}
    return row


def _table(*rows):
    comparison = {
        "row": "few",
        "than": "<many>",
        "measure": "accuracy",
        "paper": -1.5,
        "ours": 0.025,
        "verdict": "opposite",
    }
    measure = {
        "key": "accuracy",
        "label": "MLM accuracy",
        "is_share": True,
        "paper": "average",
    }
    return {
        "title": "Layers",
        "paper_table": "11",
        "paper_titles": {"average": "average of tasks"},
        "measures": [measure],
        "rows": list(rows),
        "comparisons": [comparison],
        "num_missing": 0,
    }


def _written(folder, *tables):
    path = reproduction_report.write(str(folder), "hour", tables)
    assert path == str(folder / "index.html")
    return (folder / "index.html").read_text()


def test_the_page_has_figures_and_verdicts(tmp_path):
    table = _table(_row("<many>", 80.0, 0.2, 0.3), _row("few", 78.5, 0.275))
    page = _written(tmp_path, table)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.split("<body>")[1]))
    assert "0 differences as in the paper, 0 undecided, 1 opposite" in text
    assert "parameters gradients, kB paper: average of tasks MLM accuracy" in text
    assert page.count("paper: average of tasks") == 2  # the column and the chart
    assert "&lt;many&gt; 1,234 5,679 80.0 25.0 (20.0 to 30.0)" in text
    assert "few 1,234 5,679 78.5 27.5" in text
    assert "few minus &lt;many&gt; MLM accuracy -1.5 +2.50 opposite" in text
    assert '<span class="wrong">opposite</span>' in page


def test_a_difference_that_rounds_to_zero_has_no_minus(tmp_path):
    table = _table(_row("<many>", 80.0, 0.2), _row("few", 78.5, 0.2))
    table["comparisons"][0]["ours"] = -0.00001
    assert "+0.00" in _written(tmp_path, table)


def test_one_difference_is_singular(tmp_path):
    table = _table(_row("<many>", 80.0, 0.2), _row("few", 78.5, 0.2))
    table["comparisons"][0]["verdict"] = "same direction"
    text = re.sub(r"\s+", " ", _written(tmp_path, table))
    assert "1 difference as in the paper, 0 undecided, 0 opposite" in text


def test_tables_below_charts_and_tables_are_apart_from_them(tmp_path):
    page = _written(tmp_path, _table(_row("<many>", 80.0, 0.2), _row("few", 78.5, 0.2)))
    assert ".columns + .frame, .frame + .frame { margin-top: " in page
    assert re.search(r'</figure>\s*</div>\s*<div class="frame">', page)
    assert re.search(r'</table>\s*</div>\s*<div class="frame">', page)


def test_points_are_on_a_scale_of_their_own(tmp_path):
    table = _table(_row("<many>", 80.0, 0.2, 0.3), _row("few", 78.5, 0.275))
    page = _written(tmp_path, table)
    places = re.findall(r'<b style="left: ([\d.]+)%">', page)
    # A margin of a tenth of the range on both sides.
    high, low = f"{100 * 1.1 / 1.2:.2f}", f"{100 * 0.1 / 1.2:.2f}"
    assert places == [high, low, "50.00", f"{100 * 0.85 / 1.2:.2f}"]
    ranges = re.findall(r'<i style="left: ([\d.]+)%; width: ([\d.]+)%">', page)
    assert ranges[2] == (low, f"{100 / 1.2:.2f}")
    assert ranges[3][1] == "0.00"


def test_a_table_without_values_has_no_charts(tmp_path):
    page = _written(tmp_path, _table(_row("<many>", 80.0), _row("few", 78.5)))
    assert "<figure" not in page


def test_something_else_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="a table must have rows"):
        _written(tmp_path, {"title": "Layers"})


def test_the_page_is_one_file(tmp_path):
    page = _written(tmp_path, _table(_row("<many>", 80.0, 0.2), _row("few", 78.5)))
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    linked = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]*)""", page)
    assert all(link.startswith(("data:", "#")) for link in linked), linked
    assert "http" not in page and "url(" not in page and "@import" not in page


def test_the_papers_figures_are_drawn_once_beside_several_of_ours(tmp_path):
    rows = [_row("<many>", 80.0, 0.2, 0.3), _row("few", 78.5, 0.275)]
    for row in rows:
        row["values"]["blimp"] = row["values"]["accuracy"]
    table = _table(*rows)
    table["measures"].append({**table["measures"][0], "key": "blimp", "label": "BLiMP"})
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", _written(tmp_path, table))
    assert captions == [
        *("paper: average of tasks", "here: MLM accuracy", "here: BLiMP")
    ]


def test_steps_have_no_range(tmp_path):
    table = _table(_row("<many>", 80.0, 0.2), _row("few", 78.5, 0.2))
    steps = {"key": "num_steps", "label": "steps", "is_share": False, "paper": ""}
    table["measures"].append(steps)
    for row in table["rows"]:
        found = {"mean": 4301, "min": 4301, "max": 4301, "num_seeds": 3}
        row["values"]["num_steps"] = found
    assert _written(tmp_path, table).count("<td>4,301</td>") == 2
