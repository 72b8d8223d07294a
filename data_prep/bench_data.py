r"""How fast text becomes records: the time of each stage, and of whole runs.

  python -m data_prep.bench_data --megabytes=30 --num_workers=1,2

The text is prepared once as the original takes it: one sentence a line, an empty line
between documents. Other work on the machine counts, too: of several repeats the
fastest is shown, row by row.
"""

import collections
import contextlib
import dataclasses
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from absl import flags

from albert_tf import binary, files, schema, tokenization
from albert_tf import config as config_lib
from data_prep import (
    blocks,
    cleaning,
    duplicates,
    fast_encoder,
    readers,
    record_maker,
    records,
    run_meter,
    sentence_order,
    sentences,
    shards,
    work_folder,
    worker,
)

# Records a second of the original's create_pretraining_data.py on one core, from text
# to shards: measured at the settings of `_ORIGINAL_RECIPE`.
_ORIGINAL_RATE = 130.0
_ORIGINAL_RECIPE = str(run_meter.ROOT / "configs" / "data_original.py")
# A corpus and a vocabulary that may lie beside the repository.
_BESIDE = run_meter.ROOT.parent / "shared" / "data"
_CORPUS = _BESIDE / "wikipedia_en_good_featured.txt.xz"
_VOCAB_MODEL = _BESIDE / "albert_en_30k.spm.model"
_TRAINED_VOCAB_SIZE = 8000

_SMALL_BYTES = 20_000  # of text: to compile with, and to time a run's start with
_SLOW_BYTES = 1_000_000  # what the slow alternatives are timed on
_LINES_PER_PARAGRAPH = 5  # that sentencex splits again
NUM_REPEATS = 3

# What is timed: where it is called, and its row. A row has the time that is spent in
# none of the others.
_STAGES = (
    (readers, "parse_block", "parse"),
    (cleaning.Cleaner, "clean", "clean"),
    (duplicates, "exact_fingerprint", "fingerprint"),
    (duplicates.Signatures, "of", "near-duplicate signature"),
    (sentences, "split_sentences", "split sentences"),
    (fast_encoder.FastEncoder, "encode", "tokenize"),
    (sentence_order, "cut_pieces", "cut pieces"),
    (blocks.BlockProcessor, "process", "rest of the block"),
    (record_maker, "make_records", "make records"),
    (record_maker, "sort_records", "sort"),
    (work_folder.WorkFolder, "write_block", "write files"),
    (shards, "select", "select"),
    (records, "count_tokens", "count tokens"),
    (shards, "_checksums", "checksums"),
    (shards, "_frame", "frame"),
    (shards, "assemble", "rest of assembling"),
    (shards, "write_shard", "write, SHA-256"),
)


class Clock:
    """Seconds of stages that may lie within one another, each without the inner ones.

    `phase` stands before the name of a stage in the name of its row.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter):
        self.seconds: dict[str, float] = collections.defaultdict(float)
        self.phase = ""
        self._now, self._last = now, 0.0
        self._running: list[str] = []

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts the time within for a row; that of the outer stage stands still."""
        self._charge()
        self._running.append(f"{self.phase}{name}")
        try:
            yield
        finally:
            self._charge()
            self._running.pop()

    def _charge(self) -> None:
        now = self._now()
        if self._running:
            self.seconds[self._running[-1]] += now - self._last
        self._last = now

    @contextlib.contextmanager
    def on_stages(self) -> Iterator[None]:
        """Within, the functions of `_STAGES` are timed wherever they are called."""
        with contextlib.ExitStack() as stack:
            for owner, function, name in _STAGES:
                original = getattr(owner, function)
                stack.callback(setattr, owner, function, original)
                setattr(owner, function, self._timed(original, name))
            yield

    def _timed(self, function: Callable, name: str) -> Callable:
        def timed(*arguments):
            with self.stage(name):
                return function(*arguments)

        return timed


def _read(
    patterns: Iterable[str], text: config_lib.TextConfig
) -> Iterator[readers.Document]:
    for group in readers.plan_groups(readers.expand(patterns)):
        for block in readers.iter_blocks(group, text, 1 << 20):
            yield from readers.parse_block(block, text)[0]


def write_text(
    patterns: Iterable[str], text: config_lib.TextConfig, path: str, num_bytes: int
) -> None:
    """Writes whole documents, one sentence a line, up to `num_bytes` or a few more."""
    with open(path, "wb") as file:
        for document in _read(patterns, text):
            lines = sentences.split_sentences(document.lines, text)
            file.write("\n".join([*lines, "", ""]).encode())
            if file.tell() >= num_bytes:
                break


def time_stages(
    path: str, settings: blocks.Settings, folder: str
) -> tuple[dict[str, float], int]:
    """Does the tasks of a run on a text in this process, in a folder that it makes.

    Returns:
      Seconds by row, and the number of records.
    """
    os.makedirs(folder)
    clock = Clock()
    # A new one, whose table of words is empty as that of a new process.
    work = worker.Worker(settings, folder)
    tallies: collections.Counter[str] = collections.Counter()
    (group,) = readers.plan_groups([path])
    found = readers.iter_blocks(group, settings.text, blocks.block_bytes(settings.data))
    with clock.on_stages():
        clock.phase = "block: "
        while True:
            with clock.stage("read and cut"):
                block = next(found, None)
            if block is None:
                break
            tallies.update(work.make_block(block))
        clock.phase = "shard: "
        for split in schema.SPLITS:
            num_bytes = tallies[f"bytes/{split}"]
            count = shards.num_shards(settings.data, split, num_bytes)
            for number in range(count if num_bytes else 0):
                work.make_shard(split, number, count)
    names = ["read and cut", *(name for _, _, name in _STAGES)]
    rows = [phase + name for phase in ("block: ", "shard: ") for name in names]
    seconds = {row: clock.seconds[row] for row in rows if row in clock.seconds}
    return seconds, sum(tallies[f"records/{split}"] for split in schema.SPLITS)


def time_slow_ways(path: str, settings: blocks.Settings) -> dict[str, float]:
    """Times what stages could use, but do not: on a megabyte, scaled to the text."""
    with open(path, "rb") as file:
        data = file.read(_SLOW_BYTES)
    lines = [line for line in data.decode(errors="ignore").split("\n") if line]
    starts = range(0, len(lines), _LINES_PER_PARAGRAPH)
    paragraphs = [" ".join(lines[i : i + _LINES_PER_PARAGRAPH]) for i in starts]
    text = dataclasses.replace(settings.text, sentence_splitter="sentencex")
    tokenizer = tokenization.Tokenizer(settings.vocab_model, settings.data.lower_case)
    clock = Clock()
    with clock.stage("(split with sentencex)"):
        sentences.split_sentences(paragraphs, text)
    with clock.stage("(tokenize with encode_batch)"):
        tokenizer.encode_batch(lines)
    scale = os.path.getsize(path) / len(data)
    return {row: seconds * scale for row, seconds in clock.seconds.items()}


def stage_table(
    seconds: Mapping[str, float],
    slow: Mapping[str, float],
    num_bytes: int,
    num_records: int,
) -> str:
    """The stages as a table; seconds by row, and below those that are in no sum."""
    total = sum(seconds.values())
    rows = [["stage", "seconds", "share", "MB/s", "records/s"]]
    for row, value in [*seconds.items(), ("all stages", total), *slow.items()]:
        share = "" if row in slow else f"{value / total:.1%}"
        rate = 1.0 / max(value, 1e-9)
        columns = [f"{num_bytes / 1e6 * rate:,.1f}", f"{num_records * rate:,.0f}"]
        rows.append([row, f"{value:.3f}", share, *columns])
    return _align(rows)


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in rows
    )


def run_table(
    runs: Mapping[int, run_meter.Run],
    starts: Mapping[int, run_meter.Run],
    num_bytes: int,
    num_records: int,
) -> str:
    """The runs by numbers of workers; `starts` are those of next to no text."""
    walls = [run.wall_seconds for run in runs.values()]
    works = [
        max(w - starts[n].wall_seconds, 1e-9) for n, w in zip(runs, walls, strict=True)
    ]
    table = []
    for (workers, run), work in zip(runs.items(), works, strict=True):
        rate = num_records / run.wall_seconds / workers
        columns = {
            "workers": f"{workers}",
            "seconds": f"{run.wall_seconds:.2f}",
            "of it start": f"{starts[workers].wall_seconds:.2f}",
            "CPU seconds": f"{run.cpu_seconds:.2f}",
            "MB/s": f"{num_bytes / 1e6 / run.wall_seconds:.2f}",
            "records/s": f"{rate * workers:,.0f}",
            "a core": f"{rate:,.0f}",
            "x original": f"{rate / _ORIGINAL_RATE:.0f}",
            "(less start)": f"{num_records / work / workers / _ORIGINAL_RATE:.0f}",
            "x first row": f"{walls[0] / run.wall_seconds:.2f}",
            "(start apart)": f"{works[0] / work:.2f}",
            "peak MB": f"{run.peak_bytes / 1e6:,.0f}",
        }
        table.append(columns)
    return _align([list(table[0]), *(list(columns.values()) for columns in table)])


def _prepare(
    values: flags.FlagValues, folder: str, text: config_lib.TextConfig
) -> tuple[str, str]:
    """Writes the text; gives its path and that of the vocabulary."""
    patterns, vocab_model = values.input, values.vocab_model
    if not patterns and _CORPUS.exists():
        patterns = [str(_CORPUS)]
        text = dataclasses.replace(text, sentence_splitter="sentencex")
    elif not patterns:
        patterns = [f"{folder}/demo.txt"]
        run_meter.run("demo_corpus", f"--output={patterns[0]}")
    path = f"{folder}/text.txt"
    write_text(patterns, text, path, int(values.megabytes * 1e6))
    if not vocab_model and _VOCAB_MODEL.exists():
        vocab_model = str(_VOCAB_MODEL)
    elif not vocab_model:
        vocab_model = f"{folder}/vocab.model"
        flag = f"--vocab_size={_TRAINED_VOCAB_SIZE}"
        run_meter.run("train_vocab", f"--input={path}", f"--output={vocab_model}", flag)
    size = f"{os.path.getsize(path) / 1e6:.1f} MB"
    print(f"{size} of {', '.join(patterns)}; vocabulary {vocab_model}")
    return path, os.path.abspath(vocab_model)


def _fastest(repeats: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {row: min(seconds[row] for seconds in repeats) for row in repeats[0]}


def _bench_stages(path: str, small: str, settings: blocks.Settings, folder: str) -> int:
    """Prints the stages; gives the number of records."""
    start = time.monotonic()
    time_stages(small, settings, f"{folder}/small")
    print(f"compiled, or loaded what was compiled, in {time.monotonic() - start:.1f} s")
    repeats = []
    for _ in range(NUM_REPEATS):
        seconds, num_records = time_stages(path, settings, f"{folder}/stages")
        repeats.append(seconds)
        shutil.rmtree(f"{folder}/stages")
    best = _fastest(repeats)
    slow = _fastest([time_slow_ways(path, settings) for _ in range(NUM_REPEATS)])
    print(f"\nOne thread, after start and compilation; best of {NUM_REPEATS}. Below")
    print("the sum, other ways: from a megabyte of the text, scaled.")
    print(stage_table(best, slow, os.path.getsize(path), num_records))
    return num_records


def bench(values: flags.FlagValues, folder: str) -> None:
    """Prints two tables; writes into a folder, which is empty before."""
    if not all(number.isdigit() and int(number) for number in values.num_workers):
        raise ValueError(
            "--num_workers must be whole numbers above 0, such as 1,2; received "
            f"{','.join(values.num_workers)}"
        )
    counts = list(map(int, values.num_workers))
    config = config_lib.load(values.config, values.set)
    path, vocab_model = _prepare(values, folder, config.text)
    tokenizer = tokenization.Tokenizer.from_file(vocab_model, config.data.lower_case)
    size = tokenizer.vocab_size
    read_as = ["text.input_format=text", "text.sentence_splitter=line"]
    config = config_lib.override(config, [*read_as, f"model.vocab_size={size}"])
    settings = blocks.Settings(config.text, config.data, tokenizer.model_proto, size)
    files.write_bytes(f"{folder}/config.json", config_lib.to_json(config).encode())
    small = f"{folder}/small.txt"
    write_text([path], config.text, small, _SMALL_BYTES)
    print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}")
    num_records = _bench_stages(path, small, settings, folder)

    def run(text_path: str, num_workers: int) -> run_meter.Run:
        arguments = (
            "create_pretraining_data",
            f"--input={text_path}",
            f"--vocab_model={vocab_model}",
            f"--output_dir={folder}/records",
            f"--config={folder}/config.json",
            f"--num_workers={num_workers}",
            "--overwrite",
        )
        runs = [run_meter.run(*arguments) for _ in range(NUM_REPEATS)]
        return min(runs, key=lambda run: run.wall_seconds)

    starts = {number: run(small, number) for number in counts}
    runs = {number: run(path, number) for number in counts}
    print(f"\ncreate_pretraining_data, {num_records:,} records; best of {NUM_REPEATS}.")
    print("x original: records a second and core, by those of the original. Peak: the")
    print("most memory of all processes at once (PSS: what n share is 1/n in each).")
    print(run_table(runs, starts, os.path.getsize(path), num_records))
    print(f"load after {os.getloadavg()[0]:.1f}")


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    beside = "by default what lies beside the repository, or else"
    texts = f"Globs of text; {beside} the demonstration's. It is split beforehand."
    flags.DEFINE_list("input", [], texts, values)
    vocab = f"A vocabulary; {beside} one trained on the text."
    flags.DEFINE_string("vocab_model", "", vocab, values)
    flags.DEFINE_float("megabytes", 30.0, "Text to take, at most.", 0.001, None, values)
    flags.DEFINE_list("num_workers", ["1", "2"], "Numbers of workers to run.", values)
    recipe = "A recipe or a config.json."
    flags.DEFINE_string("config", _ORIGINAL_RECIPE, recipe, values)
    flags.DEFINE_multi_string("set", [], "One setting of it.", values)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with binary.user_errors(), tempfile.TemporaryDirectory() as folder:
        binary.refuse_arguments(argv)
        bench(flag_values, folder)


if __name__ == "__main__":
    binary.run(main, define_flags)
