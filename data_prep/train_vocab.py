r"""Trains the SentencePiece vocabulary from raw text.

  python -m data_prep.train_vocab --input='corpus/*.txt.gz' --output=vocab/vocab.model

writes vocab/vocab.model, vocab/vocab.vocab (the pieces and their scores, to read) and
vocab/vocab.report.json (how well it fits lines that it was not trained on). <pad>,
<unk>, [CLS], [SEP] and [MASK] take the ids 0 to 4 and ( ) " - . – £ € the next, as in
the released models. The same text and flags give the same bytes with the same version
of sentencepiece, whatever --num_workers is.

Any language will do, with spaces or without. But the text is normalized as the
tokenizer does it, which drops all combining characters, without --lower_case too: the
umlauts and accents of Latin letters, Cyrillic й and ё, the vowel points of Arabic and
Hebrew, the tones of Thai and Vietnamese, the virama of Hindi, and the marks that tell
Japanese が from か. Words that differ in these alone become one; a language that needs
them to be read needs another tokenizer.
"""

import dataclasses
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

import sentencepiece
from absl import flags

from albert_tf import binary, config, files, tokenization
from data_prep import line_sample, readers, vocab_report

USER_DEFINED_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
# How the expectations are summed depends on the number of threads, so it is fixed, and
# is not that of the cores: a model must not follow from the machine.
_NUM_THREADS = 16
# SentencePiece leaves out lines above this many bytes: no line is, a paragraph or a
# whole document included.
_MAX_LINE_BYTES = 1 << 30
# From this many characters on, SentencePiece must count with 64 bits.
_HUGE_CHARACTERS = (1 << 31) - 1


@dataclasses.dataclass(frozen=True)
class Settings:
    """All that a vocabulary follows from, but for its text.

    Attributes:
      text: how files become clean lines.
      vocab_size: V, the number of pieces, special ones included.
      lower_case: whether to lower-case the text.
      character_coverage: the share of the text's characters that the rarest must not
        lie outside of, to get a piece. 1 suits small alphabets, 0.9995 Chinese and
        Japanese.
      input_sentence_size: lines to train on; 0 takes all.
      heldout_lines: the most lines to hold out, of one in a hundred.
      seed: of the sample.
    """

    text: config.TextConfig = config.TextConfig()
    vocab_size: int = config.ModelConfig.vocab_size
    lower_case: bool = config.DataConfig.lower_case
    character_coverage: float = 0.99995
    input_sentence_size: int = 10_000_000
    heldout_lines: int = 10_000
    seed: int = 0


def train_vocab(
    texts: Iterable[str],
    vocab_size: int = Settings.vocab_size,
    lower_case: bool = Settings.lower_case,
    character_coverage: float = Settings.character_coverage,
) -> bytes:
    """Trains a unigram model with ALBERT's special pieces.

    Args:
      texts: lines or paragraphs of raw text.
      vocab_size: see `Settings`.
      lower_case: see `Settings`.
      character_coverage: see `Settings`.

    Returns:
      The serialized SentencePiece model, for `tokenization.Tokenizer`.

    Raises:
      ValueError: there is no text, or not enough for `vocab_size`.
    """
    lines = [
        line for text in texts if (line := tokenization.normalize(text, lower_case))
    ]
    return train_on_normalized(lines, vocab_size, character_coverage)


def train_on_normalized(
    lines: list[str], vocab_size: int, character_coverage: float
) -> bytes:
    """Like `train_vocab`, for lines that are normalized already.

    Args:
      lines: without empty ones. The list is emptied, so that a large sample does not
        stay in memory beside SentencePiece's copy of it.
      vocab_size: see `Settings`.
      character_coverage: see `Settings`.
    """
    if not lines:
        raise ValueError("the input holds no text; give files of plain text")
    num_characters = sum(map(len, lines)) + len(lines)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_pop_all(lines),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocab_size,
            character_coverage=character_coverage,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            pad_piece=tokenization.PAD,
            unk_piece=tokenization.UNK,
            control_symbols=[tokenization.CLS, tokenization.SEP, tokenization.MASK],
            # A list: in the comma-separated string of the original's README, today's
            # sentencepiece takes `",-,.,…` for one symbol.
            user_defined_symbols=list(USER_DEFINED_SYMBOLS),
            max_sentence_length=_MAX_LINE_BYTES,
            train_extremely_large_corpus=num_characters >= _HUGE_CHARACTERS,
            num_threads=_NUM_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(_explain(str(error), vocab_size)) from error
    return model.getvalue()


def _pop_all(lines: list[str]) -> Iterator[str]:
    lines.reverse()
    while lines:
        yield lines.pop()


def _explain(failure: str, vocab_size: int) -> str:
    """Says a failure of SentencePiece's trainer in the terms of this binary."""
    if largest := re.search(r"set it to a value <= (\d+)", failure):
        return (
            f"the text is too small for vocab_size {vocab_size}; the largest possible "
            f"is {largest[1]}: lower vocab_size or give more text"
        )
    if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", failure):
        return (
            f"vocab_size {vocab_size} is too small for the characters of the text; "
            f"the smallest possible is {smallest[1]}, and less with a lower "
            "character_coverage"
        )
    return f"SentencePiece cannot train a vocabulary of {vocab_size}: {failure}"


def write_vocab(
    model_proto: bytes, path: str, report: vocab_report.Report | None = None
) -> None:
    """Writes PREFIX.report.json, PREFIX.vocab and, when these are there, PREFIX.model.

    Each appears under its name only when whole. A report of an earlier vocabulary does
    not stay beside the new one.

    Args:
      model_proto: what `train_vocab` returns.
      path: PREFIX or PREFIX.model, local or remote; folders are made.
      report: of this vocabulary, if there is one.

    Raises:
      OSError: the disk is full, for instance; names the file.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=model_proto)
    listing = "".join(
        f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n"
        for i in range(processor.get_piece_size())
    )
    prefix = path.removesuffix(".model")
    files.make_folder(os.path.dirname(prefix) or ".")
    if report:
        _write(f"{prefix}.report.json", report.to_json().encode())
    elif files.exists(f"{prefix}.report.json"):
        files.remove(f"{prefix}.report.json")
    _write(f"{prefix}.vocab", listing.encode())
    _write(f"{prefix}.model", model_proto)


def _write(path: str, content: bytes) -> None:
    try:
        files.write_bytes(path, content)
    except OSError as error:
        # A failed write does not say of which file.
        raise OSError(error.errno, error.strerror, path) from error


def _check_output(path: str) -> None:
    """Raises a ValueError where no model can be written: now, not after an hour."""
    prefix = path.removesuffix(".model")
    if not os.path.basename(prefix) or files.is_folder(f"{prefix}.model"):
        raise ValueError(
            f"--output must name a file, such as vocab/vocab.model; received {path!r}, "
            "which is a folder"
        )
    probe = f"{prefix}.tmp{os.getpid()}"
    try:
        files.make_folder(os.path.dirname(prefix) or ".")
        files.write_bytes(probe, b"")
        files.remove(probe)
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be written ({error.strerror}); give an --output in a "
            "folder that you may write"
        ) from error


def train_from_files(
    patterns: str | Iterable[str], output: str, settings: Settings, num_workers: int
) -> tuple[tokenization.Tokenizer, vocab_report.Report | None]:
    """Trains from files and writes the model and its report.

    Args:
      patterns: globs of text files.
      output: see `write_vocab`.
      settings: what the result follows from.
      num_workers: processes that read; 1 works without any.

    Returns:
      The tokenizer of the new vocabulary, and its report if a line was held out.

    Raises:
      ValueError: bad input, an output that cannot be written, or too little text.
    """
    paths = readers.expand(patterns)
    readers.check_format(paths, settings.text)
    _check_output(output)
    sample = line_sample.sample_lines(
        paths,
        line_sample.Settings(
            text=settings.text,
            lower_case=settings.lower_case,
            size=settings.input_sentence_size,
            heldout_size=settings.heldout_lines,
            seed=settings.seed,
        ),
        num_workers,
    )
    print(
        f"training on {len(sample.lines):,} of {sample.num_lines:,} lines; "
        f"{len(sample.heldout_lines):,} are held out",
        file=sys.stderr,
    )
    model_proto = train_on_normalized(
        sample.lines, settings.vocab_size, settings.character_coverage
    )
    tokenizer = tokenization.Tokenizer(model_proto, settings.lower_case)
    report = None
    if any(tokenizer.normalize(line).strip() for line in sample.heldout_lines):
        report = vocab_report.measure(tokenizer, sample.heldout_lines)
    write_vocab(model_proto, output, report)
    return tokenizer, report


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    values = flag_values
    flags.DEFINE_list("input", None, "Globs of text files.", values)
    flags.DEFINE_string("output", None, "The .model file to write.", values)
    flags.DEFINE_string("config", "", "A recipe or a config.json.", values)
    flags.DEFINE_multi_string(
        "set", [], "One setting, such as text.input_format=jsonl.", values
    )
    flags.DEFINE_integer(
        "vocab_size",
        None,
        "Number of pieces, V; by default model.vocab_size.",
        flag_values=values,
    )
    flags.DEFINE_bool(
        "lower_case",
        None,
        "Lower-case the text first; by default data.lower_case.",
        values,
    )
    flags.DEFINE_float(
        "character_coverage",
        Settings.character_coverage,
        "Share of the text whose characters all get a piece: 1 for small alphabets, "
        "0.9995 for Chinese and Japanese.",
        lower_bound=0.98,
        upper_bound=1.0,
        flag_values=values,
    )
    _define_sample_flags(values)
    flags.mark_flags_as_required(["input", "output"], values)


def _define_sample_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "input_sentence_size",
        Settings.input_sentence_size,
        "Train on a random sample of that many lines, which are held in memory; 0: on "
        "all of them.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "heldout_lines",
        Settings.heldout_lines,
        "Report on that many lines, at most one in a hundred, that are not trained on; "
        "0: on none.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "seed",
        Settings.seed,
        "Seed of the sample and of what is held out.",
        lower_bound=0,
        upper_bound=(1 << 63) - 1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_workers",
        os.cpu_count() or 1,
        "Processes that read; 1 works without any.",
        lower_bound=1,
        flag_values=values,
    )


def _settings(flag_values: flags.FlagValues) -> Settings:
    """The settings of the flags; the recipe's where a flag was not given."""
    recipe = config.load(flag_values.config, flag_values.set)
    vocab_size, lower_case = flag_values.vocab_size, flag_values.lower_case
    return Settings(
        text=recipe.text,
        vocab_size=recipe.model.vocab_size if vocab_size is None else vocab_size,
        lower_case=recipe.data.lower_case if lower_case is None else lower_case,
        character_coverage=flag_values.character_coverage,
        input_sentence_size=flag_values.input_sentence_size,
        heldout_lines=flag_values.heldout_lines,
        seed=flag_values.seed,
    )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Reads the flags, trains, and says what was made."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        tokenizer, report = train_from_files(
            flag_values.input,
            flag_values.output,
            _settings(flag_values),
            flag_values.num_workers,
        )
    prefix = flag_values.output.removesuffix(".model")
    if report:
        print(vocab_report.format_table({os.path.basename(prefix): report}))
    print(f"{prefix}.model: {tokenizer.vocab_size} pieces, sha256 {tokenizer.sha256}")


if __name__ == "__main__":
    binary.run(main, define_flags)
