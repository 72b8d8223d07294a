"""The digest of a program covers what its modules import, and nothing else."""

import pathlib
import shutil
import sys

import grimp
import pytest

from albert_tf.core import source_digest
from data_prep.pipeline import program

ROOT = pathlib.Path(__file__).parent.parent.parent
PROGRAM = "data_prep/pipeline/worker.py"
# Standards fix what these return, TensorFlow only reads remote files, and tqdm writes
# lines beside its progress bars.
UNDECIDING_PACKAGES = {"google_crc32c", "tensorflow", "tqdm", "zstandard"}


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


@pytest.fixture(scope="module")
def imports():
    """The modules and packages that the program imports, by another library."""
    graph = grimp.build_graph(
        "albert_tf", "data_prep", include_external_packages=True, cache_dir=None
    )
    name = PROGRAM.removesuffix(".py").replace("/", ".")
    return {name, *graph.find_upstream_modules(name)}


def digest(root, *omit):
    return source_digest.imports_digest(str(root / PROGRAM), root, omit)


def test_all_code_that_decides_records_counts_and_no_other(imports):
    found = set(source_digest.imported_code(str(ROOT / PROGRAM)))
    paths = [f"{name.replace('.', '/')}.py" for name in imports]
    assert found == {path for path in paths if (ROOT / path).exists()}
    assert len(found) > 25
    assert {name.rpartition("/")[0] for name in found} == {
        "albert_tf/core",
        "albert_tf/data",
        "albert_tf/tokenization",
        "data_prep/fast_tokenizer",
        "data_prep/pipeline",
        "data_prep/reading",
        "data_prep/records",
        "data_prep/text",
    }
    # These report, check or move records, or show progress.
    assert not found & {
        "albert_tf/data/manifest.py",
        "data_prep/pipeline/flags.py",
        "data_prep/pipeline/local_run.py",
        "data_prep/pipeline/manifest_builder.py",
        "data_prep/pipeline/output_dir.py",
        "data_prep/pipeline/worker_pool.py",
        "data_prep/reading/progress.py",
        "data_prep/records/reader.py",
    }


def test_the_versions_of_all_packages_that_decide_records_count(imports):
    packages = {name for name in imports if "." not in name}
    packages -= {"albert_tf", "data_prep", *sys.stdlib_module_names}
    assert packages - UNDECIDING_PACKAGES == set(program.DECIDING_PACKAGES)


@pytest.mark.parametrize(
    "name",
    [
        "albert_tf/core/prng.py",
        "data_prep/pipeline/duplicates.py",
        "data_prep/text/sentences.py",
    ],
)
def test_an_edit_of_code_changes_the_digest_and_one_of_text_does_not(tree, name):
    before = digest(tree)
    assert before == digest(ROOT)
    path = tree / name
    text = path.read_text()
    of_module = text.split('"""')[1]
    path.write_text(f"# Why.\n\n{text.replace(of_module, 'Other words.')}\n# End.\n")
    assert digest(tree) == before
    path.write_text(f"{text}\n_CHANGED = 1\n")
    assert digest(tree) != before


def test_docstrings_of_classes_and_functions_do_not_count_but_strings_do(tmp_path):
    path = tmp_path / "main.py"

    def digest_of(*strings):
        text = "class A:\n    {}\n    def f(self):\n        {}\n        return {}\n"
        path.write_text(text.format(*strings))
        return source_digest.imports_digest(str(path), tmp_path)

    before = digest_of("'One.'", "'Two.'", "'three'")
    assert digest_of("'1.'", '"2."', "('three')") == before
    assert digest_of("'One.'", "'Two.'", "'four'") != before


def test_imports_within_functions_and_of_plain_modules_count(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "main.py").write_text("def run():\n    import room.first\n")
    (tmp_path / "room/first.py").write_text("from room import second, third\n")
    (tmp_path / "room/second.py").write_text("import json\nfrom main import run\n")
    (tmp_path / "room/fourth.py").write_text("")
    main = str(tmp_path / "main.py")
    digests = {source_digest.imports_digest(main, tmp_path)}
    for name in ("main", "room/first", "room/second"):
        path = tmp_path / f"{name}.py"
        path.write_text(path.read_text() + "changed = 1\n")
        digests.add(source_digest.imports_digest(main, tmp_path))
    assert len(digests) == 4
    (tmp_path / "room/fourth.py").write_text("changed = 1\n")
    assert source_digest.imports_digest(main, tmp_path) in digests


def test_an_omitted_file_does_not_count(tree):
    name = "albert_tf/core/task_config.py"
    digests = [digest(tree), digest(tree, name)]
    (tree / name).write_text((tree / name).read_text() + "\n_CHANGED = 1\n")
    assert digest(tree) != digests[0]
    assert digest(tree, name) == digests[1]
