"""Shared steps of the local run and the Beam pipeline."""

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from albert_tf.core import config as config_lib
from albert_tf.core import console, plurals
from albert_tf.data import schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.pipeline import block_processor, manifest_builder
from data_prep.reading import blocks, input_files, limits
from data_prep.records import shards
from data_prep.text import cleaning, contamination


def read_vocab(path: str, lower_case: bool) -> tokenizer_lib.Tokenizer:
    """Reads a vocabulary to make records with, which may be any.

    Args:
      path: of the SentencePiece model.
      lower_case: whether texts are lower-cased.

    Raises:
      ValueError: there is none, or it is damaged.
    """
    advice = (
        "give the path of a SentencePiece .model file, or train one with "
        f"`{console.command_line('data_prep.train_vocab')}`"
    )
    return tokenizer_lib.Tokenizer.from_file(path, lower_case, advice)


def make_settings(
    vocab_model: str, config: config_lib.Config, evaluation_input: str | Iterable[str]
) -> tuple[block_processor.PipelineSettings, tokenizer_lib.Tokenizer]:
    """Returns the settings that decide the outcome of a block, and the tokenizer.

    Args:
      vocab_model: path of the SentencePiece model.
      config: `text` and `data` are applied; `model.vocab_size` must be that of the
        vocabulary.
      evaluation_input: globs of text files whose texts must not occur.

    Raises:
      ValueError: the vocabulary does not fit.
    """
    tokenizer = read_vocab(vocab_model, config.data.lower_case)
    _check_vocabulary(tokenizer, vocab_model, config)
    evaluation = _read_evaluation(evaluation_input, config.text)
    cleaning.Cleaner(config.text, evaluation)  # raises its errors early
    settings = block_processor.PipelineSettings(
        config.text,
        config.data,
        tokenizer.model_proto,
        tokenizer.vocab_size,
        evaluation,
    )
    return settings, tokenizer


def _check_vocabulary(
    tokenizer: tokenizer_lib.Tokenizer, path: str, config: config_lib.Config
) -> None:
    if tokenizer.vocab_size != config.model.vocab_size:
        raise ValueError(
            f"{path} has {tokenizer.vocab_size} pieces, but model.vocab_size is "
            f"{config.model.vocab_size}; pass --set "
            f"model.vocab_size={tokenizer.vocab_size} or another vocabulary"
        )


def _read_evaluation(
    patterns: str | Iterable[str], text: config_lib.TextConfig
) -> contamination.Index | None:
    """Returns the index of an evaluation set of text files; None without one."""
    if not patterns:
        return None
    plain = dataclasses.replace(
        text, input_format="text", min_document_characters=0, keep_languages=()
    )
    paths = input_files.expand(patterns)
    input_files.check_evaluation_format(paths)
    documents = (
        document
        for group in blocks.plan_groups(paths)
        for block in blocks.iter_blocks(group, plain, block_processor.MAX_BLOCK_BYTES)
        for document in blocks.parse_block(block, plain)[0]
    )
    # As the documents are that they are compared with.
    clean = cleaning.Cleaner(plain).clean
    lengths = []

    def texts() -> Iterator[str]:
        for document in documents:
            one = "\n".join(clean(document.lines).lines)
            lengths.append(len(one.split()))
            yield one

    index = contamination.Index.from_texts(texts(), text.contamination_ngram)
    print(
        f"evaluation set: {plurals.count(len(lengths), 'text')} of {min(lengths):,} to "
        f"{max(lengths):,} words, at empty lines",
        file=sys.stderr,
    )
    return index


def reason_to_refuse(
    paths: Sequence[str], totals: manifest_builder.Totals, data: config_lib.DataConfig
) -> str:
    """Returns an error message if the text gave no records to train on, else ""."""
    where = f"{', '.join(paths[:3])}{', …' if len(paths) > 3 else ''}"
    counter = totals.splits[schema.TRAIN]
    if not totals.tallies["documents_read"]:
        return (
            f"the input {where} holds no document; give files with text in the format "
            "of text.input_format"
        )
    if not counter["records"]:
        return (
            f"{where}: no document gave a training record, which takes a document that "
            f"is neither empty, dropped nor held out (data.heldout_rate is "
            f"{data.heldout_rate}); give more text"
        )
    if data.pair_loss != "none" and not counter["pairs"]:
        other = " and another document" if data.pair_loss == "nsp" else ""
        return (
            f"{where}: no training record is a pair for data.pair_loss="
            f"{data.pair_loss}, which takes two whole sentences of a document{other} "
            f"in data.max_seq_length={data.max_seq_length} tokens; set "
            "data.pair_loss=none, a greater length, or "
            "text.sentence_splitter=sentencex"
        )
    return ""


def count_shards(
    totals: manifest_builder.Totals, data: config_lib.DataConfig
) -> dict[str, int]:
    """Returns the number of shards of each split that has records."""
    return {
        split: shards.num_shards(data, split, totals.tallies[f"bytes/{split}"])
        for split, counter in totals.splits.items()
        if counter["records"]
    }


def describe(manifest: schema.Manifest, output_dir: str) -> str:
    """Returns a summary of a few lines."""
    documents, characters = manifest.documents, manifest.characters
    lines = [
        f"read {plurals.count(documents['read'], 'document')} of "
        f"{characters['read']:,} characters; "
        f"kept {documents['kept']:,}{_reasons(documents['dropped'])}"
    ]
    if over := limits.describe(characters["input"]):
        lines.append(f"over a bound of text.max_…, named on stderr: {over}")
    for name, split in manifest.splits.items():
        statistics = split.statistics
        cap = manifest.data["max_predictions_per_seq"]
        cap = f" (at most {cap} of a record)" if cap else ""
        masked = (
            "to be masked in training"
            if manifest.data["masking"] == "dynamic"
            else f"masked {statistics['masked_rate']:.2%} of the tokens{cap}"
        )
        num_pairs = split.num_sequences - statistics["labels"][str(schema.NO_LABEL)]
        has_pairs = manifest.data["pair_loss"] != "none"
        pairs = f"{num_pairs:,} of them pairs; " if has_pairs else ""
        packed = f"{split.num_sequences:,} sequences in " if manifest.is_packed else ""
        lines.append(
            f"{name}: {packed}{plurals.count(split.num_records, 'record')} of "
            f"{plurals.count(split.num_documents, 'document')} in "
            f"{plurals.count(len(split.shards), 'shard')}; "
            f"{pairs}{masked}; padding {statistics['padding_rate']:.1%}"
        )
    entropy = manifest.heldout_unigram_entropy
    if entropy is None:
        lines.append(
            "warning: nothing was held out, so that no run on these records can be "
            f"evaluated. data.heldout_rate is {manifest.data['heldout_rate']:g}; 0.05 "
            "keeps about a twentieth of the documents out"
        )
    else:
        lines.append(
            f"unigram entropy of the held-out masked tokens: {entropy:.4f} nats"
        )
    return "\n".join([*lines, f"wrote {output_dir}"])


def _reasons(dropped: Mapping[str, int]) -> str:
    text = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
    return f"; dropped {text.replace('_', ' ')}" if text else ""
