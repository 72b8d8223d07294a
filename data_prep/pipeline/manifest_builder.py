"""Counts of the documents and shards of a run, and the manifest built from them."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from albert_tf.core import config
from albert_tf.data import schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.pipeline import block_processor, duplicates
from data_prep.records import example_builder


@dataclasses.dataclass
class Totals:
    """Sums over all blocks.

    Attributes:
      tallies: see `block_processor.BlockDocuments`.
      splits: counts by split and name.
    """

    tallies: collections.Counter
    splits: dict[str, collections.Counter]

    @classmethod
    def empty(cls) -> "Totals":
        """Returns totals of nothing."""
        splits: dict[str, collections.Counter] = {
            s: collections.Counter() for s in schema.SPLITS
        }
        return cls(collections.Counter(), splits)

    def add(
        self,
        documents: block_processor.BlockDocuments,
        dropped: np.ndarray | None,
        data: config.DataConfig,
    ) -> None:
        """Adds a block.

        Args:
          documents: the block's.
          dropped: uint8 [D], a key of `duplicates.REASONS` for duplicates, else 0; or
            None.
          data: the settings of the records.
        """
        self.tallies.update(documents.tallies)
        if dropped is None:
            dropped = np.zeros(len(documents.is_heldout), np.uint8)
        for mark, reason in duplicates.REASONS.items():
            is_dropped = dropped == mark
            self.tallies[f"documents_dropped/{reason}"] += int(is_dropped.sum())
            self.tallies[f"characters_dropped/{reason}"] += int(
                documents.num_characters[is_dropped].sum()
            )
        for split, counter in self.splits.items():
            of_split = documents.is_heldout == (split == schema.HELDOUT)
            kept = of_split & (dropped == 0)
            _add_split(counter, documents, kept, data)


def _add_split(
    counter: collections.Counter,
    documents: block_processor.BlockDocuments,
    kept: np.ndarray,
    data: config.DataConfig,
) -> None:
    counts = documents.counts[kept].sum(0)  # [num_counts]
    copies = block_processor.num_copies(documents.is_heldout[kept], data)
    records = documents.counts[kept, example_builder.RECORDS]
    counter["documents"] += int(kept.sum())
    counter["documents_without_records"] += int((records == 0).sum())
    counter["characters"] += int(documents.num_characters[kept].sum())
    counter["tokens_in"] += int((documents.num_tokens[kept] * copies).sum())
    for name, column in (
        ("records", example_builder.RECORDS),
        ("tokens_used", example_builder.TOKENS),
        ("tokens_borrowed", example_builder.TOKENS_FROM_OTHER_DOCUMENTS),
        ("pairs", example_builder.PAIRS),
        ("negative_pairs", example_builder.NEGATIVE_PAIRS),
    ):
        counter[name] += int(counts[column])
    first = example_builder.NUM_PLAIN_COUNTS
    for name, size in (
        ("drawn", data.max_ngram),
        ("placed", data.max_ngram),
        ("kinds", len(schema.REPLACEMENTS)),
    ):
        for place in range(size):
            counter[f"{name}/{place}"] += int(counts[first + place])
        first += size


def check_balance(totals: Totals, data: config.DataConfig) -> None:
    """Raises a RuntimeError unless all characters and tokens are accounted for."""
    tallies = totals.tallies
    kept = sum(counter["characters"] for counter in totals.splits.values())
    gone = sum(_with_prefix(tallies, "characters_removed").values())
    gone += sum(_with_prefix(tallies, "characters_dropped").values())
    if tallies["characters_read"] != kept + gone:
        raise RuntimeError(
            f"{tallies['characters_read']} characters were read, but {kept} kept and "
            f"{gone} dropped: a bug in data_prep"
        )
    for split, counter in totals.splits.items():
        if counter["tokens_in"] != counter["tokens_used"]:
            raise RuntimeError(
                f"{split}: {counter['tokens_in']} tokens went in, but "
                f"{counter['tokens_used']} are in records: a bug in data_prep"
            )


def _check_shards(
    counter: collections.Counter,
    shards: Sequence[schema.Shard],
    num_tokens: int,
    is_packed: bool,
) -> None:
    """Raises a RuntimeError unless the shards of a split hold all its sequences."""
    num_records = _num_records(shards)
    expected = counter["tokens_used"] + counter["tokens_borrowed"]
    expected += _num_special(counter)
    is_complete = num_tokens == expected and (
        num_records <= counter["records"]
        if is_packed
        else num_records == counter["records"]
    )
    if not is_complete:
        raise RuntimeError(
            f"the shards hold {num_records} records of {num_tokens} tokens, but "
            f"{counter['records']} of {expected} were made: a bug in data_prep"
        )


def _num_records(shards: Sequence[schema.Shard]) -> int:
    return sum(shard.num_records for shard in shards)


def make_manifest(
    totals: Totals,
    shards: Mapping[str, Sequence[schema.Shard]],
    tokens: Mapping[str, np.ndarray],
    masked: Mapping[str, np.ndarray],
    settings: block_processor.PipelineSettings,
    tokenizer: tokenizer_lib.Tokenizer,
) -> schema.Manifest:
    """Builds the manifest of a run; splits without records are omitted.

    Args:
      totals: of all blocks.
      shards: of each split.
      tokens: int64 [V] for each split, tokens of the records before masking.
      masked: int64 [V] for each split, masked tokens.
      settings: of the run.
      tokenizer: the vocabulary's.
    """
    check_balance(totals, settings.data)
    data = settings.data
    reserved = np.setdiff1d(np.arange(tokenizer.vocab_size), tokenizer.replacement_ids)
    return schema.Manifest(
        text=dataclasses.asdict(settings.text),
        data=dataclasses.asdict(data),
        vocab_size=tokenizer.vocab_size,
        vocab_sha256=tokenizer.sha256,
        mask_id=tokenizer.mask_id,
        reserved_ids=tuple(reserved.tolist()),
        seq_length=data.max_seq_length,
        num_predictions=data.num_predictions,
        documents=_documents(totals),
        characters=_characters(totals),
        evaluation_digest=settings.evaluation.digest if settings.evaluation else "",
        splits={
            split: schema.RecordSplit(
                num_documents=counter["documents"],
                num_records=_num_records(shards[split]),
                shards=tuple(shards[split]),
                statistics=_statistics(
                    counter, shards[split], tokens[split], data, tokenizer.unk_id
                ),
            )
            for split, counter in totals.splits.items()
            if counter["records"]
        },
        heldout_unigram_entropy=unigram_entropy(
            tokens[schema.TRAIN],
            masked[schema.HELDOUT],
            np.append(tokenizer.replacement_ids, tokenizer.unk_id),
        ),
    )


def _documents(totals: Totals) -> dict[str, object]:
    """Counts of the documents that were read, dropped and kept."""
    return {
        "read": totals.tallies["documents_read"],
        "dropped": _with_prefix(totals.tallies, "documents_dropped"),
        "kept": sum(counter["documents"] for counter in totals.splits.values()),
    }


def _characters(totals: Totals) -> dict[str, object]:
    """Counts of the characters read, removed, dropped and kept, without line ends."""
    tallies = totals.tallies
    other = {
        name: count
        for name, count in tallies.items()
        if "/" not in name and not name.endswith("_read")
    }
    return {
        "read": tallies["characters_read"],
        "removed": _with_prefix(tallies, "characters_removed"),
        "dropped": _with_prefix(tallies, "characters_dropped"),
        "kept": sum(counter["characters"] for counter in totals.splits.values()),
        "input": dict(sorted(other.items())),
    }


def _with_prefix(tallies: Mapping[str, int], prefix: str) -> dict[str, int]:
    names = sorted(n for n, count in tallies.items() if n.startswith(f"{prefix}/"))
    return {n.partition("/")[2]: tallies[n] for n in names if tallies[n]}


def _statistics(
    counter: collections.Counter,
    shards: Sequence[schema.Shard],
    tokens: np.ndarray,
    data: config.DataConfig,
    unk_id: int,
) -> dict[str, object]:
    """Returns the statistics of a split, as plain values."""
    num_sequences, num_tokens = counter["records"], int(tokens.sum())
    _check_shards(counter, shards, num_tokens, bool(data.pack_sequences))
    kinds = _numbered(counter, "kinds", range(len(schema.REPLACEMENTS)))
    num_masked = sum(kinds.values())
    num_pairs, num_negative = counter["pairs"], counter["negative_pairs"]
    lengths = range(1, data.max_ngram + 1)
    return {
        "tokens_in": counter["tokens_in"],
        "tokens_used": counter["tokens_used"],
        "tokens_borrowed": counter["tokens_borrowed"],
        "tokens_special": _num_special(counter),
        "num_tokens": num_tokens,
        "mean_length": round(num_tokens / num_sequences, 6),
        "padding_rate": round(
            1.0 - num_tokens / (_num_records(shards) * data.row.length), 6
        ),
        "num_masked": num_masked,
        "masked_rate": round(num_masked / num_tokens, 6),
        "drawn_ngram_lengths": _numbered(counter, "drawn", lengths),
        "placed_ngram_lengths": _numbered(counter, "placed", lengths),
        "replacements": dict(zip(schema.REPLACEMENTS, kinds.values(), strict=True)),
        "labels": {
            str(schema.NO_LABEL): num_sequences - num_pairs,
            "0": num_pairs - num_negative,
            "1": num_negative,
        },
        "unknown_rate": round(int(tokens[unk_id]) / num_tokens, 6),
        "num_documents_without_records": counter["documents_without_records"],
    }


def _numbered(
    counter: collections.Counter, name: str, keys: Iterable[int]
) -> dict[str, int]:
    return {str(key): counter[f"{name}/{place}"] for place, key in enumerate(keys)}


def _num_special(counter: collections.Counter) -> int:
    """[CLS] and [SEP] of each record, and the second [SEP] of each pair."""
    return 2 * counter["records"] + counter["pairs"]


def unigram_entropy(
    train_tokens: np.ndarray, heldout_masked: np.ndarray, vocabulary_ids: np.ndarray
) -> float | None:
    """Cross-entropy of masked held-out tokens under the training frequencies.

    Args:
      train_tokens: int64 [V], occurrences of each id in the training records.
      heldout_masked: int64 [V], how often each id was masked in the held-out records.
      vocabulary_ids: int [R], the ids that occur in text: no control symbols. One is
        added to the count of each.

    Returns:
      Nats per token; None if nothing was masked.
    """
    counts = train_tokens[vocabulary_ids] + 1.0
    masked = heldout_masked[vocabulary_ids]
    if not masked.sum():
        return None
    log_probabilities = np.log(counts / counts.sum())
    return round(float(-(masked * log_probabilities).sum() / masked.sum()), 6)
