"""Trains SentencePiece vocabularies with ALBERT's special pieces."""

import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

import sentencepiece

from albert_tf.core import files
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.reading import limits
from data_prep.vocab import line_sampler
from data_prep.vocab import report as report_lib
from data_prep.vocab import settings as settings_lib

USER_DEFINED_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
# The order in which expectations are summed depends on the number of threads. It is
# fixed, so that the model does not depend on the number of cores.
_NUM_THREADS = 16
# SentencePiece omits lines of more bytes. No line has as many, even if it is a
# paragraph or a whole document.
_MAX_LINE_BYTES = 1 << 30
# From this many characters, SentencePiece must count with 64 bits.
_HUGE_CHARACTERS = (1 << 31) - 1


def train_vocab(
    texts: Iterable[str],
    vocab_size: int = settings_lib.VocabSettings.vocab_size,
    lower_case: bool = settings_lib.VocabSettings.lower_case,
    character_coverage: float = settings_lib.VocabSettings.character_coverage,
) -> bytes:
    """Trains a unigram model with ALBERT's special pieces.

    Args:
      texts: lines or paragraphs of raw text.
      vocab_size: see `VocabSettings`.
      lower_case: see `VocabSettings`.
      character_coverage: see `VocabSettings`.

    Returns:
      The serialized SentencePiece model, for `tokenizer.Tokenizer`.

    Raises:
      ValueError: there is no text, or not enough for `vocab_size`.
    """
    lines = [
        line for text in texts if (line := tokenizer_lib.normalize(text, lower_case))
    ]
    return train_on_normalized(lines, vocab_size, character_coverage)


def train_on_normalized(
    lines: list[str], vocab_size: int, character_coverage: float
) -> bytes:
    """Like `train_vocab`, for normalized lines.

    Args:
      lines: non-empty lines. The list is emptied, so that a large sample is not in
        memory twice: SentencePiece copies it.
      vocab_size: see `VocabSettings`.
      character_coverage: see `VocabSettings`.
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
            pad_piece=tokenizer_lib.PAD,
            unk_piece=tokenizer_lib.UNK,
            control_symbols=[tokenizer_lib.CLS, tokenizer_lib.SEP, tokenizer_lib.MASK],
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
    """Rewrites an error of SentencePiece's trainer in terms of `VocabSettings`."""
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
    model_proto: bytes, path: str, report: report_lib.VocabReport | None = None
) -> None:
    """Writes PREFIX.report.json, PREFIX.vocab and then PREFIX.model.

    Each file appears under its name when it is complete. An old report is removed if
    there is no new one.

    Args:
      model_proto: what `train_vocab` returns.
      path: PREFIX or PREFIX.model, local or remote; directories are created.
      report: the report of this vocabulary, if there is one.

    Raises:
      OSError: a file cannot be written, for example because the disk is full; names it.
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
        # The error of a failed write does not name the file.
        raise OSError(error.errno, error.strerror, path) from error


def train_from_files(
    paths: Sequence[str],
    output: str,
    settings: settings_lib.VocabSettings,
    num_workers: int,
) -> tuple[tokenizer_lib.Tokenizer, report_lib.VocabReport | None]:
    """Trains from files and writes the model and its report.

    Args:
      paths: text files, from `input_files.expand`.
      output: see `write_vocab`.
      settings: settings of the vocabulary.
      num_workers: number of worker processes; with 1, this process does all work.

    Returns:
      The tokenizer of the new vocabulary, and its report if lines were held out.

    Raises:
      ValueError: bad input, or too little text.
    """
    sample = line_sampler.sample_lines(paths, settings, num_workers)
    over = limits.describe(sample.counts)
    print(
        f"training on {len(sample.lines):,} of {sample.num_lines:,} lines; "
        f"{len(sample.heldout_lines):,} distinct lines are held out for the report"
        + (f"; over a bound of text.max_…: {over}" if over else ""),
        file=sys.stderr,
    )
    model_proto = train_on_normalized(
        sample.lines, settings.vocab_size, settings.character_coverage
    )
    tokenizer = tokenizer_lib.Tokenizer(model_proto, settings.lower_case)
    report = None
    if any(tokenizer.normalize(line).strip() for line in sample.heldout_lines):
        report = report_lib.measure(tokenizer, sample.heldout_lines)
    write_vocab(model_proto, output, report)
    return tokenizer, report
