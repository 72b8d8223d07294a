"""Signatures that classify or score texts and pairs of texts.

Shapes: T texts in the call, C classes.
"""

import abc

import tensorflow as tf

from albert_tf.serving import packing, signature
from albert_tf.tokenization import graph_tokenizer


class _TextServing(signature.TaskServing):
    def __init__(self, trained: signature.ServableTask):
        super().__init__(trained)
        self.tokenizer = graph_tokenizer.GraphTokenizer(trained.tokenizer)
        self.classify = self._make_classify()

    @property
    def signatures(self) -> dict:
        """The signatures of the SavedModel, by name."""
        return {"classify": self.classify}

    @abc.abstractmethod
    def _classify(self, text, pair):
        """Answers texts; its docstring describes the signature."""

    def _make_classify(self):
        """Returns the signature classify; its default must be a tensor to be saved."""
        no_pair = tf.constant([""])

        @tf.function(
            input_signature=[signature.TEXTS, signature.TEXTS], autograph=False
        )
        def classify(text, pair=no_pair):
            return self._classify(text, tf.broadcast_to(pair, tf.shape(text)))

        classify.python_function.__doc__ = self._classify.__doc__
        return classify

    def features(self, text, pair) -> packing.Features:
        """Returns the model's features, as in fine-tuning.

        Args:
          text: string [T].
          pair: string [T], the second of the pair; "" if there is none.
        """
        first, second = self.tokenizer(text), self.tokenizer(pair)
        has_pair = pair != ""
        room = self._max_seq_length - 2 - tf.cast(has_pair, tf.int64)
        first_length, second_length = packing.pair_lengths(
            first.row_lengths(), second.row_lengths(), room
        )
        return packing.pack(
            packing.cut(first, first_length),
            packing.cut(second, second_length),
            has_pair,
            self._special,
            self._least_length,
        )


class ClassificationServing(_TextServing):
    """Classifies texts or pairs."""

    def __init__(self, trained: signature.ServableTask):
        super().__init__(trained)
        self._labels = trained.labels

    def _classify(self, text, pair):
        """Finds the class of each text.

        Args:
          text: string [T]; truncated as in fine-tuning if too long.
          pair: string [T], the second of the pair; "" if there is none. Default:
            [""], which is for all texts.

        Returns:
          `label` string [T], the likeliest; `probability` float32 [T, C]; `labels`
          string [C].
        """
        found = self._infer(
            self.features(text, pair),
            signature.specs(probabilities=[len(self._labels)]),
        )
        probabilities, labels = found["probabilities"], tf.constant(self._labels)
        return {
            "label": tf.gather(labels, tf.argmax(probabilities, -1)),
            "probability": probabilities,
            "labels": labels,
        }


class RegressionServing(_TextServing):
    """Predicts a number for each text or pair."""

    def _classify(self, text, pair):
        """Predicts the number of each text.

        Args:
          text: string [T]; truncated as in fine-tuning if too long.
          pair: string [T], the second of the pair; "" if there is none. Default:
            [""], which is for all texts.

        Returns:
          `score` float32 [T], in the unit of the training examples.
        """
        found = self._infer(self.features(text, pair), signature.specs(predictions=[]))
        return {"score": found["predictions"]}
