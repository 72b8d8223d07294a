"""Raw text to records on one machine: blocks, runs, shards, by worker processes."""

import collections
import contextlib
import dataclasses
import errno
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.core import config as config_lib
from albert_tf.core import files, progress_bar
from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema
from data_prep.pipeline import (
    block_processor,
    common,
    duplicates,
    manifest_builder,
    program,
    run_plan,
    work_file,
    worker,
    worker_pool,
)
from data_prep.pipeline import output_dir as output_dir_lib
from data_prep.pipeline import work_dir as work_dir_lib
from data_prep.reading import blocks, input_files, progress
from data_prep.records import shards as shards_lib

_WORK_DIR = ".unfinished"


@dataclasses.dataclass(frozen=True)
class _GroupEnd:
    """The end of a group: the number of its blocks, and of those not done before."""

    group: int
    num_blocks: int
    num_new: int


class _Made(NamedTuple):
    """Totals of all blocks; by split, shards, and counts by id, int64 [V]."""

    totals: manifest_builder.Totals
    shards: dict[str, list[schema.Shard]]
    tokens: dict[str, np.ndarray]
    masked: dict[str, np.ndarray]


def create_pretraining_data(
    patterns: str | Iterable[str],
    vocab_model: str,
    output_dir: str,
    config: config_lib.Config,
    num_workers: int = 1,
    overwrite: bool = False,
    work_dir: str = "",
    evaluation_input: str | Iterable[str] = (),
    dask_scheduler: str = "",
) -> schema.Manifest:
    """Writes the records of raw text into a directory.

    Args:
      patterns: globs of input files, see `input_files.expand`.
      vocab_model: path of the SentencePiece model.
      output_dir: the directory to write, local or remote.
      config: `config.text` and `config.data` are applied; `config.model.vocab_size`
        must be that of the vocabulary.
      num_workers: worker processes; 1 runs all in this process.
      overwrite: whether to replace existing records in the directory, and unfinished
        work with other settings.
      work_dir: a local directory, in which one is made for unfinished work; by default
        `output_dir`.
      evaluation_input: globs of text files; documents that share a run of
        `config.text.contamination_ngram` words with them are dropped.
      dask_scheduler: address of a Dask cluster whose workers do the tasks instead of
        `num_workers` processes; empty for none. They must see the directory of
        unfinished work under the same path.

    Returns:
      The manifest, as written.

    Raises:
      ValueError: bad input, a vocabulary that does not fit, a directory that cannot be
        written or holds records, or text that gives no training record.
      OSError: an error after which the same call can resume: a full disk, or a worker
        that was killed and that no other replaces.
    """
    # ---- Settings ----
    settings, tokenizer = common.make_settings(vocab_model, config, evaluation_input)
    paths = input_files.expand(patterns)
    input_files.check_format(paths, config.text)
    groups = blocks.plan_groups(paths)

    # ---- Directories ----
    output = output_dir_lib.OutputDir(output_dir, tokenizer.model_proto, overwrite)
    path = _work_path(work_dir, output_dir)
    if dask_scheduler:
        path = os.path.abspath(path)  # workers have their own current directories
    work = work_dir_lib.WorkDir(path, len(groups), work_dir_lib.BLOCKS_PER_RUN)
    plan = _plan(settings, groups, output_dir)
    digest = output.manifest_digest()
    if digest and work.is_published(plan, digest):
        print(f"{output_dir} is complete: removing {path}", file=sys.stderr)
        work.finish(plan, digest)
        return manifest_lib.read_manifest(output_dir)
    was_publishing = work.is_publishing(plan)
    if not was_publishing:
        output.prepare()
    work.open(plan, overwrite)

    # ---- Records ----
    with _cleaning_up(work):
        arguments = (settings, path, len(groups), work_dir_lib.BLOCKS_PER_RUN)
        if dask_scheduler:
            executor = _connect(dask_scheduler, *arguments)
        else:
            executor = worker_pool.start(num_workers, worker.Worker, *arguments)
        with worker_pool.Pool(executor) as pool:
            made = _make_until_whole(groups, settings, work, output, pool)
        manifest = manifest_builder.make_manifest(*made, settings, tokenizer)
        digest = output_dir_lib.digest_of(manifest)
        if not was_publishing:
            output.prepare()  # another run may have published there meanwhile
        work.note_published(plan, digest)
        output.publish(path, manifest)
        work.finish(plan, digest)
    return manifest


def _connect(address: str, *arguments: Any) -> worker_pool.Executor:
    # Imported here: Dask is needed by those alone who have a cluster of it.
    from data_prep.pipeline import dask_executor

    executor = dask_executor.DaskExecutor(address, *arguments)
    print(executor.describe(), file=sys.stderr)
    return executor


def _work_path(work_dir: str, output_dir: str) -> str:
    """The directory of unfinished work, which belongs to the run alone."""
    parent = work_dir or output_dir
    if files.is_remote(parent):
        raise ValueError(
            "--work_dir must name a local directory, also if --output_dir is remote; "
            f"received {work_dir or 'none'} for --work_dir and {output_dir} for "
            "--output_dir"
        )
    return os.path.join(parent, _WORK_DIR)


def _plan(
    settings: block_processor.PipelineSettings,
    groups: Sequence[blocks.Group],
    output_dir: str,
) -> run_plan.RunPlan:
    """Everything that decides the outcome, including program and package versions."""
    evaluation = settings.evaluation
    output = output_dir if files.is_remote(output_dir) else os.path.abspath(output_dir)
    paths = [path for group in groups for path in group.paths]
    stamps = dict(zip(paths, files.of_each(files.stamp, paths), strict=True))
    return run_plan.RunPlan(
        settings={
            "text": dataclasses.asdict(settings.text),
            "data": dataclasses.asdict(settings.data),
            "number of predictions": settings.data.num_predictions,
            "row": list(settings.data.row),
            "vocabulary": hashlib.sha256(settings.vocab_model).hexdigest(),
            "evaluation set": evaluation.digest if evaluation else "",
            "output directory": output,
            **program.describe(),
        },
        groups=[[[path, *stamps[path]] for path in g.paths] for g in groups],
    )


def _make_until_whole(
    groups: Sequence[blocks.Group],
    settings: block_processor.PipelineSettings,
    work: work_dir_lib.WorkDir,
    output: output_dir_lib.OutputDir,
    pool: worker_pool.Pool,
) -> _Made:
    """Makes all shards; what was damaged on the disk meanwhile is made again."""
    made_again: set[str] = set()
    while True:
        try:
            return _make(groups, settings, work, output, pool)
        except work_file.DamagedError as error:
            if made_again & error.faults.keys():
                raise ValueError(
                    f"{error}, although it was just made again; check the disk, or "
                    "choose a --work_dir on another one"
                ) from error
            made_again |= error.faults.keys()
            print(f"{error}; it is made again", file=sys.stderr)
            work.discard(error.faults)


def _make(
    groups: Sequence[blocks.Group],
    settings: block_processor.PipelineSettings,
    work: work_dir_lib.WorkDir,
    output: output_dir_lib.OutputDir,
    pool: worker_pool.Pool,
) -> _Made:
    """Makes the blocks and shards that are not yet done.

    Raises:
      work_file.DamagedError: files of the work directory are damaged or missing.
      ValueError: there is no training record.
    """
    _make_blocks(groups, settings, work, pool)
    _mark_duplicates(settings.text, work)
    totals = _total(work, settings)
    paths = [path for group in groups for path in group.paths]
    if reason := common.reason_to_refuse(paths, totals, settings.data):
        work.clear()  # to resume would end here again
        raise ValueError(reason)
    _merge_runs(work, pool)
    shards_by_split = _make_shards(totals, settings, work, output, pool)
    counts = _count(shards_by_split, work, settings.vocab_size)
    return _Made(totals, shards_by_split, *counts)


def _make_blocks(
    groups: Sequence[blocks.Group],
    settings: block_processor.PipelineSettings,
    work: work_dir_lib.WorkDir,
    pool: worker_pool.Pool,
) -> None:
    """Makes the blocks of the input that are not yet done."""
    size = block_processor.block_bytes(settings.data)
    unfinished = [g for g in groups if not work.has_group(g.number)]
    # By group, once it is read to its end.
    ends: dict[int, _GroupEnd] = {}
    num_done: collections.Counter = collections.Counter()

    def read_group(group: blocks.Group) -> Iterator[blocks.Block | _GroupEnd]:
        num_blocks = num_new = 0
        for block in blocks.iter_blocks(group, settings.text, size, bar.advance):
            num_blocks += 1
            if not work.has_block(block):
                num_new += 1
                yield block
        yield _GroupEnd(group.number, num_blocks, num_new)

    def close_group(number: int) -> None:
        end = ends.get(number)
        if end is not None and num_done[number] == end.num_new:
            work.write_group(number, end.num_blocks)

    def tasks() -> Iterator[worker_pool.Task]:
        for item in pool.read(unfinished, read_group):
            if isinstance(item, _GroupEnd):
                ends[item.group] = item
                close_group(item.group)
            else:
                yield "make_block", item

    if num_done_before := work.num_blocks_done():
        print(f"resuming: {num_done_before} blocks are done", file=sys.stderr)
    num_records = num_bytes = 0
    with progress.InputProgress("text", unfinished) as bar:
        for (_, block), tallies in pool.do_all(tasks()):
            num_done[block.group] += 1
            close_group(block.group)
            num_records += sum(tallies[f"records/{s}"] for s in schema.SPLITS)
            num_bytes += block.num_bytes
            bar.show(records=f"{num_records:,}", unpacked=f"{num_bytes / 1e6:.0f}MB")


def _mark_duplicates(text: config_lib.TextConfig, work: work_dir_lib.WorkDir) -> None:
    """Records for each block which of its documents repeat an earlier one."""
    if not duplicates.is_wanted(text) or work.has_all_dropped():
        return
    names = work.block_names()
    marks = duplicates.find(
        text,
        [len(work.read_documents(name).is_heldout) for name in names],
        lambda number: work.read_fingerprints(names[number]),
        lambda number: work.read_signatures(names[number]),
    )
    for name, mark in zip(names, marks, strict=True):
        work.write_dropped(name, mark)
    work.note_all_dropped()


def _total(
    work: work_dir_lib.WorkDir, settings: block_processor.PipelineSettings
) -> manifest_builder.Totals:
    totals = manifest_builder.Totals.empty()
    is_deduplicated = duplicates.is_wanted(settings.text)
    for name in work.block_names():
        dropped = work.read_dropped(name) if is_deduplicated else None
        totals.add(work.read_documents(name), dropped, settings.data)
    return totals


def _merge_runs(work: work_dir_lib.WorkDir, pool: worker_pool.Pool) -> None:
    """Merges the records of many blocks, so that no shard opens them all.

    Raises:
      work_file.DamagedError: blocks are damaged; the other runs are done.
    """
    tasks = [("merge_run", number) for number in range(work.num_runs())]
    if not tasks:
        return
    faults: dict[str, str] = {}
    with progress_bar.make(desc="merge", total=len(tasks), unit="run") as bar:
        for _, error in pool.do_all(iter(tasks)):
            faults.update(error.faults if error else {})
            bar.update()
    if faults:
        raise work_file.DamagedError(faults)


def _make_shards(
    totals: manifest_builder.Totals,
    settings: block_processor.PipelineSettings,
    work: work_dir_lib.WorkDir,
    output: output_dir_lib.OutputDir,
    pool: worker_pool.Pool,
) -> dict[str, list[schema.Shard]]:
    """Makes the shards that are not yet done; returns all of each split, in order.

    Raises:
      work_file.DamagedError: blocks are damaged; the other shards are done.
    """
    counts = common.count_shards(totals, settings.data)
    by_number: dict[str, dict[int, schema.Shard]] = {split: {} for split in counts}
    tasks, faults = [], {}
    for split, count in counts.items():
        for number in range(count):
            name = shards_lib.shard_name(settings.data, split, number, count)
            shard = work.find_moved_shard(name)
            if shard and output.has_shard(shard):
                by_number[split][number] = shard
            else:
                tasks.append(("make_shard", split, number, count))
    with progress_bar.make(desc="shards", total=len(tasks), unit="shard") as bar:
        for (_, split, number, _), made in pool.do_all(iter(tasks)):
            if isinstance(made, work_file.DamagedError):
                faults.update(made.faults)
            else:
                by_number[split][number] = made
            bar.update()
    if faults:
        raise work_file.DamagedError(faults)
    return {split: [of[n] for n in sorted(of)] for split, of in by_number.items()}


def _count(
    shards_by_split: dict[str, list[schema.Shard]],
    work: work_dir_lib.WorkDir,
    vocab_size: int,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Tokens and masked tokens of each split by id; int64 [V] each."""
    tokens = {split: np.zeros(vocab_size, np.int64) for split in schema.SPLITS}
    masked = {split: np.zeros(vocab_size, np.int64) for split in schema.SPLITS}
    for split, of_split in shards_by_split.items():
        for shard in of_split:
            of_shard = work.read_shard_counts(shard.name)
            tokens[split] += of_shard.tokens
            masked[split] += of_shard.masked
    return tokens, masked


@contextlib.contextmanager
def _cleaning_up(work: work_dir_lib.WorkDir) -> Iterator[None]:
    """Removes or closes the work directory when a run ends, by an error or not."""
    try:
        yield
    except ValueError:
        if not work.has_blocks():  # nothing to resume from
            work.clear()
        raise
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(
            f"no space is left on the disk of {error.filename or work.path}. Finished "
            f"work stays in {work.path}: free some space, then give the same command "
            "again"
        ) from error
    finally:
        work.close()
