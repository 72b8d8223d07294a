"""Records: their bytes, their shards, and what is counted in them.

`albert_tf.schema` fixes what lies in a record and in the manifest. `RecordWriter`
shuffles all records of a run with the memory of one shard, and lets its files appear
under their final names only when all of them are whole.
"""

import collections
import contextlib
import dataclasses
import hashlib
import os
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf import schema
from data_prep import masking

_BLOCK = 1 << 20
_BUCKET_HEADER = struct.Struct("<QI")  # sort key, number of bytes


@dataclasses.dataclass(frozen=True)
class Record:
    """One training example; the fields are those of `schema.RECORD_FEATURES`.

    Attributes:
      input_ids: int32 [num_tokens].
      segment_a_length: tokens from [CLS] to the first [SEP].
      masked_lm_positions: int32 [num_masked].
      masked_lm_ids: int32 [num_masked].
      next_sentence_labels: `schema.SWAPPED` or `schema.IN_ORDER`.
    """

    input_ids: np.ndarray
    segment_a_length: int
    masked_lm_positions: np.ndarray
    masked_lm_ids: np.ndarray
    next_sentence_labels: int


def _dtype(kind: str, vocab_size: int) -> np.dtype:
    name = schema.id_dtype(vocab_size) if kind == "ids" else schema.POSITION_DTYPE
    return np.dtype(name).newbyteorder("<")


def serialize_record(record: Record, vocab_size: int) -> bytes:
    """The record as a serialized `tf.train.Example`; equal records, equal bytes."""
    example = tf.train.Example()
    features = example.features.feature
    for name, kind in schema.RECORD_FEATURES.items():
        value = getattr(record, name)
        if kind == "int64":
            features[name].int64_list.value.append(value)
        else:
            data = value.astype(_dtype(kind, vocab_size)).tobytes()
            features[name].bytes_list.value.append(data)
    return example.SerializeToString(deterministic=True)


def parse_record(serialized: bytes, vocab_size: int) -> dict[str, np.ndarray | int]:
    """Reads what `serialize_record` wrote, without TensorFlow's ops.

    Returns:
      The features by name: int32 arrays, and int for the single numbers.

    Raises:
      ValueError: a feature is missing, or its bytes are no whole number of items.
    """
    features = tf.train.Example.FromString(serialized).features.feature
    values: dict[str, np.ndarray | int] = {}
    for name, kind in schema.RECORD_FEATURES.items():
        feature = features[name]
        items = (
            feature.int64_list.value if kind == "int64" else feature.bytes_list.value
        )
        if len(items) != 1:
            raise ValueError(f"a record must hold one {name}; received {len(items)}")
        if kind == "int64":
            values[name] = int(items[0])
        else:
            array = np.frombuffer(items[0], _dtype(kind, vocab_size))
            values[name] = array.astype(np.int32)
    return values


def unmask(values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The tokens of a parsed record before masking; int32 [num_tokens]."""
    tokens = values["input_ids"].copy()
    tokens[values["masked_lm_positions"]] = values["masked_lm_ids"]
    return tokens


@dataclasses.dataclass
class SplitCounts:
    """What is counted in the records of one split; whole numbers, so sums are exact.

    Attributes:
      num_documents: each once, however many copies were made.
      num_documents_without_records: of these, those that gave no record.
      labels: int64 [2], records by label.
      tokens: int64 [V], tokens of the records before masking.
      masked: int64 [V], masked tokens by what stood there.
      drawn_lengths, placed_lengths: int64 [max_ngram], see `masking.MaskedTokens`.
      kinds: int64 [3], replacements by kind.
      dropped: tokens in no record by reason, over all copies.
    """

    num_documents: int
    num_documents_without_records: int
    labels: np.ndarray
    tokens: np.ndarray
    masked: np.ndarray
    drawn_lengths: np.ndarray
    placed_lengths: np.ndarray
    kinds: np.ndarray
    dropped: collections.Counter

    @classmethod
    def zeros(cls, vocab_size: int, max_ngram: int) -> "SplitCounts":
        """Nothing counted yet."""
        return cls(
            num_documents=0,
            num_documents_without_records=0,
            labels=np.zeros(2, np.int64),
            tokens=np.zeros(vocab_size, np.int64),
            masked=np.zeros(vocab_size, np.int64),
            drawn_lengths=np.zeros(max_ngram, np.int64),
            placed_lengths=np.zeros(max_ngram, np.int64),
            kinds=np.zeros(len(masking.KINDS), np.int64),
            dropped=collections.Counter(),
        )

    def add(self, other: "SplitCounts") -> None:
        """Adds what was counted elsewhere."""
        for field in dataclasses.fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)

    def statistics(self, seq_length: int, unk_id: int) -> dict[str, object]:
        """The statistics of a manifest's split, as plain values.

        Args:
          seq_length: S, the padded length of a record.
          unk_id: the id of the unknown piece.
        """
        num_records, num_tokens = int(self.labels.sum()), int(self.tokens.sum())
        num_masked = int(self.masked.sum())
        return {
            "num_tokens": num_tokens,
            "mean_length": round(num_tokens / num_records, 6),
            "padding_rate": round(1.0 - num_tokens / (num_records * seq_length), 6),
            "num_masked": num_masked,
            "masked_rate": round(num_masked / num_tokens, 6),
            "drawn_ngram_lengths": _by_length(self.drawn_lengths),
            "placed_ngram_lengths": _by_length(self.placed_lengths),
            "replacements": dict(zip(masking.KINDS, self.kinds.tolist(), strict=True)),
            "labels": {str(i): int(n) for i, n in enumerate(self.labels)},
            "unknown_rate": round(int(self.tokens[unk_id]) / num_tokens, 6),
            "num_documents_without_records": self.num_documents_without_records,
            "dropped_tokens": dict(sorted(self.dropped.items())),
        }


def _by_length(counts: np.ndarray) -> dict[str, int]:
    return {str(n): int(count) for n, count in enumerate(counts, 1)}


def unigram_entropy(
    train_tokens: np.ndarray, heldout_masked: np.ndarray, vocabulary_ids: np.ndarray
) -> float | None:
    """Cross-entropy of masked held-out tokens under the training frequencies.

    Args:
      train_tokens: int64 [V], how often each id stands in the training records.
      heldout_masked: int64 [V], how often each id was masked in the held-out records.
      vocabulary_ids: int [R], the ids that text can hold: no control symbols. One is
        added to the count of each.

    Returns:
      Nats a token; None if nothing was masked.
    """
    counts = train_tokens[vocabulary_ids] + 1.0
    masked = heldout_masked[vocabulary_ids]
    if not masked.sum():
        return None
    log_probabilities = np.log(counts / counts.sum())
    return round(float(-(masked * log_probabilities).sum() / masked.sum()), 6)


class RecordWriter:
    """Writes the splits of a run into one folder, shuffled.

    A record comes with a shard and a random sort key. `add` appends it to the shard's
    bucket, a temporary file; `finish` reads bucket by bucket, sorts and writes the
    shards, so that the memory needed is that of one shard. All of it happens in a
    temporary folder inside the output folder. Use it as a context manager: whatever
    ends it before `publish` is through leaves nothing under a final name.
    """

    def __init__(
        self,
        output_dir: str,
        vocabulary: bytes,
        num_shards: Mapping[str, int],
        overwrite: bool = False,
    ):
        """Makes the folders.

        Args:
          output_dir: the folder of records, made if need be.
          vocabulary: the bytes of the vocabulary, which is copied beside the records.
          num_shards: the number of shards of each split.
          overwrite: whether records that are there already give way to the new ones.

        Raises:
          ValueError: the folder cannot be written, or holds records already.
        """
        self._output_dir = output_dir
        self._vocabulary = vocabulary
        self._num_shards = dict(num_shards)
        self._overwrite = overwrite
        self._folder = os.path.join(output_dir, f".incomplete-{uuid.uuid4().hex}")
        self._buckets: dict[tuple[str, int], tf.io.gfile.GFile] = {}
        self._published: list[str] = []
        self._is_finished = False
        try:
            tf.io.gfile.makedirs(output_dir)
            existing = self._existing()
            if existing and not overwrite:
                raise ValueError(
                    f"--output_dir must not hold records yet; {output_dir} has "
                    f"{os.path.basename(existing[0])}. Remove it, choose another "
                    "folder, or pass --overwrite"
                )
            tf.io.gfile.makedirs(self._folder)
            for split, count in num_shards.items():
                for shard in range(count):
                    bucket = tf.io.gfile.GFile(self._bucket(split, shard), "wb")
                    bucket.write(b"")  # opens it: what cannot be written fails here
                    self._buckets[split, shard] = bucket
        except tf.errors.OpError as error:
            self._clear()
            raise ValueError(
                f"--output_dir must be a folder that can be written; {output_dir} "
                f"cannot: {error.message}"
            ) from error

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(self, *_) -> None:
        self._clear()

    def add(self, split: str, shard: int, key: int, serialized: bytes) -> None:
        """Takes a record for a shard; records of a shard are sorted by key."""
        header = _BUCKET_HEADER.pack(key, len(serialized))
        self._buckets[split, shard].write(header + serialized)

    def finish(self, splits: Sequence[str]) -> Iterator[tuple[str, schema.Shard]]:
        """Writes the shards of the splits that are to be kept.

        Yields:
          (split, shard) as each is whole, still in the temporary folder.
        """
        for bucket in self._buckets.values():
            bucket.close()
        for split in splits:
            for shard in range(self._num_shards[split]):
                yield split, self._write_shard(split, shard)

    def publish(self, manifest: schema.Manifest) -> None:
        """Gives the files their final names, the manifest last."""
        for name, data in (
            (schema.VOCAB_FILE, self._vocabulary),
            (schema.MANIFEST_FILE, manifest.to_json().encode()),
        ):
            with tf.io.gfile.GFile(os.path.join(self._folder, name), "wb") as file:
                file.write(data)
        if self._overwrite:
            for path in self._existing():  # the manifest goes first
                tf.io.gfile.remove(path)
        names = [s.name for split in manifest.splits.values() for s in split.shards]
        if not tf.io.gfile.exists(os.path.join(self._output_dir, schema.VOCAB_FILE)):
            names.append(schema.VOCAB_FILE)
        for name in [*names, schema.MANIFEST_FILE]:
            path = os.path.join(self._output_dir, name)
            tf.io.gfile.rename(os.path.join(self._folder, name), path)
            self._published.append(path)
        self._is_finished = True

    def _clear(self) -> None:
        """Removes the temporary folder, and what a failed `publish` left."""
        for bucket in self._buckets.values():
            with contextlib.suppress(tf.errors.OpError):
                bucket.close()
        if not self._is_finished:
            for path in self._published:
                with contextlib.suppress(tf.errors.OpError):
                    tf.io.gfile.remove(path)
        if tf.io.gfile.exists(self._folder):
            tf.io.gfile.rmtree(self._folder)

    def _bucket(self, split: str, shard: int) -> str:
        return os.path.join(self._folder, f"{split}-{shard:05d}.bucket")

    def _write_shard(self, split: str, shard: int) -> schema.Shard:
        bucket = self._bucket(split, shard)
        with tf.io.gfile.GFile(bucket, "rb") as file:
            data = memoryview(file.read())
        tf.io.gfile.remove(bucket)
        records = []
        place = 0
        while place < len(data):
            key, size = _BUCKET_HEADER.unpack_from(data, place)
            place += _BUCKET_HEADER.size
            records.append((key, place, size))
            place += size
        records.sort()
        name = f"{split}-{shard:05d}-of-{self._num_shards[split]:05d}.tfrecord"
        path = os.path.join(self._folder, name)
        with tf.io.TFRecordWriter(path) as writer:
            for _, place, size in records:
                writer.write(data[place : place + size].tobytes())
        num_bytes, digest = 0, hashlib.sha256()
        with tf.io.gfile.GFile(path, "rb") as file:
            while block := file.read(_BLOCK):
                num_bytes += len(block)
                digest.update(block)
        return schema.Shard(name, len(records), num_bytes, digest.hexdigest())

    def _existing(self) -> list[str]:
        """What lies in the output folder under names that a run gives."""
        patterns = [schema.MANIFEST_FILE] + [
            f"{split}-?????-of-?????.tfrecord"
            for split in (schema.TRAIN, schema.HELDOUT)
        ]
        paths = [
            path
            for pattern in patterns
            for path in sorted(
                tf.io.gfile.glob(os.path.join(self._output_dir, pattern))
            )
        ]
        vocabulary = os.path.join(self._output_dir, schema.VOCAB_FILE)
        if tf.io.gfile.exists(vocabulary):
            with tf.io.gfile.GFile(vocabulary, "rb") as file:
                # The same vocabulary may lie there: it may be the one that is used.
                if file.read() != self._vocabulary:
                    paths.append(vocabulary)
        return paths
