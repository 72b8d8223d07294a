"""Records as text with marks, and the counts of a sample."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from albert_tf.core import config as config_lib
from albert_tf.core import prng
from albert_tf.data import masking, schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.inspection import cues
from data_prep.records import reader

_META = tokenizer_lib.META_SYMBOL
MASKED, KEPT, RANDOM = range(len(schema.REPLACEMENTS))


class Example(NamedTuple):
    """One sequence, masked.

    Attributes:
      number: its index in the split, from 0.
      place: where it is.
      tokens: int32 [num_tokens], before masking.
      input_ids: int32 [num_tokens], with masks.
      is_word_start: bool [num_tokens]; False at [CLS] and [SEP].
      positions: int32 [num_masked], ascending.
      segment_a_length: tokens from [CLS] to the first [SEP], both included.
      label: see `schema.PAIR_LABELS`.
    """

    number: int
    place: reader.Place
    tokens: np.ndarray
    input_ids: np.ndarray
    is_word_start: np.ndarray
    positions: np.ndarray
    segment_a_length: int
    label: int


class Part(NamedTuple):
    """A token in a text.

    Attributes:
      original: the token before masking.
      shown: the token after masking.
      kind: one of `schema.REPLACEMENTS`, or empty if it was not masked.
      has_space: whether it follows a space.
    """

    original: str
    shown: str
    kind: str
    has_space: bool


def data_settings(manifest: schema.Manifest) -> config_lib.DataConfig:
    """Returns the settings of records; those that older ones lack are the defaults."""
    return config_lib.DataConfig(**manifest.data)


class Masker:
    """Masks records that were written without masks, as the trainer may mask them.

    Attributes:
      law: see `masking.MaskingParams`.
      drawn: int64 [N], how often each n-gram length was drawn.
      placed: int64 [N], how often each was masked.
      kinds: int64 [3], the replacements of each of `schema.REPLACEMENTS`.
    """

    def __init__(self, manifest: schema.Manifest, seed: int):
        data = data_settings(manifest)
        is_reserved = np.isin(np.arange(manifest.vocab_size), manifest.reserved_ids)
        self.law = masking.make_params(
            data.max_ngram,
            data.ngram_distribution,
            data.masked_lm_rate,
            manifest.num_predictions,
            manifest.seq_length,
            manifest.mask_id,
            np.flatnonzero(~is_reserved),
            data.mask_token_rate,
            data.random_token_rate,
        )
        self.drawn, self.placed = np.zeros((2, data.max_ngram), np.int64)
        self.kinds = np.zeros(len(schema.REPLACEMENTS), np.int64)
        self._whole_words = data.whole_words
        self._seed = seed
        self._positions, self._labels = np.empty(
            (2, manifest.num_predictions), np.int32
        )

    def mask(
        self, tokens: np.ndarray, is_word_start: np.ndarray, segment: int, number: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns a record after masking, and the masked positions.

        Args:
          tokens: int32 [num_tokens].
          is_word_start: bool [num_tokens].
          segment: segment_a_length.
          number: of the record; decides the masks, together with the seed.

        Returns:
          int32 [num_tokens] and int32 [num_masked].
        """
        input_ids = tokens.copy()
        num_masked = masking.mask_sequence(
            input_ids,
            is_word_start | (not self._whole_words),
            segment,
            self.law,
            prng.seed_state(np.array([self._seed, number], np.uint64)),
            self._positions,
            self._labels,
            self.drawn,
            self.placed,
            self.kinds,
        )
        return input_ids, self._positions[:num_masked].copy()


def iter_examples(
    data_dir: str,
    manifest: schema.Manifest,
    split: str,
    tokenizer: tokenizer_lib.Tokenizer,
    masker: Masker,
) -> Iterator[Example]:
    """The sequences of a split in the order of its shards.

    Args:
      data_dir: local or gs://.
      manifest: of the directory.
      split: one of its splits.
      tokenizer: of the directory's vocabulary.
      masker: masks records that were written without masks.
    """
    every_token = not manifest.data["whole_words"]
    records = reader.iter_records(data_dir, manifest, split)
    for number, (place, values) in enumerate(records):
        tokens = reader.unmask(values)
        segment = values["segment_a_length"]
        input_ids = values["input_ids"]
        if "is_word_start" in values:
            is_word_start = values["is_word_start"]
            input_ids, positions = masker.mask(tokens, is_word_start, segment, number)
        else:
            positions = values["masked_lm_positions"]
            is_word_start = tokenizer.is_word_start[tokens] | every_token
        is_word_start = is_word_start.copy()
        # A sentence may have been cut within a word to fit.
        is_word_start[[1, min(segment, len(tokens) - 1)]] = True
        is_word_start[[0, segment - 1, -1]] = False
        yield Example(
            number,
            place,
            tokens,
            input_ids,
            is_word_start,
            positions,
            segment,
            values["next_sentence_labels"],
        )


def replacement_kinds(example: Example, mask_id: int) -> np.ndarray:
    """Returns the kind of replacement at each masked position; int64 [num_masked].

    A random token that equals the original counts as kept.

    Args:
      example: a record.
      mask_id: the id of [MASK].
    """
    shown = example.input_ids[example.positions]
    is_same = shown == example.tokens[example.positions]
    return np.where(shown == mask_id, MASKED, np.where(is_same, KEPT, RANDOM))


def parts(example: Example, tokenizer: tokenizer_lib.Tokenizer) -> list[list[Part]]:
    """Returns the tokens of segment A and of segment B, if there is one, as text."""
    kinds = [""] * len(example.tokens)
    for position, kind in zip(
        example.positions, replacement_kinds(example, tokenizer.mask_id), strict=True
    ):
        kinds[position] = schema.REPLACEMENTS[kind]
    originals = tokenizer.pieces(example.tokens.tolist())
    shown = tokenizer.pieces(example.input_ids.tolist())
    row = [
        Part(_text(original, kind), _text(now, kind), kind, original[:1] == _META)
        for original, now, kind in zip(originals, shown, kinds, strict=True)
    ]
    end = example.segment_a_length - 1
    return [segment for segment in (row[1:end], row[end + 1 : -1]) if segment]


def _text(piece: str, kind: str) -> str:
    """Returns a piece as text; a space alone is shown only if it is masked."""
    text = piece.removeprefix(_META)
    return piece if kind and not text else text


class Sample:
    """Counts of a sample of the records.

    Attributes:
      num_records: the size of the sample.
      lengths: int64 [S + 1], records by their number of tokens.
      labels: int64 [3], records with label 0, with label 1, and without a label.
      spans: int64 [S + 1], runs of masked words by their number of words. Adjacent
        spans are one run.
      kinds: int64 [3], see `replacement_kinds`.
      tokens: int64 [V], before masking.
      masked: int64 [V], the masked tokens among them.
      budget: the tokens that would be masked if words could be cut.
      num_full: records with the maximum number of masked tokens.
    """

    def __init__(self, manifest: schema.Manifest, budgets: np.ndarray):
        """Initializes all counts to 0.

        Args:
          manifest: of the directory.
          budgets: see `masking.MaskingParams`.
        """
        self._mask_id, self._budgets = manifest.mask_id, budgets
        self._num_predictions = manifest.num_predictions
        self.num_records = self.budget = self.num_full = 0
        self.lengths, self.spans = np.zeros((2, manifest.seq_length + 1), np.int64)
        self.labels = np.zeros(3, np.int64)
        self.kinds = np.zeros(len(schema.REPLACEMENTS), np.int64)
        self.tokens, self.masked = np.zeros((2, manifest.vocab_size), np.int64)
        self._boundaries: list[tuple[int, ...]] = []

    def add(self, example: Example) -> None:
        """Counts a record."""
        positions = example.positions
        self.num_records += 1
        self.lengths[len(example.tokens)] += 1
        self.labels[example.label] += 1  # NO_LABEL is -1, the last place
        self.budget += int(self._budgets[len(example.tokens)])
        self.num_full += len(positions) == self._num_predictions
        np.add.at(self.tokens, example.tokens, 1)
        np.add.at(self.masked, example.tokens[positions], 1)
        kinds = replacement_kinds(example, self._mask_id)
        self.kinds += np.bincount(kinds, minlength=len(schema.REPLACEMENTS))
        if len(positions):
            is_first = np.diff(positions, prepend=-1) > 1
            is_start = example.is_word_start[positions].astype(np.int64)
            words = np.add.reduceat(is_start, np.flatnonzero(is_first))
            np.add.at(self.spans, words, 1)
        if example.label != schema.NO_LABEL:
            tokens, segment = example.tokens, example.segment_a_length
            ends = tokens[[1, segment - 2, segment, -2]].tolist()
            lengths = (segment - 2, len(tokens) - segment - 1)
            self._boundaries.append((*ends, *lengths, example.label))

    @property
    def boundaries(self) -> cues.Boundaries:
        """The boundaries of the pairs that have a label."""
        return cues.Boundaries.of_rows(self._boundaries)

    @property
    def num_tokens(self) -> int:
        """Tokens of the records, without padding."""
        return int(self.tokens.sum())

    @property
    def num_masked(self) -> int:
        """Masked tokens of the records."""
        return int(self.masked.sum())
