r"""Raw text to pre-training records: TFRecord shards, the vocabulary and a manifest.

  python -m data_prep.create_pretraining_data \
    --input='corpus/*.txt.gz' --vocab_model=vocab/vocab.model --output_dir=records \
    --config=configs/albert_base.py --set data.dupe_factor=2

The bytes of the records and of the manifest follow from the text, the configuration
and the vocabulary alone: not from the number of worker processes, nor from the time.
A run that was interrupted or killed goes on when the same command is given again.
"""

import collections
import contextlib
import dataclasses
import errno
import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata

import numpy as np
import tqdm
from absl import flags

from albert_tf import binary, compiled, files, schema
from albert_tf import config as config_lib
from data_prep import (
    blocks,
    output_folder,
    preparation,
    processes,
    progress,
    readers,
    summary,
    work_folder,
    worker,
)

_WORK_FOLDER = ".unfinished"
# Other versions may split, clean or tokenize otherwise.
_DECIDING_PACKAGES = (
    "datasketch",
    "mwparserfromhell",
    "numpy",
    "py3langid",
    "sentencepiece",
    "sentencex",
    "xxhash",
)


@dataclasses.dataclass(frozen=True)
class _GroupEnd:
    """The end of a group: its blocks, and how many of them were not done before."""

    group: int
    num_blocks: int
    num_new: int


def create_pretraining_data(
    patterns: str | Iterable[str],
    vocab_model: str,
    output_dir: str,
    config: config_lib.Config,
    num_workers: int = 1,
    overwrite: bool = False,
    work_dir: str = "",
    evaluation_input: str | Iterable[str] = (),
) -> schema.Manifest:
    """Writes the records of raw text into a folder.

    Args:
      patterns: globs of input files, see `readers.expand`.
      vocab_model: path of the SentencePiece model.
      output_dir: the folder to write, local or remote.
      config: `config.text` and `config.data` say how; `config.model.vocab_size` is
        compared.
      num_workers: worker processes; 1 works without any.
      overwrite: whether to replace records that are in the folder already, and
        unfinished work with other settings.
      work_dir: a local folder, in which one is made for what is not finished; by
        default `output_dir`.
      evaluation_input: globs of text files; documents that share a run of
        `config.text.contamination_ngram` words with them are dropped.

    Returns:
      The manifest, as it was written.

    Raises:
      ValueError: bad input, a vocabulary that does not fit, a folder that cannot be
        written or holds records, or text that gives no training record.
      OSError: what a repetition of the same call can mend: a full disk, a worker that
        was killed.
    """
    # ---- Settings ----
    settings, tokenizer = preparation.make_settings(
        vocab_model, config, evaluation_input
    )
    paths = readers.expand(patterns)
    readers.check_format(paths, config.text)
    groups = readers.plan_groups(paths)

    # ---- Folders ----
    output = output_folder.OutputFolder(output_dir, tokenizer.model_proto, overwrite)
    work = work_folder.WorkFolder(_work_path(work_dir, output_dir))
    if not work.is_published(plan := _plan(settings, groups, output_dir)):
        output.prepare()
    work.open(plan, overwrite)
    with _leaving(work):
        with processes.Pool(num_workers, worker.Worker, settings, work.path) as pool:
            # ---- Blocks ----
            _make_blocks(groups, settings, work, pool)
            _mark_duplicates(config.text, work)
            totals = _total(work, config.data)
            if not totals.splits[schema.TRAIN]["records"]:
                work.clear()  # to go on would lead here again
                raise ValueError(preparation.nothing_made(paths, totals, config.data))

            # ---- Shards ----
            shards_by_split = _make_shards(totals, settings, work, pool)
        tokens, masked = _count(shards_by_split, work, tokenizer.vocab_size)
        manifest = summary.make_manifest(
            totals, shards_by_split, tokens, masked, settings, tokenizer
        )
        work.note_published()
        output.publish(work.path, manifest)
        work.clear()
    return manifest


def _work_path(work_dir: str, output_dir: str) -> str:
    """The folder of unfinished work, which is the run's own."""
    folder = work_dir or output_dir
    if files.is_remote(folder):
        raise ValueError(
            "--work_dir must name a local folder, also where --output_dir is remote; "
            f"received {work_dir or 'none'} for --work_dir and {output_dir} for "
            "--output_dir"
        )
    return os.path.join(folder, _WORK_FOLDER)


def _plan(
    settings: blocks.Settings, groups: Sequence[readers.Group], output_dir: str
) -> work_folder.Plan:
    """What decides the outcome, the program and what it stands on included."""
    evaluation = settings.evaluation
    output = output_dir if files.is_remote(output_dir) else os.path.abspath(output_dir)
    return work_folder.Plan(
        settings={
            "text": dataclasses.asdict(settings.text),
            "data": dataclasses.asdict(settings.data),
            "vocabulary": hashlib.sha256(settings.vocab_model).hexdigest(),
            "evaluation set": evaluation.digest if evaluation else "",
            "output folder": output,
            "program": compiled.sources_digest(),
            "versions": {
                "Python": platform.python_version(),
                **{name: metadata.version(name) for name in _DECIDING_PACKAGES},
            },
        },
        groups=[[[path, *files.stamp(path)] for path in g.paths] for g in groups],
    )


def _make_blocks(
    groups: Sequence[readers.Group],
    settings: blocks.Settings,
    work: work_folder.WorkFolder,
    pool: processes.Pool,
) -> None:
    """Makes the blocks of the input that are not done."""
    size = blocks.block_bytes(settings.data)
    unfinished = [g for g in groups if not work.has_group(g.number)]
    # Of each group, how many of its blocks are still to be done, once that is known.
    ends: dict[int, _GroupEnd] = {}
    num_done: collections.Counter = collections.Counter()

    def read_group(group: readers.Group) -> Iterator[readers.Block | _GroupEnd]:
        num_blocks = num_new = 0
        for block in readers.iter_blocks(group, settings.text, size, bar.advance):
            num_blocks += 1
            if not work.has_block(block):
                num_new += 1
                yield block
        yield _GroupEnd(group.number, num_blocks, num_new)

    def close_group(number: int) -> None:
        end = ends.get(number)
        if end is not None and num_done[number] == end.num_new:
            work.write_group(number, end.num_blocks)

    def tasks() -> Iterator[processes.Task]:
        for item in pool.read(unfinished, read_group):
            if isinstance(item, _GroupEnd):
                ends[item.group] = item
                close_group(item.group)
            else:
                yield "make_block", item

    if num_done_before := len(work.block_names()):
        print(f"going on: {num_done_before} blocks are done", file=sys.stderr)
    num_records = num_bytes = 0
    with progress.InputProgress("text", unfinished) as bar:
        for (_, block), tallies in pool.do_all(tasks()):
            num_done[block.group] += 1
            close_group(block.group)
            num_records += sum(tallies[f"records/{s}"] for s in schema.SPLITS)
            num_bytes += block.num_bytes
            bar.show(records=f"{num_records:,}", unpacked=f"{num_bytes / 1e6:.0f}MB")


def _mark_duplicates(text: config_lib.TextConfig, work: work_folder.WorkFolder) -> None:
    """Notes for each block which of its documents repeat an earlier one."""
    if not text.drop_exact_duplicates and not text.near_duplicate_threshold:
        return
    names = work.block_names()
    marks = preparation.find_duplicates(
        text,
        [len(work.read_documents(name).is_heldout) for name in names],
        lambda number: work.read_fingerprints(names[number]),
        lambda number: work.read_signatures(names[number]),
    )
    for name, mark in zip(names, marks, strict=True):
        work.write_dropped(name, mark)


def _total(work: work_folder.WorkFolder, data: config_lib.DataConfig) -> summary.Totals:
    totals = summary.Totals.empty()
    for name in work.block_names():
        totals.add(work.read_documents(name), work.read_dropped(name), data)
    return totals


def _make_shards(
    totals: summary.Totals,
    settings: blocks.Settings,
    work: work_folder.WorkFolder,
    pool: processes.Pool,
) -> dict[str, list[schema.Shard]]:
    """Makes the shards that are not done; of each split all, in order."""
    counts = preparation.count_shards(totals, settings.data)
    tasks = [
        ("make_shard", split, number, count)
        for split, count in counts.items()
        for number in range(count)
    ]
    made: dict[str, dict[int, schema.Shard]] = {split: {} for split in counts}
    with tqdm.tqdm(
        desc="shards", total=len(tasks), unit="shard", mininterval=1.0
    ) as bar:
        for (_, split, number, _), shard in pool.do_all(iter(tasks)):
            made[split][number] = shard
            bar.update()
    return {split: [of[n] for n in sorted(of)] for split, of in made.items()}


def _count(
    shards_by_split: dict[str, list[schema.Shard]],
    work: work_folder.WorkFolder,
    vocab_size: int,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Tokens and masked tokens by id of each split; int64 [V] each."""
    tokens = {split: np.zeros(vocab_size, np.int64) for split in schema.SPLITS}
    masked = {split: np.zeros(vocab_size, np.int64) for split in schema.SPLITS}
    for split, of_split in shards_by_split.items():
        for shard in of_split:
            if of_shard := work.read_shard_counts(shard.name):
                tokens[split] += of_shard.tokens
                masked[split] += of_shard.masked
    return tokens, masked


@contextlib.contextmanager
def _leaving(work: work_folder.WorkFolder) -> Iterator[None]:
    """Sees to the work folder when a run ends, by an error or not."""
    try:
        yield
    except ValueError:
        if not work.has_blocks():  # nothing to go on from
            work.clear()
        raise
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(
            f"no space is left on the disk of {error.filename or work.path}. What is "
            f"done stays in {work.path}: make room, then give the same command again"
        ) from error
    finally:
        work.close()


def define_shared_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags that do not depend on where the work is done."""
    values = flag_values
    flags.DEFINE_list(
        "input",
        None,
        "Globs of input files, plain or .gz, .bz2, .xz, .zst. Their format is the "
        "setting text.input_format: by default UTF-8 text with an empty line between "
        "documents.",
        values,
    )
    flags.DEFINE_string(
        "vocab_model", None, "The SentencePiece .model of the vocabulary.", values
    )
    flags.DEFINE_string(
        "output_dir", None, "The folder to write, local or gs://.", values
    )
    flags.DEFINE_string("config", "", "A recipe or a config.json.", values)
    flags.DEFINE_multi_string(
        "set", [], "One setting, such as data.dupe_factor=2.", values
    )
    flags.DEFINE_bool(
        "overwrite",
        False,
        "Replace the records that are in the folder, and unfinished work.",
        values,
    )
    flags.DEFINE_list(
        "evaluation_input",
        [],
        "Globs of text files whose texts must not occur in the records.",
        values,
    )
    flags.mark_flags_as_required(["input", "vocab_model", "output_dir"], values)


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    define_shared_flags(flag_values)
    flags.DEFINE_integer(
        "num_workers",
        os.cpu_count() or 1,
        "Worker processes; 1 works without any.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "work_dir",
        "",
        "A local folder for unfinished work, twice the size of the records; by default "
        "within --output_dir.",
        flag_values,
    )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Reads the flags, makes the records, and says what was made."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        manifest = create_pretraining_data(
            flag_values.input,
            flag_values.vocab_model,
            flag_values.output_dir,
            config_lib.load(flag_values.config, flag_values.set),
            flag_values.num_workers,
            flag_values.overwrite,
            flag_values.work_dir,
            flag_values.evaluation_input,
        )
    print(preparation.describe(manifest, flag_values.output_dir))


if __name__ == "__main__":
    binary.run(main, define_flags)
