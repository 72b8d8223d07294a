"""Calls the signatures of an exported SavedModel with texts from a user.

Examples come from arguments, a file or standard input, with fields separated by tabs;
errors name the line.

Shapes: T texts, S tokens of the longest, H hidden.
"""

import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.core import files
from albert_tf.inference import embeddings, saved_model, signatures

# If a SavedModel has several, the first of these is the default.
SIGNATURES = ("fill_mask", "sentence_order", "encode", *signatures.FORMS)


def show_answers(
    saved_model_dir: str,
    signature: str | None,
    arguments: Sequence[str],
    input_path: str,
    batch_size: int,
    top_k: int,
    as_json: bool,
    takes_pairs: bool = False,
) -> Iterator[str]:
    """Yields the answer to each example as text, in their order.

    Args:
      saved_model_dir: directory of the SavedModel.
      signature: its name; None means the first of `SIGNATURES` that there is.
      arguments: examples; without them they are read from `input_path`.
      input_path: a file of examples, one per line; empty means standard input.
      batch_size: examples of a call.
      top_k: candidates for each [MASK].
      as_json: whether to yield JSON objects.
      takes_pairs: whether a text to classify must have a second one.

    Raises:
      ValueError: there is no such model or signature, no example, or one that cannot
        be answered.
    """
    model = saved_model.load(saved_model_dir)
    name = _choose_signature(model, signature)
    form = _forms(top_k)[name]
    if takes_pairs and name == "classify":
        form = form._replace(
            fields="two texts, as the model was trained on pairs", least=2
        )
    answers = _answers(
        model, name, form, _examples(form, arguments, input_path), batch_size
    )
    count = 0
    for answer in answers:
        count += 1
        yield json.dumps(answer, ensure_ascii=False) if as_json else form.show(answer)
    if not count:
        raise ValueError(
            "there must be a text, as an argument, in --input or on standard input"
        )


def write_embeddings(
    saved_model_dir: str,
    arguments: Sequence[str],
    input_path: str,
    batch_size: int,
    pooling: str,
    output_path: str,
) -> int:
    """Writes the embeddings of all texts to a file, and returns their number.

    Args:
      saved_model_dir: as in `show_answers`.
      arguments: as in `show_answers`.
      input_path: as in `show_answers`.
      batch_size: as in `show_answers`.
      pooling: "pooled" or "mean".
      output_path: as `embeddings.write` takes it.

    Raises:
      ValueError: the model has no signature encode, or there is no text.
    """
    model = saved_model.load(saved_model_dir)
    name = _choose_signature(model, "encode")
    call = model.signatures[name]

    def encode(batch: list[str]) -> embeddings.Encoded:
        found = saved_model.embed(call, batch)
        return embeddings.Encoded(getattr(found, pooling), found.num_tokens)

    form = _forms(top_k=1)[name]
    # A row for each line: those who join them to others count lines.
    examples = _examples(form, arguments, input_path, keeps_blank=True)
    texts = (fields[0] for _, fields in examples)
    return embeddings.write(encode, texts, output_path, batch_size)


def encoding_form(model) -> tuple[str, signatures.Form]:
    """Returns the signature that reads plain examples, and how it is called.

    That is encode, or the one of a task.

    Args:
      model: from `saved_model.load`.
    """
    name = "encode" if "encode" in model.signatures else _choose_signature(model, None)
    return name, _forms(top_k=1)[name]


def read_examples(form: signatures.Form, path: str) -> Iterator[list[str]]:
    """Yields the fields of each example of a file.

    Raises:
      ValueError: the file cannot be read, or an example has too few fields, or too
        many.
    """
    return (fields for _, fields in _examples(form, (), path))


def _show_filled(answer: dict[str, Any]) -> str:
    lines = [answer["text"], f"  -> {answer['filled']}"]
    for candidates in answer["masks"]:
        # Pieces as in the vocabulary: "▁" is the beginning of a word.
        shown = (f'"{c["token"]}" {c["probability"]:.3f}' for c in candidates)
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


def _forms(top_k: int) -> dict[str, signatures.Form]:
    """Returns how each signature is called."""

    def fill(signature, examples):
        texts = [fields[0] for fields in examples]
        return saved_model.fill_all(signature, texts, top_k)

    def encode(signature, examples):
        return saved_model.encodings(signature, [fields[0] for fields in examples])

    return {
        "fill_mask": signatures.Form("a text", 1, 1, fill, _show_filled),
        "sentence_order": signatures.Form(
            "two texts", 2, 2, saved_model.sentence_orders, _show_order
        ),
        "encode": signatures.Form("a text", 1, 1, encode, _show_encoding),
        **signatures.FORMS,
    }


def _choose_signature(model, name: str | None) -> str:
    """Returns the name of the signature to call, by default the first.

    Raises:
      ValueError: the model does not have it, or none that is known here.
    """
    known = [name for name in SIGNATURES if name in model.signatures]
    if name is None and known:
        return known[0]
    if name not in known:
        raise ValueError(
            "--signature must be one that the SavedModel has: "
            f"{', '.join(known) or 'none known here'}; received {name}. Export the "
            "model again with albert_tf.export if it should have it"
        )
    return name


def _lines(path: str, keeps_blank: bool) -> Iterator[tuple[str, str]]:
    """Yields origin and text of each line of a file or of standard input.

    Args:
      path: of the file; "" for standard input.
      keeps_blank: whether lines without text are not omitted.

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
                if number == 1:
                    text = text.removeprefix("\ufeff")  # a byte order mark
                if keeps_blank or text.strip():
                    yield f"{name}:{number}", text
    except (OSError, tf.errors.OpError) as error:
        raise ValueError(
            f"--input must be a file that can be read; received {path}: {error}"
        ) from error


def _examples(
    form: signatures.Form,
    arguments: Sequence[str],
    path: str,
    keeps_blank: bool = False,
) -> Iterator[tuple[str, list[str]]]:
    """Yields origin and fields of each example, those of blank lines if wanted.

    Raises:
      ValueError: an example has too few fields, or too many.
    """
    entries: Iterable[tuple[str, list[str]]]
    if not arguments:
        entries = (
            (origin, line.split("\t")) for origin, line in _lines(path, keeps_blank)
        )
    else:
        entries = (("arguments", fields) for fields in _grouped(form, arguments))
    for origin, fields in entries:
        try:
            signatures.check(form, fields)
        except ValueError as error:
            raise ValueError(f"{origin}: {error}") from error
        yield origin, fields


def _grouped(form: signatures.Form, arguments: Sequence[str]) -> list[list[str]]:
    """Splits arguments into examples: at tabs, or else by the fields of an example."""
    if any("\t" in argument for argument in arguments) or form.least == 1:
        return [argument.split("\t") for argument in arguments]
    size = form.least if form.most else len(arguments)
    return [
        list(arguments[first : first + size])
        for first in range(0, len(arguments), size)
    ]


def _answers(
    model, name: str, form: signatures.Form, examples, batch_size: int
) -> Iterator[dict[str, Any]]:
    """Yields the answers to all examples, batch by batch.

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
