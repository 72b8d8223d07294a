"""Heads for fine-tuning: classes, numbers, tokens, spans and choices.

A head reads one output of the encoder for a batch: the pooled output, float32 [B, H],
or that of the sequence, [B, S, H]. It also reads features of the batch if it needs
them. All but one compute the same in training and inference: `AnswerableSpanHead`
scores ends given the true start in training, and `infer` searches for starts.

Shapes: B batch, S sequence, H hidden, C classes or choices, K starts and M ends of a
search. Heads compute in float32.
"""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.model import layers, stateless_random

Features = dict[str, tf.Tensor]

# Score of positions that `p_mask` excludes, as in the original.
EXCLUDED_SCORE = -1e30
# Of the layer norm in the span head, as in the original, whatever the encoder's is.
SPAN_LAYER_NORM_EPSILON = 1e-12


class ClassOutputs(NamedTuple):
    """Scores of the classes of a text or its tokens, or of choices.

    logits: float32 [..., C].
    probabilities: float32 [..., C], their softmax.
    """

    logits: tf.Tensor
    probabilities: tf.Tensor


class RegressionOutputs(NamedTuple):
    """One number per text.

    predictions: float32 [B], in the unit of the targets.
    """

    predictions: tf.Tensor


class SpanOutputs(NamedTuple):
    """Scores of each position as start and as end of the answer.

    start_logits: float32 [B, S].
    end_logits: float32 [B, S].
    """

    start_logits: tf.Tensor
    end_logits: tf.Tensor


class AnswerableSpanOutputs(NamedTuple):
    """Outputs of `AnswerableSpanHead` in training.

    start_log_probs: float32 [B, S], nats.
    end_log_probs: float32 [B, S], nats, given the true start.
    impossible_logits: float32 [B], above 0 if no answer is likelier.
    """

    start_log_probs: tf.Tensor
    end_log_probs: tf.Tensor
    impossible_logits: tf.Tensor


class AnswerableSpanBeams(NamedTuple):
    """Outputs of `AnswerableSpanHead` in inference, best first.

    Flattened in row-major order, `end_*` are the original's [B, K * M].

    start_log_probs: float32 [B, K], nats.
    start_positions: int32 [B, K].
    end_log_probs: float32 [B, K, M], nats, given the start of the same row K.
    end_positions: int32 [B, K, M].
    impossible_logits: float32 [B], above 0 if no answer is likelier.
    """

    start_log_probs: tf.Tensor
    start_positions: tf.Tensor
    end_log_probs: tf.Tensor
    end_positions: tf.Tensor
    impossible_logits: tf.Tensor


class TaskHead(layers.Layer):
    """Base of the heads of `TaskModel`."""

    # Rank of `input_ids`: [B, S], or [B, C, S] if each choice is a text.
    input_rank = 2
    # Whether it reads the pooled output of the encoder, or else that of the sequence.
    reads_pooled_output = True

    def call(self, hidden, features: Features, dropout_seed=None):
        """Computes the outputs that the loss needs.

        Args:
          hidden: float32 [B, H] or [B, S, H], the output of the encoder that it reads.
          features: the batch; each head documents the features that it reads.
          dropout_seed: int32 [2] or None.
        """
        raise NotImplementedError

    def infer(self, hidden, features: Features):
        """Computes the outputs from which answers are read, without labels."""
        return self(hidden, features)


class _DenseHead(TaskHead):
    """Dropout and one dense layer."""

    def __init__(
        self,
        units: int,
        dropout_rate: float,
        initializer: stateless_random.TruncatedNormal,
        name: str,
    ):
        super().__init__(name)
        self.dropout_rate = _dropout_rate(dropout_rate)
        self.output_projection = layers.Dense(
            units, initializer.child("output"), name="output"
        )

    def _project(self, hidden, dropout_seed):
        dropped = stateless_random.dropout(hidden, self.dropout_rate, dropout_seed)
        return self.output_projection(dropped)


class _ClassHead(_DenseHead):
    """Classes from the output of the encoder."""

    default_name = ""

    def __init__(
        self,
        num_classes: int,
        dropout_rate: float,
        initializer: stateless_random.TruncatedNormal,
    ):
        super().__init__(
            _num_classes(num_classes), dropout_rate, initializer, self.default_name
        )

    def call(self, hidden, features, dropout_seed=None) -> ClassOutputs:
        """Computes scores of the classes."""
        return _class_outputs(self._project(hidden, dropout_seed))


class ClassifierHead(_ClassHead):
    """Classes of a text or of a pair of texts (ALBERT paper, section 4.1: GLUE).

    Logits [B, C]. Raises ValueError if `num_classes` is below 2 or `dropout_rate`
    outside [0, 1).
    """

    default_name = "classifier"


class TokenClassifierHead(_ClassHead):
    """Classes of every token (Devlin et al., 2019, section 5.3).

    Logits [B, S, C]. Raises ValueError if `num_classes` is below 2 or `dropout_rate`
    outside [0, 1).
    """

    default_name = "token_classifier"
    reads_pooled_output = False


class RegressionHead(_DenseHead):
    """A number for a text or a pair of texts (ALBERT paper, section 4.1: STS-B).

    Raises ValueError if `dropout_rate` is outside [0, 1).
    """

    def __init__(
        self,
        dropout_rate: float,
        initializer: stateless_random.TruncatedNormal,
        name: str = "regression",
    ):
        super().__init__(1, dropout_rate, initializer, name)

    def call(self, hidden, features, dropout_seed=None) -> RegressionOutputs:
        """Predicts the numbers."""
        predictions = self._project(hidden, dropout_seed)  # [B, 1]
        return RegressionOutputs(tf.squeeze(predictions, -1))


class MultipleChoiceHead(_DenseHead):
    """One of several texts, each scored by itself (ALBERT paper, section 4.1: RACE).

    Raises ValueError if `dropout_rate` is outside [0, 1).
    """

    input_rank = 3

    def __init__(
        self,
        dropout_rate: float,
        initializer: stateless_random.TruncatedNormal,
        name: str = "multiple_choice",
    ):
        super().__init__(1, dropout_rate, initializer, name)

    def call(self, hidden, features, dropout_seed=None) -> ClassOutputs:
        """Computes scores of the choices.

        Args:
          hidden: float32 [B * C, H], of all texts.
          features: `input_ids` int32 [B, C, S], which gives C.
          dropout_seed: int32 [2] or None.

        Returns:
          float32 [B, C].
        """
        logits = self._project(hidden, dropout_seed)  # [B * C, 1]
        choices = tf.shape(features["input_ids"])[:2]
        return _class_outputs(tf.reshape(logits, choices))


class SpanHead(TaskHead):
    """Start and end of an existing answer (ALBERT paper, section 4.1: SQuAD 1.1).

    As in the original, no position is excluded here; the reader of the scores does it.
    """

    reads_pooled_output = False

    def __init__(
        self, initializer: stateless_random.TruncatedNormal, name: str = "span"
    ):
        super().__init__(name)
        self.output_projection = layers.Dense(
            2, initializer.child("output"), name="output"
        )

    def call(self, hidden, features, dropout_seed=None) -> SpanOutputs:
        """Computes scores of positions, without dropout."""
        logits = self.output_projection(hidden)  # [B, S, 2]
        return SpanOutputs(*tf.unstack(logits, axis=-1))


class AnswerableSpanHead(TaskHead):
    """Start, end given the start, and whether there is an answer.

    The head of XLNet (Yang et al., 2019), which ALBERT uses for SQuAD 2.0 (ALBERT
    paper, section 4.1). Both modes read the feature `p_mask`, int32 or float32
    [B, S], 1 at positions where no answer may start or end. In training the span of a
    question without an answer is [CLS], which `p_mask` must then not exclude.

    Raises ValueError if `num_starts` or `num_ends` is below 1 or `dropout_rate`
    outside [0, 1).
    """

    reads_pooled_output = False

    def __init__(
        self,
        num_starts: int,
        num_ends: int,
        dropout_rate: float,
        initializer: stateless_random.TruncatedNormal,
        name: str = "answerable_span",
    ):
        super().__init__(name)
        self.num_starts = _at_least("num_starts", num_starts, 1, "5 is the original's")
        self.num_ends = _at_least("num_ends", num_ends, 1, "5 is the original's")
        self.dropout_rate = _dropout_rate(dropout_rate)
        self.start_output = layers.Dense(
            1, initializer.child("start_output"), name="start_output"
        )
        self.end_transform = _PairDense(
            initializer.child("end_transform"), name="end_transform"
        )
        self.end_layer_norm = layers.LayerNorm(
            SPAN_LAYER_NORM_EPSILON, name="end_layer_norm"
        )
        self.end_output = layers.Dense(
            1, initializer.child("end_output"), name="end_output"
        )
        self.answer_transform = _PairDense(
            initializer.child("answer_transform"), name="answer_transform"
        )
        self.answer_output = _Score(
            initializer.child("answer_output"), name="answer_output"
        )

    def call(self, hidden, features, dropout_seed=None) -> AnswerableSpanOutputs:
        """Computes scores of starts, and of ends given the true start.

        Args:
          hidden: float32 [B, S, H].
          features: `p_mask` [B, S] and `start_positions` int32 [B].
          dropout_seed: int32 [2] or None.
        """
        p_mask = tf.convert_to_tensor(features["p_mask"])
        start_log_probs = self._start_log_probs(hidden, p_mask)
        starts = tf.cast(features["start_positions"], tf.int32)[:, None]  # [B, 1]
        end_log_probs = self._end_log_probs(hidden, starts, p_mask)  # [B, 1, S]
        return AnswerableSpanOutputs(
            start_log_probs,
            tf.squeeze(end_log_probs, 1),
            self._impossible_logits(hidden, start_log_probs, dropout_seed),
        )

    def infer(self, hidden, features) -> AnswerableSpanBeams:
        """Finds the best starts, and the best ends given each.

        If there are fewer permitted positions than requested, the rest of a beam has
        the log probability `EXCLUDED_SCORE`.

        Args:
          hidden: float32 [B, S, H].
          features: `p_mask` [B, S].

        Raises:
          ValueError: S is below `num_starts` or `num_ends`.
        """
        p_mask = tf.convert_to_tensor(features["p_mask"])
        length, widest = hidden.shape[1], max(self.num_starts, self.num_ends)
        if length is not None and length < widest:
            raise ValueError(
                "num_starts and num_ends must not be larger than the length of the "
                f"sequence; received {self.num_starts} and {self.num_ends} for length "
                f"{length}. Reduce them, or pad the texts"
            )
        start_log_probs = self._start_log_probs(hidden, p_mask)
        top_starts, starts = tf.math.top_k(start_log_probs, self.num_starts)
        end_log_probs = self._end_log_probs(hidden, starts, p_mask)  # [B, K, S]
        top_ends, ends = tf.math.top_k(end_log_probs, self.num_ends)  # [B, K, M]
        impossible_logits = self._impossible_logits(hidden, start_log_probs, None)
        return AnswerableSpanBeams(
            top_starts, starts, top_ends, ends, impossible_logits
        )

    def _start_log_probs(self, hidden, p_mask):
        logits = tf.squeeze(self.start_output(hidden), -1)  # [B, S]
        return _masked_log_softmax(logits, p_mask)

    def _end_log_probs(self, hidden, starts, p_mask):
        """Float32 [B, K, S] for `hidden` [B, S, H] and `starts` int32 [B, K]."""
        states = tf.gather(hidden, starts, batch_dims=1)  # [B, K, H]
        # [B, 1, S, H] and [B, K, 1, H] to [B, K, S, H]
        pairs = self.end_transform((hidden[:, None], states[:, :, None]))
        logits = self.end_output(self.end_layer_norm(pairs))  # [B, K, S, 1]
        return _masked_log_softmax(tf.squeeze(logits, -1), p_mask[:, None])

    def _impossible_logits(self, hidden, start_log_probs, dropout_seed):
        """Float32 [B], from [CLS] and the mean state over likely starts."""
        start_probs = tf.exp(start_log_probs)  # [B, S]
        summary = tf.einsum("bs,bsh->bh", start_probs, hidden)
        answer = self.answer_transform((summary, hidden[:, 0]))  # [B, H]
        answer = stateless_random.dropout(answer, self.dropout_rate, dropout_seed)
        return self.answer_output(answer)


class _PairDense(layers.Layer):
    """Tanh of a dense layer on two concatenated states, without concatenating them.

    The kernel's upper half is for the first state and its lower half for the second.
    Each half is applied before the sum broadcasts, so that S positions and K starts
    cost S + K products instead of S * K.
    """

    def __init__(self, initializer: stateless_random.TruncatedNormal, name: str):
        super().__init__(name)
        self.initializer = initializer

    def build(self, input_shape):
        """Creates `kernel` [2 * H, H] and `bias` [H]."""
        size = input_shape[0][-1]
        self.kernel = self.add_weight(
            name="kernel",
            shape=[2 * size, size],
            initializer=self.initializer.child("kernel"),
        )
        self.bias = self.add_weight(name="bias", shape=[size], initializer="zeros")
        super().build(input_shape)

    def call(self, pair):
        """Maps two float32 [..., H] that broadcast to one float32 [..., H]."""
        upper, lower = tf.split(self.kernel, 2)
        first, second = pair
        joined = tf.tensordot(first, upper, 1) + tf.tensordot(second, lower, 1)
        return tf.tanh(joined + self.bias)


class _Score(layers.Layer):
    """`inputs @ kernel` with one output and no bias, as in the original."""

    def __init__(self, initializer: stateless_random.TruncatedNormal, name: str):
        super().__init__(name)
        self.initializer = initializer

    def build(self, input_shape):
        """Creates `kernel` [H, 1]."""
        self.kernel = self.add_weight(
            name="kernel",
            shape=[input_shape[-1], 1],
            initializer=self.initializer.child("kernel"),
        )
        super().build(input_shape)

    def call(self, inputs):
        """Maps float32 [B, H] to float32 [B]."""
        return tf.squeeze(tf.matmul(inputs, self.kernel), -1)


def _class_outputs(logits) -> ClassOutputs:
    return ClassOutputs(logits, tf.nn.softmax(logits))


def _masked_log_softmax(logits, p_mask):
    masked = tf.where(p_mask > 0, EXCLUDED_SCORE, logits)
    return tf.nn.log_softmax(masked)


def _num_classes(received: int) -> int:
    advice = "for one number per text use RegressionHead"
    return _at_least("num_classes", received, 2, advice)


def _at_least(name: str, received: int, least: int, advice: str) -> int:
    if received < least:
        raise ValueError(
            f"{name} must be at least {least}; received {received!r} ({advice})"
        )
    return received


def _dropout_rate(received: float) -> float:
    if not 0.0 <= received < 1.0:
        raise ValueError(
            f"dropout_rate must lie in [0, 1); received {received!r}. It is the "
            "fraction of values that are dropped: 0.1 in the original"
        )
    return received
