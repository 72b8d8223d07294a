r"""Asks a SavedModel made by albert_tf.export, and prints readable answers.

python -m albert_tf.predict --saved_model=DIR "Paris is the [MASK] of France."
python -m albert_tf.predict --saved_model=DIR --signature=sentence_order FIRST SECOND
python -m albert_tf.predict --saved_model=DIR --signature=encode TEXT ...
python -m albert_tf.predict --saved_model=DIR --signature=encode --input=FILE \
    --output=embeddings.parquet

and of a fine-tuned model, whatever it learnt:

python -m albert_tf.predict --saved_model=DIR TEXT ...
python -m albert_tf.predict --saved_model=DIR QUESTION CONTEXT
python -m albert_tf.predict --saved_model=DIR CONTEXT QUESTION OPTION OPTION ...
python -m albert_tf.predict --saved_model=DIR --input=FILE --json

Without texts they are read from --input or from standard input, an example a line, with
tabs between its parts: text or pair; first, second; question, context; context,
question, options. Empty lines are passed over. Answers come in the order of the lines.
"""

import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from absl import flags

from albert_tf import binary, files, saved_models, text_embeddings, tokenization
from albert_tf.task_serving import asking

# Where a SavedModel has several, the first of these is asked.
SIGNATURES = ("fill_mask", "sentence_order", "encode", *asking.FORMS)
POOLINGS = ("pooled", "mean")


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_string(
        "saved_model", None, "Folder of the SavedModel.", flag_values=flag_values
    )
    flags.DEFINE_enum(
        "signature",
        None,
        SIGNATURES,
        "What to ask; by default fill_mask, or the one that the model has.",
        flag_values,
    )
    flags.DEFINE_string(
        "input", "", "File of examples, one a line, local or gs://.", flag_values
    )
    flags.DEFINE_integer(
        "batch_size", 32, "Examples asked at a time.", 1, flag_values=flag_values
    )
    flags.DEFINE_integer(
        "top_k", 5, "Candidates shown for each [MASK].", 1, flag_values=flag_values
    )
    flags.DEFINE_bool("json", False, "One JSON object an example.", flag_values)
    flags.DEFINE_string(
        "output",
        "",
        "With --signature=encode: a .parquet or .npz file that takes the embeddings, "
        "in the order of the texts.",
        flag_values,
    )
    flags.DEFINE_enum(
        "pooling",
        "pooled",
        POOLINGS,
        "Which embedding --output takes: pooled, that of [CLS], which learnt sentence "
        "order; or mean, of the last layer over a text's tokens.",
        flag_values,
    )
    flags.mark_flags_as_required(["saved_model"], flag_values)


def fill_masks(signature, texts: Sequence[str], top_k: int) -> list[dict[str, Any]]:
    """Candidates for each [MASK], as saved_models.fill_masks gives them.

    Raises:
      ValueError: a text has no [MASK], or one that lies beyond the longest input.
    """
    for text in texts:
        saved_models.check_mask(text)
    answers = saved_models.fill_masks(signature, texts, top_k)
    for answer in answers:
        saved_models.check_found(answer)
    return answers


def _write_embeddings(model, name: str, examples, flag_values) -> None:
    """Writes the embeddings of all texts to --output, and says how many they are.

    Raises:
      ValueError: another signature than encode is asked, or there is no text.
    """
    if name != "encode":
        raise ValueError(
            f"--output takes embeddings, so --signature must be encode; received {name}"
        )
    signature, path = model.signatures[name], flag_values.output

    def encode(batch: list[str]) -> text_embeddings.Encoded:
        found = signature(text=tf.constant(batch))
        mask = tf.cast(found["input_mask"], tf.float32)  # [T, S]
        counts = tf.reduce_sum(mask, 1)
        embedding = found["pooled_output"]
        if flag_values.pooling == "mean":
            summed = tf.einsum("ts,tsh->th", mask, found["sequence_output"])
            embedding = summed / counts[:, None]
        return text_embeddings.Encoded(
            embedding.numpy(), counts.numpy().astype("int32")
        )

    texts = (fields[0] for _, fields in examples)
    count = text_embeddings.write(encode, texts, path, flag_values.batch_size)
    print(f"{path}: {count:,} embeddings")


def _word(candidate: dict[str, Any]) -> str:
    # A lone "▁" is a piece too: the begin of a word, and nothing else of it.
    return candidate["token"].replace("▁", "") or "▁"


def _filled_text(answer: dict[str, Any]) -> str:
    text = answer["text"]
    for candidates in answer["masks"]:
        text = text.replace(tokenization.MASK, _word(candidates[0]), 1)
    return text


def _show_filled(answer: dict[str, Any]) -> str:
    lines = [answer["text"], f"  -> {_filled_text(answer)}"]
    for candidates in answer["masks"]:
        shown = (f"{_word(c)} {c['probability']:.3f}" for c in candidates)
        lines.append(f"     {', '.join(shown)}")
    return "\n".join(lines)


def _show_order(answer: dict[str, Any]) -> str:
    return (
        f"{answer['first']} | {answer['second']}\n"
        f"  -> in this order with probability {answer['probability']:.3f}"
    )


def _show_encoding(answer: dict[str, Any]) -> str:
    first = " ".join(f"{number:.4f}" for number in answer["pooled_output"][:8])
    return (
        f"{answer['text']}\n  -> {answer['num_tokens']} tokens, pooled output of "
        f"{len(answer['pooled_output'])} numbers: {first} ..."
    )


def _forms(top_k: int) -> dict[str, asking.Form]:
    """How each signature is asked."""

    def fill(signature, examples):
        return fill_masks(signature, [fields[0] for fields in examples], top_k)

    def encode(signature, examples):
        return saved_models.encodings(signature, [fields[0] for fields in examples])

    return {
        "fill_mask": asking.Form("a text", 1, 1, fill, _show_filled),
        "sentence_order": asking.Form(
            "two texts", 2, 2, saved_models.sentence_orders, _show_order
        ),
        "encode": asking.Form("a text", 1, 1, encode, _show_encoding),
        **asking.FORMS,
    }


def _chosen(model, asked: str | None) -> str:
    """The signature to ask.

    Raises:
      ValueError: the model does not have it, or none that is known here.
    """
    known = [name for name in SIGNATURES if name in model.signatures]
    if asked is None and known:
        return known[0]
    if asked not in known:
        raise ValueError(
            "--signature must be one that the SavedModel has: "
            f"{', '.join(known) or 'none known here'}; received {asked}. Export the "
            "model again with albert_tf.export if it should have it"
        )
    return asked


def _lines(path: str) -> Iterator[tuple[str, str]]:
    """`origin` and text of each line of a file, or of standard input, not empty.

    Raises:
      ValueError: the file cannot be read, or is not UTF-8.
    """
    name = path or "standard input"
    try:
        with files.open_file(path) if path else sys.stdin.buffer as file:
            for number, line in enumerate(file, 1):
                try:
                    text = line.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise ValueError(
                        f"{name}:{number}: lines must be UTF-8; received "
                        f"{line[error.start :][:8]!r}. Convert the file"
                    ) from error
                if text.strip():
                    yield f"{name}:{number}", text
    except (OSError, tf.errors.OpError) as error:
        raise ValueError(
            f"--input must be a file that can be read; received {path}: {error}"
        ) from error


def _examples(
    form: asking.Form, arguments: Sequence[str], path: str
) -> Iterator[tuple[str, list[str]]]:
    """`origin` and fields of each example, checked.

    Raises:
      ValueError: there are too few fields, or too many.
    """
    entries: Iterable[tuple[str, list[str]]]
    if not arguments:
        entries = ((origin, line.split("\t")) for origin, line in _lines(path))
    elif path:
        raise ValueError(
            f"there must be either --input or texts as arguments; received {path} and "
            f"{arguments[0]!r}"
        )
    else:
        entries = (("arguments", fields) for fields in _grouped(form, arguments))
    for origin, fields in entries:
        try:
            asking.check(form, fields)
        except ValueError as error:
            raise ValueError(f"{origin}: {error}") from error
        yield origin, fields


def _grouped(form: asking.Form, arguments: Sequence[str]) -> list[list[str]]:
    """Arguments as examples: by tabs, or else as many as an example must have."""
    if any("\t" in argument for argument in arguments) or form.least == 1:
        return [argument.split("\t") for argument in arguments]
    size = form.least if form.most else len(arguments)
    return [
        list(arguments[first : first + size])
        for first in range(0, len(arguments), size)
    ]


def _answers(
    model, name: str, form: asking.Form, examples, batch_size: int
) -> Iterator[dict[str, Any]]:
    """The answers to all examples, asked by batches.

    Raises:
      ValueError: an example cannot be answered; names the lines of its batch.
    """
    signature = model.signatures[name]
    while batch := list(itertools.islice(examples, batch_size)):
        try:
            yield from form.ask(signature, [fields for _, fields in batch])
        except ValueError as error:
            first, last = batch[0][0], batch[-1][0]
            where = first if first == last else f"{first} to {last}"
            raise ValueError(f"{where}: {error}") from error


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Answers for the texts of the command line, of a file or of standard input."""
    with binary.user_errors():
        model = saved_models.load(flag_values.saved_model)
        name = _chosen(model, flag_values.signature)
        form = _forms(flag_values.top_k)[name]
        examples = _examples(form, argv[1:], flag_values.input)
        if flag_values.output:
            _write_embeddings(model, name, examples, flag_values)
            return
        count = 0
        for answer in _answers(model, name, form, examples, flag_values.batch_size):
            as_json = flag_values.json
            print(
                json.dumps(answer, ensure_ascii=False) if as_json else form.show(answer)
            )
            count += 1
        if not count:
            raise ValueError(
                "there must be a text, as an argument, in --input or on standard input"
            )


if __name__ == "__main__":
    binary.run(main, define_flags)
