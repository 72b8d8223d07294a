"""What is known of a run, for the card of a model made from it."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from albert_tf.checkpoints import checkpointer, run_dir
from albert_tf.checkpoints import untrained as untrained_lib
from albert_tf.core import config as config_lib
from albert_tf.core import (
    config_io,
    files,
    plurals,
    provenance,
    strict_json,
    task_config,
)
from albert_tf.data import schema
from albert_tf.finetuning import results_reader
from albert_tf.finetuning import run_dir as task_dir
from albert_tf.model import costs
from albert_tf.probing import results_reader as probe_reader
from albert_tf.probing import suites
from albert_tf.serving import model_card
from albert_tf.training import metrics_log

# By format or form: the hubs' name of the library that reads it.
_LIBRARIES = {"hf": "transformers", "keras": "keras-hub"}
_OWN_LIBRARY = "albert_tf"
_ASK = {
    "": 'model.fill_mask("The river runs through the [MASK].")',
    model_card.ENCODER: 'model.embed("The river runs through the valley.")',
    "classification": 'model.classify("A fine film.")',
    "regression": 'model.classify(("A train came.", "There was a train."))',
    "token_classification": 'model.tag("His brother lives in New York.")',
    "span": 'model.answer(("What is near?", "The church is near a lake."))',
    "answerable_span": 'model.answer(("What is near?", "The church is near a lake."))',
    "multiple_choice": 'model.choose(("It came.", "What came?", "a bus", "a train"))',
}


def card_of_run(
    model_dir: str,
    form: str,
    checkpoint: str,
    license_name: str,
    weights: str = config_lib.WEIGHTS[0],
    made: str = "",
    hf_class: str = "",
    kind: str | None = None,
) -> str:
    """Returns the card of what was made from a run.

    Args:
      model_dir: the run directory, with one seed or several.
      form: of the export (`--form`), or the format of a conversion.
      checkpoint: the path of the exported checkpoint.
      license_name: as hubs name it.
      weights: as in `checkpointer.weights_part`.
      made: how it was made; by default, exported from the checkpoint.
      hf_class: as in `usage`.
      kind: as in `model_card.Card`; None for that of the run.
    """
    name = provenance.name_of(model_dir)
    model_dir = results_reader.best_folder(model_dir)
    config = config_io.read(os.path.join(model_dir, schema.CONFIG_FILE))
    step = checkpointer.step_of(checkpoint)
    scores, data = [], []
    if config.task.name:
        of_run = task_dir.read_task(model_dir)["kind"]
        results = results_reader.read_results_file(model_dir)
        data += _task_data(config, results)
        if kind in (None, of_run):  # else the head that has them is not there
            scores += _task_scores(config, results, step)
    else:
        untrained = untrained_lib.of_run(model_dir, config)
        of_run = model_card.ENCODER if untrained_lib.MASKED_LM in untrained else ""
        scores += _pretraining_scores(model_dir, config, step, weights)
    kind = of_run if kind is None else kind
    languages, found = _records(_pretraining_dir(model_dir, config))
    made = made or f"Exported as {form} from {os.path.basename(checkpoint)}"
    return model_card.render(
        model_card.Card(
            name=name,
            kind=kind,
            library=_LIBRARIES.get(form, _OWN_LIBRARY),
            summary=summary(config.model),
            made=model_card.made_line(made),
            license=license_name,
            languages=languages,
            data=[*data, *found],
            settings=_settings(config, step),
            scores=scores,
            usage=usage(form, kind, hf_class),
            architecture=architecture(config.model),
        )
    )


def writer(
    source: str, target: str, license_name: str, weights: str
) -> Callable[[Any, str], None]:
    """Returns a function that adds the card to a converted model.

    It takes the model, with `config`, `head` and `parts` as `portable.PortableModel`
    has them, and the directory that is written.

    Args:
      source: FORMAT:PATH of the conversion.
      target: FORMAT:DIRECTORY of it.
      license_name: as hubs name it.
      weights: as in `checkpointer.weights_part`.

    Raises:
      ValueError: the licence has another form.
    """
    model_card.check_license(license_name)
    (source_format, _, path), target_format = (
        source.partition(":"),
        target.partition(":")[0],
    )
    name = provenance.name_of(path)

    def write(model: Any, folder: str) -> None:
        kind = model.head.kind if model.head else ""
        if not model.head and untrained_lib.MASKED_LM not in model.parts:
            kind = model_card.ENCODER
        made = f"Converted from {source_format}:{name} to the format {target_format}"
        hf_class = _hf_class(folder) if target_format == "hf" else ""
        if source_format == "run":
            text = card_of_run(
                path,
                target_format,
                f"-{model.step}",
                license_name,
                weights,
                made,
                hf_class,
                kind,
            )
        else:
            text = model_card.render(
                model_card.Card(
                    name=name,
                    kind=kind,
                    library=_LIBRARIES.get(target_format, _OWN_LIBRARY),
                    summary=summary(model.config),
                    made=model_card.made_line(made),
                    license=license_name,
                    data=["Not known to the conversion: see the card of the source."],
                    settings=_sizes(model.config),
                    usage=usage(target_format, kind, hf_class),
                    architecture=architecture(model.config),
                )
            )
        files.write_bytes(os.path.join(folder, model_card.FILE), text.encode())

    return write


def _hf_class(folder: str) -> str:
    """Returns the class that config.json of Hugging Face names; "" for none."""
    path = os.path.join(folder, schema.CONFIG_FILE)
    if not files.exists(path):
        return ""
    named = strict_json.load_object(path).get("architectures", [])
    return str(named[0]) if named else ""


# ---- Architecture and settings ----


def summary(model: config_lib.ModelConfig) -> str:
    """Returns a sentence on an architecture."""
    parameters = costs.count_parameters(model).encoder
    name = {"albert": "An ALBERT", "bert": "A BERT"}[architecture(model)]
    return (
        f"{name} encoder of {plurals.count(model.num_layers, 'layer')} with hidden "
        f"size {model.hidden_size:,} and a vocabulary of {model.vocab_size:,} pieces: "
        f"{parameters:,} parameters."
    )


def architecture(model: config_lib.ModelConfig) -> str:
    """Returns "bert" for a model that shares and factorizes nothing, else "albert"."""
    is_bert = model.sharing == "none" and model.embedding_size == model.hidden_size
    return "bert" if is_bert else "albert"


def _sizes(model: config_lib.ModelConfig) -> list[tuple[str, str]]:
    names = (
        "embedding_size",
        "hidden_size",
        "num_layers",
        "num_heads",
        "sharing",
        "intermediate_size",
        "activation",
        "max_positions",
        "vocab_size",
    )
    return [(f"model.{name}", str(getattr(model, name))) for name in names]


def _settings(config: config_lib.Config, step: int) -> list[tuple[str, str]]:
    rows = [*_sizes(config.model), ("lower case", str(config.data.lower_case))]
    if not (step or config.task.name):  # a conversion kept no step
        return rows
    rows += [
        ("optimizer", config.optimizer.name),
        ("learning rate", f"{config.optimizer.learning_rate:g}"),
        ("warm-up steps", f"{config.optimizer.warmup_steps:,}"),
        ("batch size", f"{config.train.batch_size:,}"),
        ("steps", f"{step:,} of {config.train.num_steps:,}"),
        ("computed in", config.train.compute_dtype),
    ]
    length = config.task.max_seq_length if config.task.name else config.longest_sequence
    return [*rows, ("longest sequence", f"{length:,} tokens")]


def usage(form: str, kind: str, hf_class: str = "") -> list[tuple[str, str]]:
    """Returns how a model is used: (language, code) in the order to show.

    Args:
      form: of an export, or the format of a conversion.
      kind: as in `model_card.Card`.
      hf_class: the class of transformers, for its format.
    """
    ask = f'import albert_tf\n\nmodel = albert_tf.load(".")\nprint({_ASK[kind]})'
    served = ("sh", "python -m albert_tf.serve --saved_model=.")
    if form == "text":
        return [("python", ask), served]
    if form == "openvino":
        return [served]
    if form == "run":
        return [("python", ask)]
    if form == "encoder":
        text = 'import tensorflow as tf\n\nencoder = tf.saved_model.load(".")'
        return [("python", text)]
    if form == "lite":
        text = (
            "import tensorflow as tf\n\n"
            'interpreter = tf.lite.Interpreter("model.tflite")\n'
            "run = interpreter.get_signature_runner()"
        )
        return [("python", text)]
    if form == "hf":
        name = hf_class or "AutoModel"
        text = (
            "import transformers\n\n"
            'tokenizer = transformers.AutoTokenizer.from_pretrained(".")\n'
            f'model = transformers.{name}.from_pretrained(".")'
        )
        return [("python", text)]
    # keras and tf1, from which a run is made again.
    return [
        ("sh", f"python -m albert_tf.convert --from={form}:. --to=run:../converted")
    ]


# ---- Data ----


def _pretraining_dir(model_dir: str, config: config_lib.Config) -> str:
    """Returns the directory of the pre-training; "" if it is not at hand."""
    if not config.task.name:
        return model_dir
    prefix = task_dir.read_task(model_dir)["init_checkpoint"]
    folder = os.path.dirname(prefix)
    return folder if folder and files.is_folder(folder) else ""


def _records(model_dir: str) -> tuple[list[str], list[str]]:
    """Returns the languages, and sentences on the records, of a pre-training."""
    manifests = run_dir.read_manifests(model_dir) if model_dir else {}
    languages: dict[str, None] = {}
    found = []
    for name, values in manifests.items():
        try:
            manifest = schema.Manifest.from_values(values)
        except ValueError:  # of an earlier format, of which less is known
            continue
        if language := str(manifest.text.get("language", "")):
            languages[language] = None
        records = manifest.splits[schema.TRAIN].num_records
        kept = manifest.documents.get("kept")
        of_documents = f" made from {plurals.count(kept, 'document')}" if kept else ""
        named = f" ({name})" if name else ""
        found.append(
            f"Pre-training{named}: {plurals.count(records, 'record')} of "
            f"{manifest.seq_length:,} tokens{of_documents}."
        )
    return list(languages), found


def _task_data(config: config_lib.Config, results: Mapping[str, Any]) -> list[str]:
    title = task_config.TITLES[config.task.name]
    if not results:
        return [f"Fine-tuning: {title}."]
    counts = ", ".join(f"{n:,} of {s}" for s, n in results["num_examples"].items())
    return [f"Fine-tuning: {title}, examples: {counts}."]


# ---- Scores ----


def _task_scores(
    config: config_lib.Config, results: Mapping[str, Any], step: int
) -> list[model_card.Score]:
    """Returns the scores of results.json, if they are of this step."""
    if not results or results["best_step"] != step:
        return []
    return [
        model_card.Score(config.task.name, split, metric, value)
        for split, scores in results["scores"].items()
        for metric, value in scores.items()
    ]


def _pretraining_scores(
    model_dir: str, config: config_lib.Config, step: int, weights: str
) -> list[model_card.Score]:
    """Returns the scores of the evaluation at this step, and of probes of it."""
    rows = metrics_log.read_metrics(model_dir)
    found = []
    if not config.train.ema_decay or config.train.eval_weights == weights:
        found = [
            model_card.Score("text of the run", row["split"], metric, value)
            for row in rows
            if row["split"] == schema.HELDOUT and row["step"] == step
            for metric, value in row.items()
            if metric.endswith(("_loss", "_accuracy"))
        ]
    for folder in probe_reader.find(model_dir):
        values = probe_reader.read(folder)
        if values["checkpoint"].endswith(f"-{step}"):
            title = suites.TITLES.get(values["suite"], "own pairs")
            accuracy = values["overall"]["accuracy"]
            split = f"{values['num_pairs']:,} pairs"
            found.append(model_card.Score(title, split, "accuracy", accuracy))
    return found
