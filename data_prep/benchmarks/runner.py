"""Runs the benchmark of data preparation."""

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.benchmarks import process_meter, stages, tables
from data_prep.pipeline import block_processor
from data_prep.reading import blocks as blocks_lib
from data_prep.reading import input_files
from data_prep.text import sentences

NUM_REPEATS = 3
_TRAINED_VOCAB_SIZE = 8000
_SMALL_BYTES = 20_000  # text that kernels are compiled on, and start-up is timed with


def _read(
    patterns: Iterable[str], text: config_lib.TextConfig
) -> Iterator[blocks_lib.Document]:
    for group in blocks_lib.plan_groups(input_files.expand(patterns)):
        for block in blocks_lib.iter_blocks(group, text, 1 << 20):
            yield from blocks_lib.parse_block(block, text)[0]


def write_text(
    patterns: Iterable[str], text: config_lib.TextConfig, path: str, num_bytes: int
) -> None:
    """Writes whole documents, one sentence per line, until `num_bytes` are reached."""
    with open(path, "wb") as file:
        for document in _read(patterns, text):
            lines = sentences.split_sentences(document.lines, text)
            file.write("\n".join([*lines, "", ""]).encode())
            if file.tell() >= num_bytes:
                break


def _prepare(
    patterns: Sequence[str],
    vocab_model: str,
    num_bytes: int,
    text: config_lib.TextConfig,
    directory: str,
) -> tuple[str, str]:
    """Writes the text, and a vocabulary if none is given; returns their paths."""
    if not patterns:
        patterns = [f"{directory}/demo.txt"]
        process_meter.run("demo_corpus", f"--output={patterns[0]}")
    path = f"{directory}/text.txt"
    write_text(patterns, text, path, num_bytes)
    if not vocab_model:
        vocab_model = f"{directory}/vocab.model"
        process_meter.run(
            "train_vocab",
            f"--input={path}",
            f"--output={vocab_model}",
            f"--vocab_size={_TRAINED_VOCAB_SIZE}",
        )
    size = f"{os.path.getsize(path) / 1e6:.1f} MB"
    print(f"{size} of {', '.join(patterns)}; vocabulary {vocab_model}")
    return path, os.path.abspath(vocab_model)


def _fastest(repeats: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {row: min(seconds[row] for seconds in repeats) for row in repeats[0]}


def _bench_stages(
    path: str, small: str, settings: block_processor.PipelineSettings, directory: str
) -> int:
    """Prints the table of stages; returns the number of records."""
    start = time.monotonic()
    stages.time_stages(small, settings, f"{directory}/small")
    print(f"compiled kernels or loaded them in {time.monotonic() - start:.1f} s")
    repeats = []
    for _ in range(NUM_REPEATS):
        seconds, num_records = stages.time_stages(path, settings, f"{directory}/stages")
        repeats.append(seconds)
        shutil.rmtree(f"{directory}/stages")
    best = _fastest(repeats)
    alternatives = _fastest(
        [stages.time_alternatives(path, settings) for _ in range(NUM_REPEATS)]
    )
    print(f"\nOne thread, without start-up and compilation; best of {NUM_REPEATS}.")
    print("Below the sum: alternatives, measured on a megabyte and scaled.")
    size = os.path.getsize(path)
    print(tables.stage_table(best, alternatives, size, num_records))
    return num_records


def bench(
    patterns: Sequence[str],
    vocab_model: str,
    num_bytes: int,
    config: config_lib.Config,
    worker_counts: Sequence[int],
    directory: str,
) -> None:
    """Measures stages and runs, and prints two tables.

    Args:
      patterns: globs of text files; empty: the demonstration corpus.
      vocab_model: path of the vocabulary; "": one is trained on the text.
      num_bytes: maximum size of the text, up to the end of a document.
      config: settings of the text and the records.
      worker_counts: numbers of workers to run with.
      directory: empty directory for all files.
    """
    path, vocab_model = _prepare(
        patterns, vocab_model, num_bytes, config.text, directory
    )
    tokenizer = tokenizer_lib.Tokenizer.from_file(vocab_model, config.data.lower_case)
    size = tokenizer.vocab_size
    read_as = ["text.input_format=text", "text.sentence_splitter=line"]
    config = config_io.override(config, [*read_as, f"model.vocab_size={size}"])
    settings = block_processor.PipelineSettings(
        config.text, config.data, tokenizer.model_proto, size
    )
    files.write_bytes(f"{directory}/config.json", config_io.to_json(config).encode())
    small = f"{directory}/small.txt"
    write_text([path], config.text, small, _SMALL_BYTES)
    print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}")
    num_records = _bench_stages(path, small, settings, directory)

    def run(text_path: str, num_workers: int) -> process_meter.Run:
        arguments = (
            "create_pretraining_data",
            f"--input={text_path}",
            f"--vocab_model={vocab_model}",
            f"--output_dir={directory}/records",
            f"--config={directory}/config.json",
            f"--num_workers={num_workers}",
            "--overwrite",
        )
        runs = [process_meter.run(*arguments) for _ in range(NUM_REPEATS)]
        return min(runs, key=lambda run: run.wall_seconds)

    starts = {number: run(small, number) for number in worker_counts}
    runs = {number: run(path, number) for number in worker_counts}
    print(f"\ncreate_pretraining_data, {num_records:,} records; best of {NUM_REPEATS}.")
    print("x original: records per second and core, relative to the original. Peak:")
    print("memory of all processes (PSS: a page shared by n processes counts 1/n).")
    print(tables.run_table(runs, starts, os.path.getsize(path), num_records))
    print(f"load after {os.getloadavg()[0]:.1f}")
