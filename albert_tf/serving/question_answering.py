"""Signatures that answer a question with a span of a context.

Shapes: T questions in the call, R windows, S positions, K starts, M ends.
"""

import tensorflow as tf

from albert_tf.serving import signature, span_search, windows
from albert_tf.tokenization import graph_offsets, graph_tokenizer


class _SpanServing(signature.TaskServing):
    def __init__(self, trained: signature.ServableTask):
        super().__init__(trained)
        windows.check(trained.settings)
        self.tokenizer = graph_offsets.AligningTokenizer(trained.tokenizer)
        self._settings = trained.settings
        # The head needs at least that many positions.
        searched = trained.settings.num_starts, trained.settings.num_ends
        self._least_length = max(*searched, self._least_length)

    @property
    def signatures(self) -> dict:
        """The signatures of the SavedModel, by name."""
        return {"answer": self.answer}

    def windows(self, question, context):
        """Returns rows of all windows, and the contexts' tokens with offsets."""
        aligned = self.tokenizer.encode_with_offsets(context)
        cut = windows.cut_windows(
            self.tokenizer(question),
            aligned.ids,
            self._settings,
            self._special,
            self._least_length,
        )
        return cut, aligned

    def _best(self, candidates, cut, aligned, context) -> span_search.SpanAnswers:
        return span_search.best_answers(
            candidates,
            cut,
            graph_tokenizer.valid_utf8(context),
            aligned.starts.flat_values,
            aligned.ends.flat_values,
            self._settings,
        )


class SpanServing(_SpanServing):
    """Answers questions that always have an answer (SQuAD 1.1)."""

    @tf.function(input_signature=[signature.TEXTS, signature.TEXTS], autograph=False)
    def answer(self, question, context):
        """Finds the best span of each context.

        Args:
          question: string [T]; truncated at the end if too long.
          context: string [T], of any length.

        Returns:
          `answer` string [T]; `start` and `end` int32 [T], code points of the context,
          such that context[start:end] is the answer, -1 if the context is empty;
          `probability` float32 [T], of the answer among the best candidates.
        """
        cut, aligned = self.windows(question, context)
        outputs = signature.specs(start_logits=[None], end_logits=[None])
        found = self._infer(cut.features, outputs)
        candidates = span_search.from_logits(
            found["start_logits"], found["end_logits"], cut, self._settings.n_best_size
        )
        return self._best(candidates, cut, aligned, context)._asdict()


class AnswerableSpanServing(_SpanServing):
    """Answers questions that may have no answer (SQuAD 2.0)."""

    def __init__(self, trained: signature.ServableTask):
        super().__init__(trained)
        self._threshold = trained.null_odds_threshold

    @tf.function(input_signature=[signature.TEXTS, signature.TEXTS], autograph=False)
    def answer(self, question, context):
        """Finds the best span of each context, or none.

        Args:
          question: string [T]; truncated at the end if too long.
          context: string [T], of any length.

        Returns:
          `answer` string [T], empty if `null_odds` is above the threshold of the run;
          `start` and `end` int32 [T], code points of the context, such that
          context[start:end] is the answer, -1 without one; `probability` float32 [T],
          of the best span among the best candidates, even if it is not returned;
          `null_odds` float32 [T], nats: how much likelier no answer is, the minimum
          over windows; `null_odds_threshold` float32 scalar.
        """
        cut, aligned = self.windows(question, context)
        settings = self._settings
        shape = [settings.num_starts, settings.num_ends]
        outputs = signature.specs(
            start_log_probs=shape[:1], end_log_probs=shape, impossible_logits=[]
        )
        outputs |= {
            "start_positions": tf.TensorSpec([None, *shape[:1]], tf.int32),
            "end_positions": tf.TensorSpec([None, *shape], tf.int32),
        }
        found = self._infer(cut.features, outputs)
        null_odds = tf.math.segment_min(found.pop("impossible_logits"), cut.text_index)
        best = self._best(span_search.from_beams(**found), cut, aligned, context)
        is_given = null_odds <= self._threshold
        return {
            "answer": tf.where(is_given, best.answer, ""),
            "start": tf.where(is_given, best.start, -1),
            "end": tf.where(is_given, best.end, -1),
            "probability": best.probability,
            "null_odds": null_odds,
            "null_odds_threshold": tf.constant(self._threshold),
        }
