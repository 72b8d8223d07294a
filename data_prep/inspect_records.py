r"""Prints records as people read them, and how they keep to the laws they follow.

  python -m data_prep.inspect_records DIR [--num_records=5] [--html=PAGE.html]

DIR is local or gs://. The page stands alone: it holds its pictures.
"""

import os
from collections.abc import Iterator, Sequence

import numpy as np
import tqdm
from absl import flags

from albert_tf import binary, files, schema, tokenization
from data_prep import inspection, inspection_page, inspection_tables, manifest_check

_NUM_ON_PAGE = 10
_LEGEND = (
    "Masked tokens: [MASK]→river was replaced by [MASK], [kept]→river was left as it "
    "is, [random lake]→river was replaced by the random token 'lake'."
)


def read(
    data_dir: str,
    split: str,
    max_records: int,
    num_examples: int,
    seed: int,
) -> tuple[inspection_tables.Counts, list[inspection.Example], tokenization.Tokenizer]:
    """Reads the first records of a split.

    Args:
      data_dir: the folder, local or gs://.
      split: "train" or "heldout".
      max_records: how many to read.
      num_examples: how many of them to keep, chosen by chance.
      seed: decides that choice, and the masks where the records have none.

    Returns:
      What was counted; the kept records in random order; the vocabulary.

    Raises:
      ValueError: the folder has no manifest, not this split, or another vocabulary.
    """
    manifest = manifest_check.read_manifest(data_dir)
    if problems := manifest_check.inconsistencies(manifest):
        raise ValueError(
            f"{data_dir}/{schema.MANIFEST_FILE}: {problems[0]}; see what "
            f"`python -m data_prep.verify {data_dir}` says"
        )
    if split not in manifest.splits:
        raise ValueError(
            f"--split must be one of {', '.join(sorted(manifest.splits))}, which "
            f"{data_dir} holds; received {split!r}"
        )
    tokenizer = tokenization.Tokenizer.from_file(
        os.path.join(data_dir, schema.VOCAB_FILE)
    )
    if tokenizer.sha256 != manifest.vocab_sha256:
        raise ValueError(
            f"{data_dir}/{schema.VOCAB_FILE} is not the vocabulary that the records "
            f"were made with; see what `python -m data_prep.verify {data_dir}` says"
        )
    masker = inspection.Masker(manifest, seed)
    sample = inspection.Sample(manifest, masker.law.budgets)
    total = min(max_records, manifest.splits[split].num_records)
    order = np.random.default_rng(seed).permutation(total)[:num_examples]
    rank = {int(number): place for place, number in enumerate(order)}
    kept: dict[int, inspection.Example] = {}
    examples = inspection.iter_examples(data_dir, manifest, split, tokenizer, masker)
    with tqdm.tqdm(total=total, unit="record", unit_scale=True, mininterval=1.0) as bar:
        for example in examples:
            sample.add(example)
            if example.number in rank:
                kept[rank[example.number]] = example
            bar.update()
            if sample.num_records == total:
                break
    counts = inspection_tables.make_counts(manifest, split, sample, masker)
    return counts, [kept[place] for place in sorted(kept)], tokenizer


def heading(example: inspection.Example, label_words: Sequence[str]) -> str:
    """A line on a record: where it lies, its label, and how long it is.

    Args:
      example: the record.
      label_words: what the labels mean; empty without a pair loss.
    """
    num_tokens, segment = len(example.tokens), example.segment_a_length
    label, lengths = "", f"{num_tokens} tokens"
    if label_words:
        label = f"{label_words[example.label]}; "
        lengths += f" (A {segment - 2}, B {num_tokens - segment - 1})"
    place = f"record {example.number} ({example.shard}, {example.place})"
    return f"{place}: {label}{lengths}, {len(example.positions)} masked"


def format_segment(segment: Sequence[inspection.Part], has_masks: bool = True) -> str:
    """The text of a segment, with marks where it is masked or without masks."""
    return "".join(
        " " * part.has_space + _marked(part, has_masks) for part in segment
    ).strip()


def _marked(part: inspection.Part, has_masks: bool) -> str:
    if not (has_masks and part.kind):
        return part.original
    shown = {"mask": "MASK", "keep": "kept", "random": f"random {part.shown}"}
    return f"[{shown[part.kind]}]→{part.original}"


def format_record(
    example: inspection.Example,
    counts: inspection_tables.Counts,
    tokenizer: tokenization.Tokenizer,
) -> str:
    """A record in some lines: its heading, then a line for each segment."""
    segments = inspection.parts(example, tokenizer)
    lines = [heading(example, counts.label_words)]

    def add(has_masks: bool) -> None:
        for name, segment in zip("AB", segments, strict=False):
            lines.append(f"  {name}  {format_segment(segment, has_masks)}")

    if counts.is_dynamic:
        add(has_masks=False)
        lines.append("  masked as the trainer may mask it:")
    add(has_masks=True)
    return "\n".join(lines)


def format_table(table: inspection_tables.Table) -> str:
    """A table as text: numbers to the right, the note below it."""
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


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    values = flag_values
    flags.DEFINE_integer(
        "num_records", 5, "Records to print.", lower_bound=0, flag_values=values
    )
    flags.DEFINE_enum(
        "split", schema.TRAIN, schema.SPLITS, "The split to look at.", values
    )
    flags.DEFINE_string("html", "", "A page to write, local or gs://.", values)
    flags.DEFINE_integer(
        "seed",
        0,
        "Decides which records are shown, and masks those without masks.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_records",
        100000,
        "Records to count in, from the first on.",
        lower_bound=1,
        flag_values=values,
    )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Reads records, prints some of them and what was counted, and writes the page."""
    with binary.user_errors():
        if len(argv) != 2:
            raise ValueError(
                "one argument is needed, the folder of the records; received "
                f"{len(argv) - 1}"
            )
        counts, examples, tokenizer = read(
            argv[1],
            flag_values.split,
            flag_values.max_records,
            max(flag_values.num_records, _NUM_ON_PAGE),
            flag_values.seed,
        )
        tables = inspection_tables.make_tables(counts, tokenizer)
        shown = examples[: flag_values.num_records]
        sections = [format_record(example, counts, tokenizer) for example in shown]
        if shown:
            sections.append(_LEGEND)
        print("\n\n".join([*sections, *map(format_table, tables)]))
        if flag_values.html:
            page = inspection_page.make_page(
                argv[1],
                counts,
                tables,
                [
                    inspection_page.ShownExample(
                        heading(example, counts.label_words),
                        inspection.parts(example, tokenizer),
                    )
                    for example in examples[:_NUM_ON_PAGE]
                ],
            )
            files.make_folder(os.path.dirname(flag_values.html) or ".")
            files.write_bytes(flag_values.html, page.encode())
            print(f"\nwrote {flag_values.html}")


if __name__ == "__main__":
    binary.run(main, define_flags)
