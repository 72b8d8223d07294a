"""The commands that follow, as the last line of a command names them."""

import pytest

from albert_tf.core import cli


@pytest.mark.parametrize(
    ("model_dir", "words"),
    [
        ("stars", "--model_dir=stars --output_dir=stars_model"),
        ("a/run/", "--model_dir=a/run/ --output_dir=run_model"),
        ("gs://b/a/run", "--model_dir=gs://b/a/run --output_dir=run_model"),
        ("gs://b", "--model_dir=gs://b --output_dir=b_model"),
        ("my run", "'--model_dir=my run' '--output_dir=my run_model'"),
    ],
)
def test_an_export_has_the_name_of_its_run(model_dir, words):
    expected = f"Next: python -m albert_tf.export {words}"
    assert cli.next_export(model_dir) == expected
