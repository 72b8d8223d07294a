"""Reads records, prints some of them with the counts, and writes the page."""

import os

import numpy as np

from albert_tf.core import console, files, progress_bar
from albert_tf.data import schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.inspection import html, text
from data_prep.inspection import sample as sample_lib
from data_prep.inspection import tables as tables_lib
from data_prep.verification import manifest as manifest_lib

_NUM_ON_PAGE = 10


def inspect(
    data_dir: str,
    split: str,
    max_records: int,
    num_records: int,
    seed: int,
    html_path: str = "",
) -> None:
    """Prints records and tables of a split, and writes them as a page.

    Args:
      data_dir: see `read`, as for the next two and `seed`.
      split: "train" or "heldout".
      max_records: the number of records to read.
      num_records: the number of records to print.
      seed: of the sample and the masks.
      html_path: the page to write, local or gs://; none if empty.

    Raises:
      ValueError: see `read`.
    """
    counts, examples, tokenizer = read(
        data_dir, split, max_records, max(num_records, _NUM_ON_PAGE), seed
    )
    tables = tables_lib.make_tables(counts, tokenizer)
    shown = examples[:num_records]
    sections = [text.format_record(example, counts, tokenizer) for example in shown]
    if shown:
        sections.append(text.LEGEND)
    print("\n\n".join([*sections, *map(text.format_table, tables)]))
    if html_path:
        on_page = [
            html.ShownExample(
                text.heading(example, counts.label_words),
                sample_lib.parts(example, tokenizer),
            )
            for example in examples[:_NUM_ON_PAGE]
        ]
        page = html.make_page(data_dir, counts, tables, on_page)
        files.make_folder(os.path.dirname(html_path) or ".")
        files.write_bytes(html_path, page.encode())
        print(f"\nwrote {html_path}")


def read(
    data_dir: str,
    split: str,
    max_records: int,
    num_examples: int,
    seed: int,
) -> tuple[tables_lib.Counts, list[sample_lib.Example], tokenizer_lib.Tokenizer]:
    """Reads the first records of a split.

    Args:
      data_dir: the directory, local or gs://.
      split: "train" or "heldout".
      max_records: the number of records to read.
      num_examples: the number of them to keep, chosen at random.
      seed: decides that choice, and the masks of records without masks.

    Returns:
      The counts; the kept records in random order; the vocabulary.

    Raises:
      ValueError: the directory has no manifest, lacks this split, or has another
        vocabulary.
    """
    manifest = manifest_lib.read_manifest(data_dir)
    verification = f"run `{console.command_line('data_prep.verify', data_dir)}`"
    if problems := manifest_lib.inconsistencies(manifest):
        raise ValueError(
            f"{data_dir}/{schema.MANIFEST_FILE}: {problems[0]}; {verification} for all "
            "problems"
        )
    if split not in manifest.splits:
        raise ValueError(
            f"--split must be one of {', '.join(sorted(manifest.splits))}, which "
            f"{data_dir} has; received {split!r}"
        )
    tokenizer = tokenizer_lib.Tokenizer.from_file(
        os.path.join(data_dir, schema.VOCAB_FILE)
    )
    if tokenizer.sha256 != manifest.vocab_sha256:
        raise ValueError(
            f"{data_dir}/{schema.VOCAB_FILE} is not the vocabulary that the records "
            f"were made with; {verification} for all problems"
        )
    masker = sample_lib.Masker(manifest, seed)
    sample = sample_lib.Sample(manifest, masker.law.budgets)
    total = min(max_records, manifest.splits[split].num_sequences)
    order = np.random.default_rng(seed).permutation(total)[:num_examples]
    rank = {int(number): place for place, number in enumerate(order)}
    kept: dict[int, sample_lib.Example] = {}
    examples = sample_lib.iter_examples(data_dir, manifest, split, tokenizer, masker)
    with progress_bar.make(total=total, unit="record", unit_scale=True) as bar:
        for example in examples:
            sample.add(example)
            if example.number in rank:
                kept[rank[example.number]] = example
            bar.update()
            if sample.num_records == total:
                break
    counts = tables_lib.make_counts(manifest, split, sample, masker)
    return counts, [kept[place] for place in sorted(kept)], tokenizer
