"""Signature that labels the words of texts.

Shapes: T texts in the call, M words of all texts, C classes.
"""

import tensorflow as tf

from albert_tf.serving import packing, signature
from albert_tf.tokenization import graph_offsets


class TokenClassificationServing(signature.TaskServing):
    """Labels words, which are separated by whitespace.

    As in fine-tuning each word is tokenized by itself, and its first piece gives its
    label. A text longer than a row continues in further rows, without overlap, so that
    every word gets a label; the first row is that of fine-tuning.
    """

    def __init__(self, trained: signature.ServableTask):
        super().__init__(trained)
        self.tokenizer = graph_offsets.AligningTokenizer(trained.tokenizer)
        self._labels = trained.labels
        # For a word without a piece, such as a lone zero-width space.
        self._unknown = tf.constant([trained.tokenizer.unk_id])

    @property
    def signatures(self) -> dict:
        """The signatures of the SavedModel, by name."""
        return {"tag": self.tag}

    @tf.function(input_signature=[signature.TEXTS], autograph=False)
    def tag(self, text):
        """Finds the label of each word.

        Args:
          text: string [T], of any length.

        Returns:
          For all words of all texts, in their order: `text_index` int32 [M]; `word`
          string [M]; `start` and `end` int32 [M], code points of the text;
          `label` string [M]; `probability` float32 [M], of that label. Also `labels`
          string [C].
        """
        words, starts, ends = self.tokenizer.split_words(text)  # [T, None]
        pieces = self._pieces(words.flat_values)  # [M, None]
        features, row_of, place_in_row = self._rows(words, pieces)
        found = self._infer(
            features, signature.specs(probabilities=[None, len(self._labels)])
        )
        at_words = tf.stack([row_of, place_in_row], 1)
        probabilities = tf.gather_nd(found["probabilities"], at_words)  # [M, C]
        labels = tf.constant(self._labels)
        return {
            "text_index": tf.cast(words.value_rowids(), tf.int32),
            "word": words.flat_values,
            "start": starts.flat_values,
            "end": ends.flat_values,
            "label": tf.gather(labels, tf.argmax(probabilities, -1)),
            "probability": tf.reduce_max(probabilities, -1),
            "labels": labels,
        }

    def _pieces(self, words) -> tf.RaggedTensor:
        pieces = self.tokenizer(words)
        is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
        unknown = tf.RaggedTensor.from_row_lengths(
            tf.repeat(self._unknown, tf.reduce_sum(is_empty)), is_empty, validate=False
        )
        return tf.concat([pieces, unknown], 1)

    def _rows(self, words, pieces):
        """Returns features of texts in rows, and the place of each word's first piece.

        Args:
          words: string ragged [T, None], M in all.
          pieces: int32 ragged [M, None].

        Returns:
          Features of R rows; int64 [M] rows; int64 [M] places within the row.
        """
        room = self._max_seq_length - 2
        of_texts = words.with_flat_values(pieces).merge_dims(1, 2)  # [T, None]
        first_pieces = of_texts.row_starts()  # [T], counted through all texts
        num_rows = tf.maximum(-(-of_texts.row_lengths() // room), 1)  # [T], R in all
        text_of_row = tf.repeat(tf.range(tf.size(num_rows, tf.int64)), num_rows)
        start = tf.ragged.range(num_rows).flat_values * room  # [R], within the text
        length = tf.minimum(
            tf.gather(of_texts.row_lengths(), text_of_row) - start, room
        )
        rows = tf.RaggedTensor.from_row_lengths(
            of_texts.flat_values, length, validate=False
        )  # [R, None], one after another
        no_second = tf.zeros_like(length, tf.bool)
        nothing = tf.RaggedTensor.from_row_lengths(
            tf.zeros([0], tf.int32), tf.zeros_like(length), validate=False
        )
        features = packing.pack(
            rows, nothing, no_second, self._special, self._least_length
        )
        text_of_word = words.value_rowids()
        place = pieces.row_starts() - tf.gather(first_pieces, text_of_word)  # [M]
        first_row = tf.cumsum(num_rows, exclusive=True)
        row_of = tf.gather(first_row, text_of_word) + place // room
        return features, row_of, place % room + 1  # after [CLS]
