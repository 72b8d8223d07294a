"""Signatures that take strings for a pre-trained model.

Shapes: T texts in the call, S the longest in tokens, H hidden, M masks found or tokens
scored, K candidates per mask, R rows of ids.
"""

from collections.abc import Collection

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.checkpoints import untrained as untrained_lib
from albert_tf.data import schema
from albert_tf.model import pretraining_model, token_scores
from albert_tf.serving import scaled_weights, signature
from albert_tf.tokenization import graph_tokenizer
from albert_tf.tokenization import tokenizer as tokenizer_lib

_TEXTS = tf.TensorSpec([None], tf.string)
_IDS = tf.TensorSpec([None], tf.int32)
_TOP_K = tf.TensorSpec([], tf.int32)
DEFAULT_TOP_K = 5
_ROWS = tf.TensorSpec([None, None], tf.int32)


class PretrainedServing(tf.Module):
    """Tokenizer and model in one graph, which maps texts to answers.

    Texts longer than `max_seq_length` tokens, special tokens included, are truncated at
    the end; of a pair, the longer text first.
    """

    def __init__(
        self,
        model: pretraining_model.PretrainingModel,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_fixed_length: bool = False,
        make_encoder: signature.MakeEncoder = scaled_weights.ScaledEncoder,
        untrained: Collection[str] = (),
    ):
        """Creates the module.

        Args:
          model: with its weights.
          tokenizer: of the run.
          max_seq_length: of a text, in tokens.
          is_fixed_length: whether all texts are padded to that length instead of the
            longest in the call.
          make_encoder: gives what computes the encoder's outputs.
          untrained: as in `untrained.of_run`; what needs these heads is no signature.
        """
        super().__init__(name="pretrained_serving")
        encoder = make_encoder(model.encoder)
        table = model.encoder.embeddings.word_embeddings
        # The model is not an attribute: Keras would save a function for each layer.
        self._weights = encoder.variables_to_save(model.variables)
        self._encode = lambda inputs: encoder(**inputs)
        self._pool = lambda inputs: encoder.pooled_output(**inputs)
        self._encode_at = lambda *inputs: encoder.encode_at(*inputs)
        self._score = lambda *inputs: model.masked_lm(*inputs, table).logits
        self._score_gathered = lambda h: model.masked_lm.scores_of(h, table).logits
        self._order = lambda pooled: model.sentence_order(pooled)
        self.tokenizer = graph_tokenizer.GraphTokenizer(tokenizer)
        # An array: of a list, saving would visit every piece.
        self._pieces = np.array(tokenizer.pieces(range(tokenizer.vocab_size)), object)
        self._cls_id, self._sep_id = tokenizer.cls_id, tokenizer.sep_id
        self._pad_id, self._mask_id = tokenizer.pad_id, tokenizer.mask_id
        self._max_seq_length = max_seq_length
        self._untrained = frozenset(untrained)
        self._shape = [None, max_seq_length if is_fixed_length else None]
        self.fill_mask = self._make_fill_mask()

    @property
    def signatures(self) -> dict:
        """The signatures of the SavedModel, by name."""
        found = {
            "encode": self.encode,
            "fill_mask": self.fill_mask,
            "sentence_order": self.sentence_order,
            "score_tokens": self.score_tokens,
        }
        without: set[str] = set()
        if untrained_lib.MASKED_LM in self._untrained:
            without |= {"fill_mask", "score_tokens"}
        # Sentence order is read off the pooled output.
        if self._untrained & {untrained_lib.SENTENCE_ORDER, untrained_lib.POOLER}:
            without.add("sentence_order")
        return {name: found[name] for name in found if name not in without}

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def encode(self, text):
        """Encodes texts.

        Args:
          text: string [T].

        Returns:
          `pooled_output` float32 [T, H]; `sequence_output` float32 [T, S, H];
          `input_ids` and `input_mask` int32 [T, S].
        """
        inputs = self._pack([self.tokenizer.encode_with_masks(text)])
        outputs = self._encode(inputs)
        return {
            "pooled_output": outputs.pooled_output,
            "sequence_output": outputs.sequence_output,
            "input_ids": inputs["input_ids"],
            "input_mask": inputs["input_mask"],
        }

    def _make_fill_mask(self):
        """Returns the signature fill_mask; its default must be a tensor to be saved."""
        default = tf.constant(DEFAULT_TOP_K)

        @tf.function(input_signature=[_TEXTS, _TOP_K], autograph=False)
        def fill_mask(text, top_k=default):
            return self._fill_mask(text, top_k)

        fill_mask.python_function.__doc__ = self._fill_mask.__doc__
        return fill_mask

    def _fill_mask(self, text, top_k):
        """Finds the most probable pieces for each [MASK] in texts.

        Args:
          text: string [T], each with any number of "[MASK]".
          top_k: int32 scalar, K; at most the size of the vocabulary. Default: 5.

        Returns:
          `text_index` int32 [M], the text of each mask; `position` int32 [M], its
          place among the tokens; `token` string [M, K], best first, where "▁" marks
          the beginning of a word; `token_id` int32 [M, K]; `probability` float32
          [M, K].
        """
        inputs = self._pack([self.tokenizer.encode_with_masks(text)])
        hidden = self._encode(inputs).sequence_output
        places = tf.where(inputs["input_ids"] == self._mask_id)  # [M, 2]
        at_masks = tf.gather_nd(hidden, places)[None]  # [1, M, H]
        positions = tf.range(tf.shape(places)[0])[None]  # [1, M]
        logits = self._score(at_masks, positions)[0]  # [M, V]
        top_k = tf.minimum(top_k, len(self._pieces))
        best = tf.math.top_k(tf.nn.softmax(logits), top_k)  # [M, K]
        return {
            "text_index": tf.cast(places[:, 0], tf.int32),
            "position": tf.cast(places[:, 1], tf.int32),
            "token": tf.gather(tf.constant(self._pieces), best.indices),
            "token_id": best.indices,
            "probability": best.values,
        }

    @tf.function(input_signature=[_TEXTS, _TEXTS], autograph=False)
    def sentence_order(self, first, second):
        """Computes how probably each `second` follows its `first`, not the reverse.

        Args:
          first: string [T].
          second: string [T].

        Returns:
          `probability` float32 [T], that the two are in order.
        """
        inputs = self._pack([self.tokenizer(first), self.tokenizer(second)])
        probabilities = tf.nn.softmax(self._order(self._pool(inputs)))
        return {"probability": probabilities[:, schema.IN_ORDER]}

    @tf.function(input_signature=[_ROWS, _ROWS, _IDS, _IDS, _IDS], autograph=False)
    def score_tokens(self, input_ids, input_mask, positions, target_rows, target_ids):
        """Computes log-probabilities of tokens, each at the scored position of its row.

        Unlike the other signatures it takes ids: the caller tokenizes and masks.

        Args:
          input_ids: int32 [R, S], with special tokens.
          input_mask: int32 [R, S], 1 at tokens, 0 at padding.
          positions: int32 [R].
          target_rows: int32 [M], the row of each scored token.
          target_ids: int32 [M], the token.

        Returns:
          `log_probability` float32 [M], natural logarithms.
        """
        found = token_scores.log_probabilities(
            self._encode_at,
            self._score_gathered,
            input_ids,
            input_mask,
            positions,
            target_rows,
            target_ids,
        )
        return {"log_probability": found}

    def _pack(self, segments) -> dict[str, tf.Tensor]:
        """Packs ragged int32 [T, None] segments into features int32 [T, S]."""
        room = self._max_seq_length - 1 - len(segments)
        segments = tf_text.RoundRobinTrimmer(room).trim(segments)
        ids, segment_ids = tf_text.combine_segments(
            segments, self._cls_id, self._sep_id
        )
        return {
            "input_ids": ids.to_tensor(self._pad_id, shape=self._shape),
            "input_mask": tf.ones_like(ids).to_tensor(0, shape=self._shape),
            "segment_ids": segment_ids.to_tensor(0, shape=self._shape),
        }
