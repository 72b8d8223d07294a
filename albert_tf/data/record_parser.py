"""Parsing of records to the inputs of the model."""

import numpy as np
import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.data import masking, packed_rows, schema


class Parser:
    """Parses the records of one directory to the inputs of the model.

    If masking is dynamic, masks are drawn here, by the same compiled loop that
    data_prep uses, with random numbers of the keys that `parse` receives.
    """

    def __init__(self, manifest: schema.Manifest, data: config_lib.DataConfig):
        """Makes the parameters of masking, if it is dynamic.

        Args:
          manifest: of the records.
          data: settings of the rows, and of dynamic masking.
        """
        self._manifest = manifest
        self._row = data.row
        self._is_dynamic = manifest.data["masking"] == "dynamic"
        self._num_predictions = manifest.num_predictions
        self._whole_words = data.whole_words
        if self._is_dynamic:
            self._num_predictions = data.num_predictions
            ids = np.arange(manifest.vocab_size)
            self._masking_params = masking.make_params(
                data.max_ngram,
                data.ngram_distribution,
                data.masked_lm_rate,
                data.num_predictions,
                manifest.seq_length,
                manifest.mask_id,
                np.setdiff1d(ids, manifest.reserved_ids),
                data.mask_token_rate,
                data.random_token_rate,
            )

    def parse(self, serialized, keys) -> dict[str, tf.Tensor]:
        """Parses a batch of records.

        Args:
          serialized: string [B], records as `schema.record_features` describes them, or
            packed ones.
          keys: int64 [B, K], the keys of dynamic masks.

        Returns:
          The tensors of `schema.model_features`, with a leading axis B.
        """
        if not self._row.num_sequences:
            return self._parse_sequences(serialized, keys)
        parsed = tf.io.parse_example(
            serialized,
            {
                schema.SEQUENCES: tf.io.RaggedFeature(
                    tf.string, row_splits_dtype=tf.int64
                )
            },
        )
        rows = parsed[schema.SEQUENCES]  # [B, sequences]
        counts = rows.row_lengths()  # [B]
        places = tf.ragged.range(counts).flat_values  # [T], 0, 1, … in each row
        keys = tf.concat([tf.repeat(keys, counts, axis=0), places[:, None]], axis=1)
        features = self._parse_sequences(rows.flat_values, keys)
        return packed_rows.pack(features, counts, self._row)

    def _parse_sequences(self, serialized, keys) -> dict[str, tf.Tensor]:
        """Parses records of one sequence: one row each."""
        manifest = self._manifest
        features = schema.record_features(manifest.data["masking"])
        parsed = tf.io.parse_example(
            serialized,
            {
                name: tf.io.FixedLenFeature(
                    [], tf.int64 if kind == "int64" else tf.string
                )
                for name, kind in features.items()
            },
        )
        id_dtype, seq_length = schema.id_dtype(manifest.vocab_size), manifest.seq_length
        num_tokens = _num_items(parsed["input_ids"], id_dtype)  # [B, 1]
        segment_a = tf.cast(parsed["segment_a_length"], tf.int32)[:, None]  # [B, 1]
        place = tf.range(seq_length)[None]  # [1, S]
        common = {
            "input_ids": _decode(parsed["input_ids"], id_dtype, seq_length),
            "input_mask": tf.cast(place < num_tokens, tf.int32),
            "segment_ids": tf.cast(
                (place >= segment_a) & (place < num_tokens), tf.int32
            ),
            "next_sentence_labels": tf.cast(parsed["next_sentence_labels"], tf.int32),
        }
        if self._is_dynamic:
            masked = self._mask(
                common["input_ids"], num_tokens, segment_a, parsed, keys
            )
            return common | masked
        return common | self._masked(parsed, id_dtype)

    def _masked(self, parsed, id_dtype: str) -> dict[str, tf.Tensor]:
        """Returns the masks that the records hold."""
        num_predictions = self._num_predictions
        num_masked = _num_items(parsed["masked_lm_ids"], id_dtype)  # [B, 1]
        return {
            "masked_lm_positions": _decode(
                parsed["masked_lm_positions"], schema.POSITION_DTYPE, num_predictions
            ),
            "masked_lm_ids": _decode(
                parsed["masked_lm_ids"], id_dtype, num_predictions
            ),
            "masked_lm_weights": tf.cast(
                tf.range(num_predictions)[None] < num_masked, tf.float32
            ),
        }

    def _mask(self, input_ids, num_tokens, segment_a, parsed, keys):
        """Draws new masks, and applies them to `input_ids`."""
        num_bytes = -(-self._manifest.seq_length // 8)
        bits = tf.io.decode_raw(
            parsed["is_word_start"], tf.uint8, fixed_length=num_bytes
        )  # [B, num_bytes]
        shape = [input_ids.shape[0], self._num_predictions]
        masked_ids, positions, labels, weights = tf.numpy_function(
            self._mask_arrays,
            [input_ids, num_tokens, segment_a, bits, keys],
            [tf.int32, tf.int32, tf.int32, tf.float32],
            stateful=False,
        )
        return {
            "input_ids": tf.ensure_shape(masked_ids, input_ids.shape),
            "masked_lm_positions": tf.ensure_shape(positions, shape),
            "masked_lm_ids": tf.ensure_shape(labels, shape),
            "masked_lm_weights": tf.ensure_shape(weights, shape),
        }

    def _mask_arrays(self, input_ids, num_tokens, segment_a, bits, keys):
        # The compiled loop does not check its places. TensorFlow makes an
        # InvalidArgumentError of this, for which the trainer looks for damaged shards.
        # A batch may be empty: the rest of an evaluation on several replicas.
        if np.any((num_tokens < 2) | (num_tokens > input_ids.shape[1])):
            raise ValueError(
                f"a record must have 2 to {input_ids.shape[1]} tokens; received "
                f"{num_tokens.min()} to {num_tokens.max()}"
            )
        return masking.mask_batch(
            input_ids,
            num_tokens[:, 0],
            segment_a[:, 0],
            bits,
            self._whole_words,
            self._masking_params,
            keys.astype(np.uint64),
            self._num_predictions,
        )


def _num_items(data, dtype: str):
    return (tf.strings.length(data) // np.dtype(dtype).itemsize)[:, None]


def _decode(data, dtype: str, length: int):
    num_bytes = length * np.dtype(dtype).itemsize
    # Missing bytes are read as 0, which is the padding id.
    values = tf.io.decode_raw(data, tf.as_dtype(dtype), fixed_length=num_bytes)
    return tf.cast(tf.ensure_shape(values, [None, length]), tf.int32)
