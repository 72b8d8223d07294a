"""The digest of a program covers what a module imports, and nothing else."""

import pathlib
import shutil

import pytest

from albert_tf.core import source_digest

ROOT = pathlib.Path(__file__).parent.parent.parent
PROGRAM = "data_prep/pipeline/worker.py"


@pytest.fixture
def tree(tmp_path):
    """A copy of the project's sources."""
    for package in ("albert_tf", "data_prep"):
        shutil.copytree(
            ROOT / package,
            tmp_path / package,
            ignore=lambda folder, names: [n for n in names if n == "__pycache__"],
        )
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        PROGRAM,
        "albert_tf/core/prng.py",
        "albert_tf/data/masking.py",
        "albert_tf/data/schema.py",
        "albert_tf/tokenization/tokenizer.py",
        "data_prep/fast_tokenizer/viterbi.py",
        "data_prep/records/segment_pairs.py",
        "data_prep/records/example_proto.py",
        "data_prep/text/cleaning.py",
        "data_prep/text/deduplication.py",
    ],
)
def test_what_decides_records_changes_the_digest_of_the_program(tree, name):
    before = source_digest.imports_digest(str(tree / PROGRAM), tree)
    assert before == source_digest.imports_digest(str(ROOT / PROGRAM), ROOT)
    (tree / name).write_text((tree / name).read_text() + "\n# changed\n")
    assert source_digest.imports_digest(str(tree / PROGRAM), tree) != before


def test_other_files_do_not_change_the_digest_of_the_program(tree):
    before = source_digest.imports_digest(str(tree / PROGRAM), tree)
    for name in (
        "albert_tf/reports/charts.py",
        "albert_tf/pretrain.py",
        "albert_tf/data/input_pipeline.py",
        "albert_tf/tokenization/graph_tokenizer.py",
        "data_prep/inspection/tables.py",
        "data_prep/verification/records.py",
        "data_prep/verify.py",
        "data_prep/demo_corpus.py",
        "data_prep/reading/progress.py",
        "data_prep/pipeline/worker_pool.py",
        "data_prep/pipeline/output_dir.py",
    ):
        (tree / name).write_text((tree / name).read_text() + "\n# changed\n")
    assert source_digest.imports_digest(str(tree / PROGRAM), tree) == before


def test_imports_within_functions_and_of_plain_modules_count(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "main.py").write_text("def run():\n    import room.first\n")
    (tmp_path / "room/first.py").write_text("from room import second, third\n")
    (tmp_path / "room/second.py").write_text("import json\nimport main\n")
    (tmp_path / "room/fourth.py").write_text("")
    main = str(tmp_path / "main.py")
    digests = {source_digest.imports_digest(main, tmp_path)}
    for name in ("main", "room/first", "room/second"):
        path = tmp_path / f"{name}.py"
        path.write_text(path.read_text() + "# changed\n")
        digests.add(source_digest.imports_digest(main, tmp_path))
    assert len(digests) == 4
    (tmp_path / "room/fourth.py").write_text("# changed\n")
    assert source_digest.imports_digest(main, tmp_path) in digests


def test_an_omitted_file_does_not_count(tree):
    name = "albert_tf/core/task_config.py"
    program = str(tree / PROGRAM)
    digests = [
        source_digest.imports_digest(program, tree, omit) for omit in ((), [name])
    ]
    (tree / name).write_text((tree / name).read_text() + "\n# changed\n")
    assert source_digest.imports_digest(program, tree) != digests[0]
    assert source_digest.imports_digest(program, tree, [name]) == digests[1]
