r"""Raw text to pre-training records: TFRecord shards, the vocabulary and a manifest.

  python -m data_prep.create_pretraining_data \
    --input='corpus/*.txt.gz' --vocab_model=vocab/vocab.model --output_dir=records \
    --config=configs/albert_base.py --set data.dupe_factor=2

The bytes of the records and of the manifest follow from the text, the configuration
and the vocabulary alone: not from the number of worker processes, nor from the time.
"""

import collections
import concurrent.futures
import dataclasses
import hashlib
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tqdm
from absl import flags

from albert_tf import binary, schema, tokenization
from albert_tf import config as config_lib
from data_prep import documents, masking, records, sentence_order

# What goes to a worker at a time: enough to make the journey cheap, and little enough
# that the batches in flight fit in memory.
_BATCH_CHARACTERS = 1 << 18
_BATCHES_PER_WORKER = 3


@dataclasses.dataclass(frozen=True)
class Batch:
    """Documents with their numbers in the input, from `first_index` on."""

    first_index: int
    documents: tuple[documents.Document, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of text, ends of lines included."""
        return sum(len(line.encode()) + 1 for d in self.documents for line in d.lines)


@dataclasses.dataclass(frozen=True)
class BatchResult:
    """What became of a batch.

    Attributes:
      serialized: (split, shard, sort key, bytes) of each record.
      counts: what was counted, by split.
    """

    serialized: list[tuple[str, int, int, bytes]]
    counts: dict[str, records.SplitCounts]


class DocumentProcessor:
    """Documents to records; holds no state that a document could change."""

    def __init__(self, tokenizer: tokenization.Tokenizer, data: config_lib.DataConfig):
        self._tokenizer = tokenizer
        self._data = data

    def process(self, batch: Batch) -> BatchResult:
        """The records of a batch of documents, which depend on nothing else."""
        data, vocab_size = self._data, self._tokenizer.vocab_size
        result = BatchResult([], {})
        for index, document in enumerate(batch.documents, batch.first_index):
            split = split_of(document.lines, self._tokenizer, data)
            counts = result.counts.setdefault(
                split, records.SplitCounts.zeros(vocab_size, data.max_ngram)
            )
            sentences = [
                np.array(ids, np.int32)  # [num_tokens]
                for ids in self._tokenizer.encode_batch(
                    documents.split_sentences(
                        document.lines, data.sentence_splitter, data.language
                    )
                )
            ]
            num_before = len(result.serialized)
            for copy in range(data.dupe_factor if split == schema.TRAIN else 1):
                rng = np.random.default_rng(
                    np.random.SeedSequence([data.seed, index, copy])
                )
                result.serialized.extend(self._one_copy(sentences, split, counts, rng))
            counts.num_documents += 1
            counts.num_documents_without_records += num_before == len(result.serialized)
        return result

    def _one_copy(
        self,
        sentences: Sequence[np.ndarray],
        split: str,
        counts: records.SplitCounts,
        rng: np.random.Generator,
    ) -> Iterator[tuple[str, int, int, bytes]]:
        """The records of one pass over a document, which are counted in `counts`."""
        data, tokenizer = self._data, self._tokenizer
        vocab_size = tokenizer.vocab_size
        num_shards = data.num_shards if split == schema.TRAIN else 1
        pairs, dropped = sentence_order.pack_document(
            sentences,
            tokenizer.is_word_start,
            data.max_seq_length,
            data.short_seq_rate,
            rng,
        )
        counts.dropped += dropped
        cls, sep = [tokenizer.cls_id], [tokenizer.sep_id]
        all_tokens, all_labels = [], []
        for pair in pairs:
            tokens = np.concatenate(
                (cls, pair.segment_a, sep, pair.segment_b, sep), dtype=np.int32
            )  # [num_tokens]
            segment_a_length = len(pair.segment_a) + 2  # with [CLS] and [SEP]
            masked = masking.mask_tokens(
                tokens,
                segment_a_length,
                tokenizer.is_word_start,
                masked_lm_rate=data.masked_lm_rate,
                max_predictions=data.num_predictions,
                max_ngram=data.max_ngram,
                mask_id=tokenizer.mask_id,
                replacement_ids=tokenizer.replacement_ids,
                rng=rng,
            )
            record = records.Record(
                input_ids=masked.input_ids,
                segment_a_length=segment_a_length,
                masked_lm_positions=masked.positions,
                masked_lm_ids=masked.labels,
                next_sentence_labels=pair.label,
            )
            shard, key = int(rng.integers(num_shards)), int(rng.integers(1 << 63))
            yield split, shard, key, records.serialize_record(record, vocab_size)
            all_tokens.append(tokens)
            all_labels.append(masked.labels)
            counts.labels[pair.label] += 1
            counts.drawn_lengths += masked.drawn_lengths
            counts.placed_lengths += masked.placed_lengths
            counts.kinds += masked.kinds
        if pairs:
            for total, ids in (
                (counts.tokens, all_tokens),
                (counts.masked, all_labels),
            ):
                total += np.bincount(np.concatenate(ids), minlength=vocab_size)


def split_of(
    lines: Sequence[str],
    tokenizer: tokenization.Tokenizer,
    data: config_lib.DataConfig,
) -> str:
    """The split of a document, which follows from its text.

    The text's hash is compared with `data.heldout_rate`, so that equal documents are
    on the same side wherever they stand, and no text is in both splits.
    """
    text = tokenizer.normalize(" ".join(lines))
    digest = hashlib.sha256(f"{data.seed}\n{text}".encode()).digest()
    uniform = int.from_bytes(digest[:8], "big") / 2.0**64
    return schema.HELDOUT if uniform < data.heldout_rate else schema.TRAIN


# The processor of a worker process, which lives as long as the process.
_processor: DocumentProcessor


def _start_worker(tokenizer: tokenization.Tokenizer, data: config_lib.DataConfig):
    global _processor
    _processor = DocumentProcessor(tokenizer, data)


def _process_in_worker(batch: Batch) -> BatchResult:
    return _processor.process(batch)


def _batches(all_documents: Iterable[documents.Document]) -> Iterator[Batch]:
    """Groups documents by the size of their text."""
    group: list[documents.Document] = []
    first_index = num_characters = 0
    for document in all_documents:
        group.append(document)
        num_characters += sum(map(len, document.lines))
        if num_characters >= _BATCH_CHARACTERS:
            yield Batch(first_index, tuple(group))
            first_index += len(group)
            group, num_characters = [], 0
    if group:
        yield Batch(first_index, tuple(group))


def _process_all(
    batches: Iterator[Batch],
    tokenizer: tokenization.Tokenizer,
    data: config_lib.DataConfig,
    num_workers: int,
) -> Iterator[tuple[Batch, BatchResult]]:
    """The results of all batches, in their order."""
    if num_workers == 1:
        processor = DocumentProcessor(tokenizer, data)
        for batch in batches:
            yield batch, processor.process(batch)
        return
    # "spawn": a fork of a process with TensorFlow's threads may hang.
    executor = concurrent.futures.ProcessPoolExecutor(
        num_workers,
        multiprocessing.get_context("spawn"),
        _start_worker,
        (tokenizer, data),
    )
    try:
        in_flight: collections.deque = collections.deque()
        for batch in batches:
            in_flight.append((batch, executor.submit(_process_in_worker, batch)))
            if len(in_flight) == num_workers * _BATCHES_PER_WORKER:
                first, future = in_flight.popleft()
                yield first, future.result()
        for last, future in in_flight:
            yield last, future.result()
    finally:
        executor.shutdown(cancel_futures=True)


def create_pretraining_data(
    patterns: str | Iterable[str],
    vocab_model: str,
    output_dir: str,
    config: config_lib.Config,
    num_workers: int = 1,
    overwrite: bool = False,
) -> schema.Manifest:
    """Writes the records of raw text into a folder.

    Args:
      patterns: globs of text files, see `documents.expand`.
      vocab_model: path of the SentencePiece model.
      output_dir: the folder to write.
      config: `config.data` says how; `config.model.vocab_size` is compared.
      num_workers: worker processes; 1 works without any.
      overwrite: whether to replace records that are in the folder already.

    Returns:
      The manifest, as it was written.

    Raises:
      ValueError: bad input, a vocabulary that does not fit, a folder that cannot be
        written or holds records, or text that gives no training record.
    """
    data = config.data
    tokenizer = tokenization.Tokenizer.from_file(vocab_model, data.lower_case)
    if tokenizer.vocab_size != config.model.vocab_size:
        raise ValueError(
            f"{vocab_model} has {tokenizer.vocab_size} pieces, but model.vocab_size is "
            f"{config.model.vocab_size}; pass --set "
            f"model.vocab_size={tokenizer.vocab_size} or another vocabulary"
        )
    paths = documents.expand(patterns)
    num_shards = {schema.TRAIN: data.num_shards, schema.HELDOUT: 1}
    with records.RecordWriter(
        output_dir, tokenizer.model_proto, num_shards, overwrite
    ) as writer:
        batches = _batches(documents.iter_documents(paths))
        results = _process_all(batches, tokenizer, data, num_workers)
        counts = _collect(results, writer, tokenizer.vocab_size, data.max_ngram)
        if not counts[schema.TRAIN].labels.sum():
            raise ValueError(
                f"{', '.join(paths[:3])}: no document gave a training record, which "
                "takes one of two words or more that is not held out "
                f"(data.heldout_rate is {data.heldout_rate}); give more text"
            )
        manifest = _manifest(writer, counts, tokenizer, data)
        writer.publish(manifest)
    return manifest


def _collect(
    results: Iterable[tuple[Batch, BatchResult]],
    writer: records.RecordWriter,
    vocab_size: int,
    max_ngram: int,
) -> dict[str, records.SplitCounts]:
    """Hands all records to the writer and adds up what was counted, by split."""
    counts = {
        split: records.SplitCounts.zeros(vocab_size, max_ngram)
        for split in (schema.TRAIN, schema.HELDOUT)
    }
    num_documents = num_records = 0
    with tqdm.tqdm(unit="B", unit_scale=True, mininterval=1.0) as bar:
        for batch, result in results:
            for record in result.serialized:
                writer.add(*record)
            for split, batch_counts in result.counts.items():
                counts[split].add(batch_counts)
            num_documents += len(batch.documents)
            num_records += len(result.serialized)
            bar.set_postfix(documents=num_documents, records=num_records, refresh=False)
            bar.update(batch.num_bytes)
    return counts


def _manifest(
    writer: records.RecordWriter,
    counts: dict[str, records.SplitCounts],
    tokenizer: tokenization.Tokenizer,
    data: config_lib.DataConfig,
) -> schema.Manifest:
    """Writes the shards and describes them; a split without records is left out."""
    shards: dict[str, list[schema.Shard]] = {
        split: [] for split, c in counts.items() if c.labels.sum()
    }
    for split, shard in writer.finish(list(shards)):
        shards[split].append(shard)
    return schema.Manifest(
        data=dataclasses.asdict(data),
        vocab_size=tokenizer.vocab_size,
        vocab_sha256=tokenizer.sha256,
        seq_length=data.max_seq_length,
        num_predictions=data.num_predictions,
        splits={
            split: schema.Split(
                num_documents=counts[split].num_documents,
                num_records=int(counts[split].labels.sum()),
                shards=tuple(of_split),
                statistics=counts[split].statistics(
                    data.max_seq_length, tokenizer.unk_id
                ),
            )
            for split, of_split in shards.items()
        },
        heldout_unigram_entropy=records.unigram_entropy(
            counts[schema.TRAIN].tokens,
            counts[schema.HELDOUT].masked,
            np.append(tokenizer.replacement_ids, tokenizer.unk_id),
        ),
    )


def _summary(manifest: schema.Manifest, output_dir: str) -> str:
    """A few lines on what was made."""
    lines = []
    for name, split in manifest.splits.items():
        statistics = split.statistics
        lines.append(
            f"{name}: {split.num_records:,} records of {split.num_documents:,} "
            f"documents in {len(split.shards)} shards; masked "
            f"{statistics['masked_rate']:.2%} of the tokens; padding "
            f"{statistics['padding_rate']:.1%}"
        )
    entropy = manifest.heldout_unigram_entropy
    if entropy is None:
        lines.append("nothing was held out")
    else:
        lines.append(
            f"unigram entropy of the held-out masked tokens: {entropy:.4f} nats"
        )
    return "\n".join([*lines, f"wrote {output_dir}"])


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this binary.

    Not at import, since a process may import several binaries, and each flag can be
    defined but once in a process.
    """
    values = flag_values
    flags.DEFINE_list(
        "input",
        None,
        "Globs of UTF-8 text files, an empty line between documents.",
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
    flags.DEFINE_integer(
        "num_workers",
        os.cpu_count() or 1,
        "Worker processes; 1 works without any.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_bool(
        "overwrite", False, "Replace the records that are in the folder.", values
    )
    flags.mark_flags_as_required(["input", "vocab_model", "output_dir"], values)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Reads the flags, makes the records, and says what was made."""
    # TensorFlow has greeted once; its workers' greetings would break the progress bar.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    with binary.user_errors():
        binary.refuse_arguments(argv)
        manifest = create_pretraining_data(
            flag_values.input,
            flag_values.vocab_model,
            flag_values.output_dir,
            config_lib.load(flag_values.config, flag_values.set),
            flag_values.num_workers,
            flag_values.overwrite,
        )
    print(_summary(manifest, flag_values.output_dir))


if __name__ == "__main__":
    binary.run(main, define_flags)
