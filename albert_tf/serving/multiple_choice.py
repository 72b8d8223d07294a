"""Signature that chooses one of several options.

Shapes: T questions in the call, C options.
"""

import tensorflow as tf

from albert_tf.core import task_config
from albert_tf.serving import packing, signature
from albert_tf.tokenization import graph_tokenizer

BLANK = "_"


class MultipleChoiceServing(signature.TaskServing):
    """Chooses among options of questions on a text, as in RACE."""

    def __init__(self, trained: signature.ServableTask):
        super().__init__(trained)
        self.tokenizer = graph_tokenizer.GraphTokenizer(trained.tokenizer)
        self._max_option_length = option_length(trained.settings)

    @property
    def signatures(self) -> dict:
        """The signatures of the SavedModel, by name."""
        return {"choose": self.choose}

    def features(self, context, question, options) -> packing.Features:
        """Returns the model's features [T * C, S], as in fine-tuning."""
        num_options = tf.shape(options)[1]
        asked = _fill(
            tf.repeat(self._normalized(question), num_options),
            self._normalized(tf.reshape(options, [-1])),
        )  # [T * C]
        second = packing.cut_front(self.tokenizer(asked), self._max_option_length)
        first = self.tokenizer(context)
        rows = tf.repeat(tf.range(first.nrows()), tf.cast(num_options, tf.int64))
        # Cut before repeating it: the context may be long.
        first = tf.gather(packing.cut(first, _all(first, self._max_seq_length)), rows)
        room = self._max_seq_length - 3 - second.row_lengths()
        return packing.pack(
            packing.cut(first, room),
            second,
            tf.ones_like(room, tf.bool),
            self._special,
            self._least_length,
        )

    def _normalized(self, texts) -> tf.Tensor:
        # As in the original: before an option fills a blank, which may be full-width.
        return self.tokenizer.normalize(graph_tokenizer.valid_utf8(texts))

    @tf.function(
        input_signature=[
            signature.TEXTS,
            signature.TEXTS,
            tf.TensorSpec([None, None], tf.string),
        ],
        autograph=False,
    )
    def choose(self, context, question, options):
        """Chooses the best option of each question.

        Args:
          context: string [T]; truncated at the end if too long.
          question: string [T]; each "_" in it is replaced by the option; without one
            the option is appended.
          options: string [T, C].

        Returns:
          `choice` int32 [T], counted from 0; `probability` float32 [T, C].
        """
        shape = tf.shape(options)
        features = self.features(context, question, options)  # [T * C, S]
        features = {
            name: tf.reshape(rows, [shape[0], shape[1], tf.shape(rows)[1]])
            for name, rows in features.items()
        }
        found = self._infer(features, signature.specs(probabilities=[None]))
        probabilities = found["probabilities"]
        return {
            "choice": tf.argmax(probabilities, -1, tf.int32),
            "probability": probabilities,
        }


def option_length(settings: task_config.TaskConfig) -> int:
    """Returns the maximum of tokens of question and option, without special ones."""
    return min(settings.max_option_length, settings.max_seq_length - 3)


def _all(rows: tf.RaggedTensor, length: int) -> tf.Tensor:
    return tf.fill([rows.nrows()], tf.constant(length, tf.int64))


def _fill(question, option) -> tf.Tensor:
    """Puts options string [N] into questions string [N]; returns string [N]."""
    parts = tf.strings.split(question, BLANK)  # [N, None], at least one each
    number = tf.ragged.range(parts.row_lengths()).flat_values
    filler = tf.gather(option, parts.value_rowids())
    filled = tf.where(number > 0, filler + parts.flat_values, parts.flat_values)
    filled = tf.strings.reduce_join(parts.with_flat_values(filled), 1)
    has_blank = parts.row_lengths() > 1
    return tf.where(has_blank, filled, question + " " + option)
