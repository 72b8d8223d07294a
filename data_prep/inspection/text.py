"""Records and tables as plain text."""

from collections.abc import Iterator, Sequence

from albert_tf.data import schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.inspection import sample as sample_lib
from data_prep.inspection import tables as tables_lib

LEGEND = (
    "Masked tokens: [MASK]→river was replaced by [MASK], [kept]→river was kept, "
    "[random lake]→river was replaced by the random token 'lake'."
)


def heading(example: sample_lib.Example, label_words: Sequence[str]) -> str:
    """Returns a line with the place of a record, its label and its length.

    Args:
      example: the record.
      label_words: the meanings of the labels 0 and 1; empty without a pair loss.
    """
    num_tokens, segment = len(example.tokens), example.segment_a_length
    label, lengths = "", f"{num_tokens} tokens"
    if label_words and example.label == schema.NO_LABEL:
        label = "no label; "
    elif label_words:
        label = f"{label_words[example.label]}; "
        lengths += f" (A {segment - 2}, B {num_tokens - segment - 1})"
    # Of a packed record there are several.
    name = (
        f"sequence {example.number}"
        if example.place.is_packed
        else (f"record {example.number}")
    )
    where = f"{example.place.shard}, {example.place.record}"
    return f"{name} ({where}): {label}{lengths}, {len(example.positions)} masked"


def format_segment(segment: Sequence[sample_lib.Part], has_masks: bool = True) -> str:
    """Returns the text of a segment, with or without marks of the masked tokens."""
    return "".join(
        " " * part.has_space + _marked(part, has_masks) for part in segment
    ).strip()


def _marked(part: sample_lib.Part, has_masks: bool) -> str:
    if not (has_masks and part.kind):
        return part.original
    shown = {"mask": "MASK", "keep": "kept", "random": f"random {part.shown}"}
    return f"[{shown[part.kind]}]→{part.original}"


def format_record(
    example: sample_lib.Example,
    counts: tables_lib.Counts,
    tokenizer: tokenizer_lib.Tokenizer,
) -> str:
    """Returns a record as lines: its heading, then a line for each segment."""
    segments = sample_lib.parts(example, tokenizer)
    lines = [heading(example, counts.label_words)]

    def add(has_masks: bool) -> None:
        for name, segment in zip("AB", segments, strict=False):
            lines.append(f"  {name}  {format_segment(segment, has_masks)}")

    if counts.is_dynamic:
        add(has_masks=False)
        lines.append("  masked as the trainer may mask it:")
    add(has_masks=True)
    return "\n".join(lines)


def format_table(table: tables_lib.Table) -> str:
    """Returns a table as text: numbers aligned to the right, the note below."""
    has_head = any(table.head)
    rows = [table.head, *table.rows] if has_head else list(table.rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [table.title]
    for first, *rest in rows:
        cells = [value.rjust(w) for value, w in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join(["  " + first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join([*lines, *_wrap(table.note)])


def _wrap(text: str, width: int = 84) -> Iterator[str]:
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            yield f"  {line}"
            line = word
        else:
            line = f"{line} {word}".strip()
    if line:
        yield f"  {line}"
