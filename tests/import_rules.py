"""The import rules of this project, and the checker that holds a file to them."""

import ast
import dataclasses
import re
from collections.abc import Iterator

from tests import build_file

# Who may import whom: a file imports only from rows below its own. A name ending in
# a slash is a folder, whose files may import one another too. The numbers are those of
# README's architecture section; a letter orders the files within one level.
ALBERT_TF = (
    ("0a", "schema", "files", "compiled", "setting_rules"),
    ("0b", "task_config"),
    ("0c", "config"),
    ("0d", "random_stream", "model_costs", "batch_scaling", "tpu_pod"),
    ("0e", "masking", "paper_scores", "paper_sizes"),
    (
        "1a",
        "binary",
        "tokenization",
        "pointwise",
        "schedule",
        "distribution",
        "record_parser",
        "shard_order",
        "storage",
    ),
    ("1b", "islands", "input_pipeline"),
    ("1c", "layers", "losses"),
    ("1d", "task_losses"),
    ("2a", "encoder", "optimizer", "graph_tokenization"),
    ("2b", "graph_alignment"),
    ("3a", "heads", "task_heads"),
    ("3b", "models", "task_models"),
    ("3c", "objectives"),
    (
        "4a",
        "checkpoint",
        "lite",
        "preemption",
        "report_drawing",
        "run_folder",
        "run_log",
        "stall_watch",
        "text_embeddings",
        "train_step",
        "warm_start",
        "cluster/",
    ),
    (
        "4b",
        "layer_decay",
        "report_page",
        "task_runs",
        "train_loop",
        "training_meter",
        "tasks/",
    ),
    (
        "4c",
        "reusable_encoder",
        "serving",
        "model_speed/",
        "train_speed/",
        "report_plots",
        "training_run",
        "task_input",
        "task_plots",
        "task_start",
        "task_folder",
        "task_results",
    ),
    (
        "4d",
        "interchange/",
        "saved_models",
        "task_errors",
        "task_predictions",
        "task_serving/",
        "warm_up_requests",
    ),
    ("4e", "fine_tuning", "task_report", "web/"),
    ("5a", "training_flags"),
    (
        "5b",
        "bench_model",
        "bench_serve",
        "bench_train",
        "convert",
        "demo",
        "describe",
        "ensemble",
        "evaluate",
        "export",
        "finetune",
        "glue_submission",
        "predict",
        "pretrain",
        "report",
        "serve",
        "submit",
    ),
)
DATA_PREP = (
    (
        "0",
        "contamination",
        "double_array",
        "manifest_check",
        "markup",
        "output_folder",
        "processes",
        "record_reader",
        "records",
        "run_meter",
        "sentence_order",
        "sentences",
        "tfrecord",
        "vocab_report",
    ),
    (
        "1",
        "cleaning",
        "duplicates",
        "readers",
        "record_maker",
        "record_rules",
        "unigram",
    ),
    ("2", "fast_encoder", "inspection", "progress", "shard_check", "shards"),
    ("3", "blocks", "inspection_tables", "line_sample", "record_pieces"),
    ("4", "inspection_page", "summary", "work_folder"),
    ("5", "preparation", "worker"),
    (
        "6a",
        "bench_data",
        "create_pretraining_data",
        "demo_corpus",
        "inspect_records",
        "train_vocab",
        "verify",
    ),
    ("6b", "beam_steps"),
    ("6c", "beam_pipeline"),
)
TABLES = {"albert_tf": ALBERT_TF, "data_prep": DATA_PREP}

# What each package may import of the others. data_prep takes config and binary because
# its binaries take the same --config and --set as those of albert_tf, and end alike.
ACROSS = {
    "albert_tf": (),
    "data_prep": (
        "albert_tf/schema.py",
        "albert_tf/tokenization.py",
        "albert_tf/config.py",
        "albert_tf/setting_rules.py",
        "albert_tf/task_config.py",
        "albert_tf/tasks/base.py",
        "albert_tf/tasks/catalog.py",
        "albert_tf/tasks/conll.py",
        "albert_tf/tasks/data.py",
        "albert_tf/tasks/ensembles.py",
        "albert_tf/tasks/examples.py",
        "albert_tf/tasks/glue.py",
        "albert_tf/tasks/outputs.py",
        "albert_tf/tasks/preparation.py",
        "albert_tf/tasks/race.py",
        "albert_tf/tasks/rows.py",
        "albert_tf/tasks/rules.py",
        "albert_tf/tasks/scores.py",
        "albert_tf/tasks/squad.py",
        "albert_tf/tasks/squad_answers.py",
        "albert_tf/tasks/squad_features.py",
        "albert_tf/tasks/squad_reader.py",
        "albert_tf/tasks/squad_scores.py",
        "albert_tf/tasks/submission.py",
        "albert_tf/tasks/tables.py",
        "albert_tf/tasks/text_features.py",
        "albert_tf/tasks/text_files.py",
        "albert_tf/tasks/text_task.py",
        "albert_tf/binary.py",
        "albert_tf/files.py",
        "albert_tf/compiled.py",
        "albert_tf/random_stream.py",
        "albert_tf/masking.py",
    ),
    "configs": ("albert_tf/config.py", "albert_tf/task_config.py"),
}

# TensorFlow costs each process of data_prep 350 MB and three seconds; albert_tf/files
# imports it where a path is remote, and not before.
WITH_TENSORFLOW = ("data_prep/demo_corpus.py", "data_prep/record_reader.py")
WITHOUT_TENSORFLOW = (
    "albert_tf/schema.py",
    "albert_tf/config.py",
    "albert_tf/setting_rules.py",
    "albert_tf/task_config.py",
    "albert_tf/compiled.py",
    "albert_tf/random_stream.py",
    "albert_tf/masking.py",
    "albert_tf/tokenization.py",
    "albert_tf/binary.py",
    "albert_tf/model_costs.py",
    "albert_tf/paper_scores.py",
    "albert_tf/paper_sizes.py",
    "albert_tf/batch_scaling.py",
    "albert_tf/tpu_pod.py",
    "albert_tf/describe.py",
    "albert_tf/submit.py",
    "albert_tf/cluster/executor.py",
    "albert_tf/cluster/gpu_plan.py",
    "albert_tf/cluster/host_scripts.py",
    "albert_tf/cluster/machines.py",
    "albert_tf/cluster/plans.py",
    "albert_tf/cluster/source.py",
    "albert_tf/cluster/tpu_plan.py",
)
PURE = (
    "albert_tf/batch_scaling.py",
    "albert_tf/cluster/gpu_plan.py",
    "albert_tf/cluster/host_scripts.py",
    "albert_tf/cluster/machines.py",
    "albert_tf/cluster/plans.py",
    "albert_tf/cluster/tpu_plan.py",
    "albert_tf/masking.py",
    "albert_tf/model_costs.py",
    "albert_tf/paper_scores.py",
    "albert_tf/paper_sizes.py",
    "albert_tf/random_stream.py",
    "data_prep/cleaning.py",
    "data_prep/contamination.py",
    "data_prep/duplicates.py",
    "data_prep/record_maker.py",
    "data_prep/records.py",
    "data_prep/sentence_order.py",
    "data_prep/sentences.py",
)
INPUT_AND_OUTPUT = {
    "glob",
    "gzip",
    "io",
    "os",
    "pathlib",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "urllib",
}
TENSORFLOW = {
    "tensorflow",
    "tensorflow_serving",
    "tensorflow_text",
    "tf_keras",
    "keras",
    "keras_nlp",
}
FORBIDDEN = {
    "pickle": "unpickling runs whatever a file says",
    "tensorflow_addons": "it is end-of-life and serves as a test oracle only",
}

# The one file that names devices and strategies, and what others may say all the same:
# types in signatures, which construct nothing.
DEVICES = "albert_tf/distribution.py"
DISTRIBUTE_TYPES = {
    "tf.distribute.Strategy": None,
    "tf.distribute.InputContext": (
        "albert_tf/input_pipeline.py",
        "albert_tf/task_input.py",
    ),
}
DEVICE_NAMES = re.compile(
    r"tf\.(compat\.v1\.)?(distribute|tpu)\.\w+|"
    r"tf\.config\.(experimental\.)?(\w+_physical_devices|\w+_connect\w*)"
)


@dataclasses.dataclass(frozen=True)
class Row:
    """Where a file stands in its package's table."""

    rank: int
    label: str
    entry: str


def row_of(path: str) -> Row | None:
    """The row of `albert_tf/tasks/glue.py` and the like, or None if it has none."""
    package, rest = path.split("/", 1)
    for rank, (label, *entries) in enumerate(TABLES[package]):
        for entry in entries:
            if rest == f"{entry}.py" or (entry[-1] == "/" and rest.startswith(entry)):
                return Row(rank, label, entry)
    return None


def may_define_flags(path: str) -> bool:
    """Whether the file is one of the binaries, which are a table's last level."""
    package = path.split("/")[0]
    row = row_of(path) if package in TABLES else None
    return row is not None and row.label[0] == TABLES[package][-1][0][0]


def violations(path: str, source: str, files: frozenset[str]) -> list[str]:
    """Each way in which one product file breaks the rules, as `path:line: rule`."""
    tree = ast.parse(source, path)
    if path.endswith("/__init__.py"):
        rules = _package_rules(tree)
    elif path.split("/")[0] in TABLES and row_of(path) is None:
        rules = iter([(1, _unknown(path))])
    else:
        rules = _file_rules(path, tree, source, files)
    return [f"{path}:{line}: {rule}" for line, rule in sorted(set(rules))]


def _package_rules(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for number, node in enumerate(tree.body):
        if number or not isinstance(node, ast.Expr) or ast.get_docstring(tree) is None:
            yield node.lineno, "an __init__.py holds a docstring and nothing else"
    if not tree.body:
        yield 1, "an __init__.py says in a docstring what its package is for"


def _unknown(path: str) -> str:
    table = path.split("/")[0].upper()
    return (
        f"this file stands in no row of {table} in tests/import_rules.py; add it there "
        "at its level, and to README's architecture section"
    )


def _file_rules(
    path: str, tree: ast.Module, source: str, files: frozenset[str]
) -> Iterator[tuple[int, str]]:
    for item in build_file.imports_of(path, source):
        top = item.module.split(".")[0]
        targets = build_file.imported_files(item, files)
        if top in build_file.PACKAGES:
            if not targets or (item.symbol is None and len(targets) < 2):
                yield item.line, f"there is no file for {item.module}"
            elif item.symbol and not _names_a_file(item, targets[-1]):
                yield (
                    item.line,
                    f"imports the symbol {item.symbol} from {item.module}; import "
                    "modules, not symbols",
                )
        # The last one is what is meant; the packages around it hold a docstring only.
        rule = _order_rule(path, targets[-1]) if targets else None
        if rule is not None:
            yield item.line, rule
        if top in FORBIDDEN:
            yield item.line, f"product code may not import {top}: {FORBIDDEN[top]}"
        if top in TENSORFLOW and _does_without_tensorflow(path):
            yield item.line, f"imports {top}, but this file does without TensorFlow"
        if path in PURE and top in INPUT_AND_OUTPUT:
            yield item.line, f"imports {top}, but this file is pure: no input or output"
        flags = f"{item.module}.{item.symbol}".startswith("absl.flags")
        if flags and not may_define_flags(path):
            yield item.line, "only the binaries define and read flags"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            device = _device_named(path, name)
            if device is not None:
                yield node.lineno, f"names {device}, which only {DEVICES} may"
            if ".flags.DEFINE_" in f".{name}" and not may_define_flags(path):
                yield node.lineno, "only the binaries define and read flags"
        if path in PURE and isinstance(node, ast.Call):
            if ast.unparse(node.func) == "open":
                yield (
                    node.lineno,
                    "calls open, but this file is pure: no input or output",
                )


def _does_without_tensorflow(path: str) -> bool:
    in_data_prep = path.startswith("data_prep/") and path not in WITH_TENSORFLOW
    return in_data_prep or path in WITHOUT_TENSORFLOW


def _names_a_file(item: build_file.Import, target: str) -> bool:
    name = f"{item.module}.{item.symbol}".replace(".", "/")
    return target in (f"{name}.py", f"{name}/__init__.py")


def _device_named(path: str, name: str) -> str | None:
    match = DEVICE_NAMES.match(name.replace("tensorflow.", "tf.", 1))
    if match is None or path == DEVICES:
        return None
    device = match.group()
    allowed_in = DISTRIBUTE_TYPES.get(device, ())
    return None if allowed_in is None or path in allowed_in else device


def _order_rule(path: str, target: str) -> str | None:
    package, other = path.split("/")[0], target.split("/")[0]
    if package != other:
        if target in ACROSS[package]:
            return None
        allowed = ", ".join(ACROSS[package])
        return f"imports {target}; of other packages {package} may import " + (
            f"only {allowed}" if allowed else "nothing"
        )
    if package not in TABLES:
        allowed = " and ".join(ACROSS["configs"])
        return f"imports {target}; a recipe imports only {allowed}"
    own, its = row_of(path), row_of(target)
    if own is None or its is None:
        return None  # The file without a row is reported by itself.
    if its.rank < own.rank or (its.entry == own.entry and own.entry[-1] == "/"):
        return None
    return (
        f"imports {target} of level {its.label}, but stands at level {own.label} "
        "itself; imports go to a lower level only"
    )


def cycles(graph: dict[str, list[str]]) -> list[str]:
    """Each chain of imports that comes back to where it began."""
    found, done = [], set()

    def visit(path: str, chain: list[str]) -> None:
        if path in chain:
            found.append(" -> ".join([*chain[chain.index(path) :], path]))
        elif path not in done:
            for target in graph[path]:
                visit(target, [*chain, path])
            done.add(path)

    for path in sorted(graph):
        visit(path, [])
    return found
