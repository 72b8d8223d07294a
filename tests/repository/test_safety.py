"""No code of the product runs what a file or a user's text says."""

import ast
import re

import pytest

from tests.repository import project_files

_BUILTINS = ("compile", "eval", "exec")
# Whatever is called like this runs what it is given, or writes where an archive says.
_CALLS = {
    "exec_module": "runs a file",
    "extract": "writes where an archive says",
    "extractall": "writes where an archive says",
    "getoutput": "runs a shell",
    "getstatusoutput": "runs a shell",
    "mktemp": "names a file that another may make first",
    "popen": "runs a shell",
    "run_path": "runs a file",
    "system": "runs a shell",
    "unpack_archive": "writes where an archive says",
}
_MODULES = ("cPickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve")
# Recipes are Python, and SECURITY.md says so; TensorFlow is a package.
_RECIPES = "albert_tf/core/config_io.py"
_IMPORTER = "albert_tf/core/tensorflow_console.py"


def violations(path: str, source: str) -> list[str]:
    """Lines about calls and imports that run what a file or a text says."""
    found = []
    for item in project_files.imports_of(path, source):
        if item.module.split(".")[0] in _MODULES:
            found.append(f"{path}:{item.line}: {item.module} runs what a file says")
    for node in ast.walk(ast.parse(source, path)):
        if not isinstance(node, ast.Call):
            continue
        said = ast.unparse(node.func)
        name = said.rpartition(".")[2]
        given = {word.arg: ast.unparse(word.value) for word in node.keywords}
        place = f"{path}:{node.lineno}: {said}"
        if said in _BUILTINS:
            found.append(f"{place} runs text")
        is_filtered = name == "extractall" and given.get("filter") == "only_files"
        if name in _CALLS and said != "platform.system" and not is_filtered:
            found.append(f"{place} {_CALLS[name]}")
        if given.get("shell", "False") != "False":
            found.append(f"{place} runs a shell")
        if given.get("allow_pickle", "False") != "False":
            found.append(f"{place} may read a pickle")
        if said == "torch.load":
            found.append(f"{place} may read a pickle")
        if name == "load" and said.startswith("yaml"):
            found.append(f"{place} runs what a file says")
    return found


def _product_files() -> list[str]:
    paths = project_files.python_files(project_files.ROOT)
    return [
        p
        for p in paths
        if not p.startswith("tests/") and p not in (_RECIPES, _IMPORTER)
    ]


def test_nothing_runs_what_a_file_or_a_text_says():
    found = [
        line
        for path in _product_files()
        for line in violations(path, (project_files.ROOT / path).read_text())
    ]
    assert not found, "\n" + "\n".join(found)


# They read what the project itself wrote to a child process or took from one; the room
# of devices imports no other one, and checks what it reads by itself.
_READS_JSON = {
    "albert_tf/core/strict_json.py",
    "albert_tf/planning/tpu_compile.py",
    "albert_tf/devices/strategies.py",
    "data_prep/pipeline/run_plan.py",
}


def test_json_from_outside_is_read_by_the_strict_reader():
    found = {
        path
        for path in _product_files()
        if not path.startswith("albert_tf/benchmarks/")
        and re.search(
            r"\bjson\.(loads?|JSONDecoder)\(",
            (project_files.ROOT / path).read_text(),
        )
    }
    assert found == _READS_JSON


@pytest.mark.parametrize(
    ("path", "call"),
    [(_RECIPES, "spec.loader.exec_module"), (_IMPORTER, "super().exec_module")],
)
def test_files_of_python_are_run_in_two_places(path, call):
    found = violations(path, (project_files.ROOT / path).read_text())
    assert [line.rpartition(": ")[2] for line in found] == [f"{call} runs a file"]


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from marshal import loads",
        "eval(text)",
        "exec(text)",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
        "subprocess.getoutput(text)",
        "np.load(path, allow_pickle=True)",
        "torch.load(path)",
        "archive.extractall(folder)",
        "archive.extractall(folder, filter='fully_trusted')",
        "shutil.unpack_archive(path)",
        "tempfile.mktemp()",
        "yaml.load(text)",
        "runpy.run_path(path)",
    ],
)
def test_what_runs_text_is_seen(line):
    assert len(violations("a.py", f"{line}\n")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "import json",
        "re.compile(text)",
        "subprocess.run(['ls', path])",
        "np.load(path, allow_pickle=False)",
        "np.load(path)",
        "model.compile()",
        "ast.literal_eval(text)",
        "platform.system()",
        "archive.extractall(folder, filter=only_files)",
    ],
)
def test_what_runs_no_text_is_let_pass(line):
    assert violations("a.py", f"{line}\n") == []
