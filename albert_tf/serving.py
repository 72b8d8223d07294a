"""The pre-trained model behind signatures that take strings.

Shapes: T texts in the call, S their longest in tokens, H hidden, M masks found, K
candidates a mask.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf import graph_tokenization, models, schema, tokenization

_TEXTS = tf.TensorSpec([None], tf.string)


class PretrainedServing(tf.Module):
    """Tokenizer and model in one graph: text in, answers out.

    Texts longer than `max_seq_length` tokens, special tokens included, are cut off at
    the end; of a pair, the longer text is cut first.
    """

    def __init__(
        self,
        model: models.PretrainingModel,
        tokenizer: tokenization.Tokenizer,
        max_seq_length: int,
        is_fixed_length: bool = False,
    ):
        """Puts them together.

        Args:
          model: with its weights.
          tokenizer: of the run.
          max_seq_length: of a text, in tokens.
          is_fixed_length: whether all texts are padded to that length, and not to the
            longest in the call.
        """
        super().__init__(name="pretrained_serving")
        encoder, cast = model.encoder, model.encoder.cast_blocks()
        table = encoder.embeddings.word_embeddings
        # The model is no attribute: Keras would then save a function for each layer.
        self._weights = cast.weights_to_save(model.variables)
        self._encode = lambda inputs: encoder(**inputs, cast=cast.copy())
        self._score = lambda *inputs: model.masked_lm(*inputs, table).logits
        self._order = lambda pooled: model.sentence_order(pooled)
        self.tokenizer = graph_tokenization.GraphTokenizer(tokenizer)
        self._pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        self._cls_id, self._sep_id = tokenizer.cls_id, tokenizer.sep_id
        self._pad_id, self._mask_id = tokenizer.pad_id, tokenizer.mask_id
        self._max_seq_length = max_seq_length
        self._shape = [None, max_seq_length if is_fixed_length else None]

    @property
    def signatures(self) -> dict:
        """The signatures of the SavedModel, by name."""
        return {
            "encode": self.encode,
            "fill_mask": self.fill_mask,
            "sentence_order": self.sentence_order,
        }

    @tf.function(input_signature=[_TEXTS])
    def encode(self, text):
        """Embeddings of texts.

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

    @tf.function(input_signature=[_TEXTS, tf.TensorSpec([], tf.int32)])
    def fill_mask(self, text, top_k):
        """The likeliest pieces for each [MASK] in texts.

        Args:
          text: string [T], each with any number of "[MASK]".
          top_k: int32 scalar, K; beyond the vocabulary there is no more than that.

        Returns:
          `text_index` int32 [M], the text that a mask stands in; `position` int32
          [M], its place among the tokens; `token` string [M, K], best first, where
          "▁" marks the begin of a word; `token_id` int32 [M, K]; `probability`
          float32 [M, K].
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

    @tf.function(input_signature=[_TEXTS, _TEXTS])
    def sentence_order(self, first, second):
        """How likely each `second` follows its `first`, and not the reverse.

        Args:
          first: string [T].
          second: string [T].

        Returns:
          `probability` float32 [T], that the two stand in order.
        """
        inputs = self._pack([self.tokenizer(first), self.tokenizer(second)])
        probabilities = tf.nn.softmax(self._order(self._encode(inputs).pooled_output))
        return {"probability": probabilities[:, schema.IN_ORDER]}

    def _pack(self, segments) -> dict[str, tf.Tensor]:
        """[CLS] and [SEP] around ragged int32 [T, None] segments; int32 [T, S] each."""
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
