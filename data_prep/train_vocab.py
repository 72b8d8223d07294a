r"""Trains the SentencePiece vocabulary from raw text.

  python -m data_prep.train_vocab --input='corpus/*.txt.gz' --output=vocab/vocab.model

writes vocab/vocab.model and vocab/vocab.vocab (the pieces and their scores, to read).
The text is normalized as the tokenizer does it. <pad>, <unk>, [CLS], [SEP] and [MASK]
take the ids 0 to 4 and ( ) " - . – £ € the next, as in the released models. The same
text and flags give the same bytes with the same version of sentencepiece.
"""

import io
import os
import random
import re
from collections.abc import Iterable, Iterator, Sequence

import sentencepiece
import tensorflow as tf
from absl import flags

from albert_tf import binary, tokenization
from data_prep import documents

USER_DEFINED_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
# How the expectations are summed depends on the number of threads, so it is fixed.
_NUM_THREADS = 16
# SentencePiece leaves out lines above this many bytes: no line is, a paragraph or a
# whole document included.
_MAX_LINE_BYTES = 1 << 30


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_list(
        "input", None, "Globs of UTF-8 text files.", flag_values=flag_values
    )
    flags.DEFINE_string(
        "output", None, "The .model file to write.", flag_values=flag_values
    )
    flags.DEFINE_integer(
        "vocab_size", 30000, "Number of pieces, V.", flag_values=flag_values
    )
    flags.DEFINE_bool(
        "lower_case", True, "Lower-case the text first.", flag_values=flag_values
    )
    flags.DEFINE_integer(
        "input_sentence_size",
        10_000_000,
        "Train on a random sample of that many lines; 0: on all of them.",
        lower_bound=0,
        flag_values=flag_values,
    )
    flags.DEFINE_integer("seed", 0, "Seed of that sample.", flag_values=flag_values)
    flags.mark_flags_as_required(["input", "output"], flag_values)


def iter_texts(paths: Iterable[str]) -> Iterator[str]:
    """The lines of text files that are not empty; see `documents.iter_lines`."""
    for path in paths:
        for _, line in documents.iter_lines(path):
            if line:
                yield line


def sample_texts(paths: Sequence[str], sample_size: int, seed: int) -> Iterator[str]:
    """A random sample of the lines of text files, in their order.

    The files are read twice, and nothing is held in memory. SentencePiece's own sample
    takes no seed.

    Args:
        paths: text files.
        sample_size: the number of lines to take; 0, or more than there are, takes all.
        seed: of the sample.

    Yields:
        The lines.
    """
    remaining = sum(1 for _ in iter_texts(paths)) if sample_size else 0
    if remaining <= sample_size:
        yield from iter_texts(paths)
        return
    # Selection sampling (Knuth, The Art of Computer Programming 2, algorithm S).
    generator = random.Random(seed)
    wanted = sample_size
    for text in iter_texts(paths):
        if generator.random() * remaining < wanted:
            wanted -= 1
            yield text
        remaining -= 1


def train_vocab(
    texts: Iterable[str], vocab_size: int = 30000, lower_case: bool = True
) -> bytes:
    """Trains a unigram model with ALBERT's special pieces.

    Args:
        texts: lines or paragraphs of raw text; read once, not held here.
        vocab_size: V, the number of pieces, special ones included.
        lower_case: whether to lower-case the text.

    Returns:
        The serialized SentencePiece model, for `tokenization.Tokenizer`.

    Raises:
        ValueError: there is no text, or not enough for `vocab_size`.
    """
    failures: list[Exception] = []
    num_texts = 0

    def normalized() -> Iterator[str]:
        nonlocal num_texts
        try:
            for text in texts:
                text = tokenization.normalize(text, lower_case)
                if text:
                    num_texts += 1
                    yield text
        except (ValueError, OSError, tf.errors.OpError) as error:
            # SentencePiece would take an error for the end of the text.
            failures.append(error)

    model = io.BytesIO()
    failure = ""
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=normalized(),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocab_size,
            character_coverage=0.99995,
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
            num_threads=_NUM_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        failure = str(error)
    if failures:
        raise failures[0]
    if not num_texts:
        raise ValueError("the input holds no text; give files of plain text")
    if failure:
        raise ValueError(_explain(failure, vocab_size))
    return model.getvalue()


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
            f"the smallest possible is {smallest[1]}"
        )
    return f"SentencePiece cannot train a vocabulary of {vocab_size}: {failure}"


def write_vocab(model_proto: bytes, path: str) -> None:
    """Writes PREFIX.model and PREFIX.vocab, each under its name only when whole.

    Args:
        model_proto: what `train_vocab` returns.
        path: PREFIX or PREFIX.model, local or remote; folders are made.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=model_proto)
    listing = "".join(
        f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n"
        for i in range(processor.get_piece_size())
    )
    prefix = path.removesuffix(".model")
    for suffix, content in ((".vocab", listing.encode()), (".model", model_proto)):
        temporary = _open_temporary(prefix + suffix, content)
        tf.io.gfile.rename(temporary, prefix + suffix, overwrite=True)


def _open_temporary(path: str, content: bytes) -> str:
    """Writes content beside path, and returns the name; a ValueError if it cannot."""
    temporary = f"{path}.tmp{os.getpid()}"
    try:
        tf.io.gfile.makedirs(os.path.dirname(path) or ".")
        with tf.io.gfile.GFile(temporary, "wb") as file:
            file.write(content)
    except tf.errors.OpError as error:
        raise ValueError(
            f"{path}: cannot be written ({' '.join(error.message.split())}); give an "
            "--output in a folder that you may write"
        ) from error
    return temporary


def train_from_files(
    patterns: str | Iterable[str],
    output: str,
    vocab_size: int,
    lower_case: bool,
    input_sentence_size: int,
    seed: int,
) -> tokenization.Tokenizer:
    """Trains from files, writes the model, and returns its tokenizer.

    Args:
        patterns: globs of text files.
        output: see `write_vocab`.
        vocab_size: V.
        lower_case: whether to lower-case the text.
        input_sentence_size: see `sample_texts`.
        seed: see `sample_texts`.

    Returns:
        The tokenizer of the new vocabulary.

    Raises:
        ValueError: bad input, an output that cannot be written, or too little text.
    """
    paths = documents.expand(patterns)
    # Now, and not after an hour of training.
    tf.io.gfile.remove(_open_temporary(output, b""))
    texts = sample_texts(paths, input_sentence_size, seed)
    model_proto = train_vocab(texts, vocab_size, lower_case)
    write_vocab(model_proto, output)
    return tokenization.Tokenizer(model_proto, lower_case)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Reads the flags, trains, and says what was made."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        tokenizer = train_from_files(
            flag_values.input,
            flag_values.output,
            flag_values.vocab_size,
            flag_values.lower_case,
            flag_values.input_sentence_size,
            flag_values.seed,
        )
    prefix = flag_values.output.removesuffix(".model")
    print(f"{prefix}.model: {tokenizer.vocab_size} pieces, sha256 {tokenizer.sha256}")


if __name__ == "__main__":
    binary.run(main, define_flags)
