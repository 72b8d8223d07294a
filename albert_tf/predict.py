r"""Calls a SavedModel of albert_tf.export, and prints readable answers.

python -m albert_tf.predict --saved_model=DIR "Paris is the [MASK] of France."
python -m albert_tf.predict --saved_model=DIR --signature=sentence_order FIRST SECOND
python -m albert_tf.predict --saved_model=DIR --signature=encode TEXT ...
python -m albert_tf.predict --saved_model=DIR --signature=encode --input=FILE \
    --output=embeddings.parquet

and for a fine-tuned model, by its task:

python -m albert_tf.predict --saved_model=DIR TEXT ...
python -m albert_tf.predict --saved_model=DIR QUESTION CONTEXT
python -m albert_tf.predict --saved_model=DIR CONTEXT QUESTION OPTION OPTION ...
python -m albert_tf.predict --saved_model=DIR --input=FILE --json

Without texts they are read from --input or from standard input, one example per line,
with fields separated by tabs: text or pair; first, second; question, context; context,
question, options. Answers are in the order of the lines. Empty lines are
skipped, except for embeddings in a file, which has one for each line.

python -m albert_tf.predict --saved_model=DIR --input=FILE.csv --output=ANSWERS.csv

A model of texts reads tables with the columns that it learnt from (.csv and .tsv with a
header line, .jsonl), and adds to each row the prediction and its probability.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from absl import flags

from albert_tf.core import cli, files, plurals, progress_bar
from albert_tf.inference import saved_model_dir

SIGNATURES = (
    "fill_mask",
    "sentence_order",
    "encode",
    "classify",
    "tag",
    "answer",
    "choose",
)
POOLINGS = ("pooled", "mean")
_EMBEDDING_FILES = (".parquet", ".npz")
# Seconds before there is a progress bar: few texts need none.
_BAR_DELAY = 2.0


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_string(
        "saved_model", None, "Directory of the SavedModel.", flag_values=flag_values
    )
    flags.DEFINE_enum(
        "signature",
        None,
        SIGNATURES,
        "Signature to call; by default fill_mask, or the only one of the model.",
        flag_values,
    )
    flags.DEFINE_string(
        "input", "", "File of examples, one per line, local or gs://.", flag_values
    )
    flags.DEFINE_integer(
        "batch_size", 32, "Examples per call.", 1, flag_values=flag_values
    )
    flags.DEFINE_integer(
        "top_k", 5, "Candidates shown for each [MASK].", 1, flag_values=flag_values
    )
    flags.DEFINE_bool("json", False, "Prints one JSON object per example.", flag_values)
    flags.DEFINE_string(
        "output",
        "",
        "With --signature=encode: a .parquet or .npz file to which the embeddings are "
        "written, in the order of the texts. With a table as --input: the file of the "
        "table with predictions, of the same extension; by default it is printed.",
        flag_values,
    )
    flags.DEFINE_enum(
        "pooling",
        "pooled",
        POOLINGS,
        "Embedding for --output: pooled, that of [CLS], which was trained on sentence "
        "order; or mean, the last layer's mean over a text's tokens.",
        flag_values,
    )
    flags.mark_flags_as_required(["saved_model"], flag_values)


def _check_input(texts: Sequence[str], flag_values: flags.FlagValues) -> None:
    """Checks what needs no TensorFlow, unless a path is remote.

    Raises:
      ValueError: flags exclude one another, or a named file is missing.
    """
    saved_model_dir.check(flag_values.saved_model)
    path = flag_values.input
    if path and texts:
        raise ValueError(
            f"there must be either --input or texts as arguments; received {path} and "
            f"{texts[0]!r}"
        )
    if path and not files.exists(path):
        raise ValueError(f"--input must be a file that can be read; there is no {path}")


def _check_output(flag_values: flags.FlagValues) -> None:
    """Checks the flags of embeddings; raises ValueError."""
    output, signature = flag_values.output, flag_values.signature
    folder = os.path.dirname(output)
    if folder and not files.is_remote(output) and not os.path.isdir(folder):
        raise ValueError(
            f"--output must be in a directory that exists; there is no {folder}"
        )
    if output and not output.endswith(_EMBEDDING_FILES):
        rule = f"--output must end in {' or '.join(_EMBEDDING_FILES)} for embeddings"
        if signature != "encode":
            rule += ", or as --input for a table that a model of texts is to answer"
        raise ValueError(f"{rule}; received {output}")
    if output and signature != "encode":
        raise ValueError(
            "--output takes embeddings, so --signature must be encode; received "
            f"{signature}"
        )


def _with_progress(lines: Iterable[str], is_printed: bool) -> Iterator[str]:
    """Yields lines, with a progress bar unless a terminal shows the lines."""
    is_shown = is_printed and sys.stdout.isatty()
    with progress_bar.make(unit="line", delay=_BAR_DELAY, disable=is_shown) as bar:
        for line in lines:
            yield line
            bar.update()


def _say_loading(saved_model: str) -> None:
    """Writes a line that a model is loaded, which takes seconds too."""
    progress_bar.say(f"loading {saved_model}")


def _answers_table(flag_values: flags.FlagValues) -> bool:
    """Answers the table in --input, if it is one; returns whether it is.

    Raises:
      ValueError: --output is not as --input, or the table is malformed.
    """
    model, path, output = flag_values.saved_model, flag_values.input, flag_values.output
    is_table = path.endswith((".csv", ".tsv", ".jsonl"))
    if not is_table or flag_values.signature not in (None, "classify"):
        return False
    # Imported here: TensorFlow takes seconds, and flags and files were checked first.
    from albert_tf.serving import table_prediction

    columns = table_prediction.find_columns(model, path)
    if not columns:
        return False
    extension = os.path.splitext(path)[1]
    if output and (flag_values.json or not output.endswith(extension)):
        raise ValueError(
            f"--output must end in {extension}, as --input, and be given without "
            f"--json; received {output}"
        )
    batch_size = flag_values.batch_size
    _say_loading(model)
    lines = _with_progress(
        table_prediction.predict(model, path, columns, batch_size, flag_values.json),
        is_printed=not output,
    )
    if not output:
        for line in lines:
            print(line)
        return True
    count = 0
    with files.open_complete(output) as file:
        for line in lines:
            file.write(f"{line}\n".encode("utf-8", "replace"))
            count += 1
    count -= extension != ".jsonl"
    print(f"{output}: {count:,} rows with predictions")
    return True


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Answers texts from the command line, a file or standard input."""
    with cli.user_errors():
        _check_input(argv[1:], flag_values)
        if _answers_table(flag_values):
            return
        _check_output(flag_values)
        # Imported here: TensorFlow takes seconds, and flags and files were checked
        # first.
        from albert_tf.inference import predict

        model, path = flag_values.saved_model, flag_values.output
        _say_loading(model)
        examples = argv[1:], flag_values.input, flag_values.batch_size
        if path:
            count = predict.write_embeddings(
                model, *examples, flag_values.pooling, path
            )
            print(f"{path}: {plurals.count(count, 'embedding')}")
            return
        answers = predict.show_answers(
            model,
            flag_values.signature,
            *examples,
            flag_values.top_k,
            flag_values.json,
            takes_pairs=saved_model_dir.takes_pairs(model),
        )
        for answer in _with_progress(answers, is_printed=True):
            print(answer)


if __name__ == "__main__":
    cli.run(main, define_flags)
