"""n-gram masking of whole words, for masked language modelling.

One implementation for both kinds of records: data_prep masks static records when it
writes them, the trainer masks dynamic records again in each epoch. Sources: Lan et al.,
"ALBERT" (arXiv 1909.11942), section 4.1 (n-gram masking, after Joshi et al.,
"SpanBERT"), and Devlin et al., "BERT" (arXiv 1810.04805), section 3.1 (80/10/10).
"""

from typing import NamedTuple

import numpy as np

from albert_tf.core import numba_cache, prng


class MaskingParams(NamedTuple):
    """Parameters of masking, as compiled loops take them.

    Attributes:
      cumulative: float64 [N], p(1), p(1) + p(2), … of the n-gram lengths.
      budgets: int64 [S + 1], the largest number of masked tokens, by the length of
        the sequence.
      mask_id: int64, the id of [MASK].
      replacement_ids: int32 [R], the ids that random replacements are drawn from.
      kinds: float64 [3], the cumulative rates of `schema.REPLACEMENTS`.
    """

    cumulative: np.ndarray
    budgets: np.ndarray
    mask_id: int
    replacement_ids: np.ndarray
    kinds: np.ndarray


def make_params(
    max_ngram: int,
    ngram_distribution: str,
    masked_lm_rate: float,
    max_predictions: int,
    max_seq_length: int,
    mask_id: int,
    replacement_ids: np.ndarray,
    mask_token_rate: float,
    random_token_rate: float,
) -> MaskingParams:
    """Makes the parameters from settings as `config.DataConfig` has them.

    Args:
      max_ngram: N, the largest number of words in a span.
      ngram_distribution: one of `config.NGRAM_DISTRIBUTIONS`.
      masked_lm_rate: the fraction of all tokens to mask.
      max_predictions: the largest number of masked tokens.
      max_seq_length: S.
      mask_id: the id of [MASK].
      replacement_ids: int32 [R].
      mask_token_rate: the fraction of the masked tokens that become [MASK].
      random_token_rate: the fraction that become another token; the rest are kept.
    """
    budgets = [
        min(max_predictions, max(1, round(length * masked_lm_rate)))
        for length in range(max_seq_length + 1)
    ]
    return MaskingParams(
        np.cumsum(ngram_probabilities(max_ngram, ngram_distribution)),
        np.array(budgets, np.int64),
        mask_id,
        np.ascontiguousarray(replacement_ids, np.int32),
        np.cumsum(replacement_rates(mask_token_rate, random_token_rate)),
    )


def replacement_rates(mask_token_rate: float, random_token_rate: float) -> np.ndarray:
    """Returns the rates of `schema.REPLACEMENTS`; float64 [3], their sum is 1."""
    kept = max(0.0, 1.0 - mask_token_rate - random_token_rate)
    return np.array([mask_token_rate, kept, random_token_rate])


def ngram_probabilities(
    max_ngram: int, ngram_distribution: str = "shorter"
) -> np.ndarray:
    """Returns p(n) for n = 1..max_ngram; float64 [max_ngram].

    p(n) is proportional to 1/n ("shorter", as in the paper), 1 ("uniform") or n
    ("longer").
    """
    power = {"shorter": -1.0, "uniform": 0.0, "longer": 1.0}[ngram_distribution]
    weights = np.arange(1, max_ngram + 1) ** power
    return weights / weights.sum()


@numba_cache.kernel
def mask_sequence(
    input_ids,
    is_word_start,
    segment_a_length,
    params,
    stream,
    positions,
    labels,
    drawn,
    placed,
    kinds,
):
    """Masks n-grams of whole words in a sequence, in place.

    Words are tried in random order as the first of a span. A length is drawn and kept
    until a span of that length fits, so that the lengths follow the distribution. Near
    the end a span is shortened to the rest of the budget. If all words were tried and
    some budget is left, single words fill it. A span does not cross segments.

    Differs from the original: it draws a new length for each word that it tries, so
    that long spans, which fit less often, are too rare even before the budget shortens
    any. And its lengths come from an unseeded generator.

    Args:
      input_ids: int32 [num_tokens]: [CLS], segment A, [SEP], segment B, [SEP], or
        [CLS], segment A, [SEP]; changed in place.
      is_word_start: bool [num_tokens], true if a token begins a word. Values at
        special tokens are ignored; a segment's first token always begins a word.
      segment_a_length: number of tokens from [CLS] to the first [SEP], both included.
      params: see `MaskingParams`.
      stream: uint64 [4], the state of `core.prng`.
      positions: int32 [P], filled with the masked positions, ascending.
      labels: int32 [P], filled with the tokens at these positions before masking.
      drawn: int64 [N], counts of the drawn lengths, to which this call adds.
      placed: int64 [N], the same of the lengths that were masked.
      kinds: int64 [3], the same of `schema.REPLACEMENTS`.

    Returns:
      The number of masked tokens. It is below the budget only if no remaining word fits
      into the rest of it.
    """
    num_tokens = len(input_ids)
    starts, num_words, num_words_a = _find_words(
        is_word_start, num_tokens, segment_a_length
    )
    is_masked = _choose_words(
        starts,
        num_words,
        num_words_a,
        params.budgets[num_tokens],
        params.cumulative,
        stream,
        drawn,
        placed,
    )
    num_masked = 0
    for word in range(num_words):
        if not is_masked[word]:
            continue
        for position in range(starts[word], starts[word + 1]):
            # The [SEP] between the segments ends the last word of A.
            if position == segment_a_length - 1:
                continue
            positions[num_masked] = position
            labels[num_masked] = input_ids[position]
            num_masked += 1
            _replace(input_ids, position, params, stream, kinds)
    return num_masked


@numba_cache.kernel
def mask_batch(
    input_ids,
    num_tokens,
    segment_a_lengths,
    word_start_bits,
    whole_words,
    params,
    keys,
    num_predictions,
):
    """Masks a batch of padded sequences, each with random numbers of its key.

    Args:
      input_ids: int32 [B, S].
      num_tokens: int32 [B], without padding.
      segment_a_lengths: int32 [B], see `mask_sequence`.
      word_start_bits: uint8 [B, ceil(S / 8)], 1 if a token begins a word, the first
        token in the lowest bit of the first byte.
      whole_words: false if every token counts as a word.
      params: see `MaskingParams`.
      keys: uint64 [B, K], which seed the random numbers.
      num_predictions: P.

    Returns:
      int32 [B, S], the masked sequences; int32 [B, P], positions; int32 [B, P], the
      tokens there before; float32 [B, P], 1 at masked tokens, 0 at padding.
    """
    batch_size, seq_length = input_ids.shape
    masked_ids = input_ids.copy()
    positions = np.zeros((batch_size, num_predictions), np.int32)
    labels = np.zeros((batch_size, num_predictions), np.int32)
    weights = np.zeros((batch_size, num_predictions), np.float32)
    is_word_start = np.empty(seq_length, np.bool_)
    drawn = np.zeros(len(params.cumulative), np.int64)
    placed = np.zeros(len(params.cumulative), np.int64)
    kinds = np.zeros(3, np.int64)
    for row in range(batch_size):
        for place in range(seq_length):
            bit = (word_start_bits[row, place // 8] >> (place % 8)) & 1
            is_word_start[place] = bit == 1 or not whole_words
        num_masked = mask_sequence(
            masked_ids[row, : num_tokens[row]],
            is_word_start,
            segment_a_lengths[row],
            params,
            prng.seed_state(keys[row]),
            positions[row],
            labels[row],
            drawn,
            placed,
            kinds,
        )
        weights[row, :num_masked] = 1.0
    return masked_ids, positions, labels, weights


@numba_cache.kernel
def _replace(input_ids, position, params, stream, kinds):
    """Replaces a token by [MASK], itself or a random token, at the rates of `params`.

    Differs from the original: its random tokens are any ids, control symbols too.
    """
    draw = prng.uniform(stream)
    if draw < params.kinds[0]:
        input_ids[position] = params.mask_id
        kinds[0] += 1
    elif draw < params.kinds[1]:
        kinds[1] += 1
    else:
        choice = prng.randint(stream, len(params.replacement_ids))
        input_ids[position] = params.replacement_ids[choice]
        kinds[2] += 1


@numba_cache.kernel
def _find_words(is_word_start, num_tokens, segment_a_length):
    """Finds the beginnings of words.

    Returns:
      int64 [num_words + 1], the positions of the first tokens of the words of A and B,
      then the position after the last word: word i is [starts[i], starts[i + 1]), but
      the last word of A is followed by [SEP]. The number of words, and of words of A.
    """
    starts = np.empty(num_tokens, np.int64)
    num_words = num_words_a = 0
    for position in range(1, num_tokens - 1):
        if position == segment_a_length - 1:
            num_words_a = num_words
            continue
        if position == 1 or position == segment_a_length or is_word_start[position]:
            starts[num_words] = position
            num_words += 1
    if segment_a_length == num_tokens:
        num_words_a = num_words
    starts[num_words] = num_tokens - 1
    return starts, num_words, num_words_a


@numba_cache.kernel
def _choose_words(
    starts, num_words, num_words_a, budget, cumulative, stream, drawn, placed
):
    """Chooses disjoint spans of words within the budget of tokens.

    Returns:
      bool [num_words], true if a word is masked.
    """
    # Number of tokens before word i, the [SEP] between the segments not counted.
    before = np.empty(num_words + 1, np.int64)
    order = np.empty(num_words, np.int64)
    for word in range(num_words + 1):
        has_b = num_words_a < num_words
        before[word] = starts[word] - (1 if has_b and word >= num_words_a else 0)
    for word in range(num_words):
        order[word] = word
    is_masked = np.zeros(num_words, np.bool_)
    held = 0
    for turn in range(num_words):
        if budget <= 0:
            break
        # One step of a Fisher-Yates shuffle.
        other = turn + prng.randint(stream, num_words - turn)
        word = order[other]
        order[other] = order[turn]
        order[turn] = word
        if not held:
            held = _draw_length(cumulative, stream)
            drawn[held - 1] += 1
        segment_end = num_words_a if word < num_words_a else num_words
        if word + held > segment_end or is_masked[word : word + held].any():
            continue
        length = held
        while length and before[word + length] - before[word] > budget:
            length -= 1
        if length:
            is_masked[word : word + length] = True
            placed[length - 1] += 1
            budget -= before[word + length] - before[word]
            held = 0
    for turn in range(num_words):
        if budget <= 0:
            break
        word = order[turn]
        num_tokens = before[word + 1] - before[word]
        if not is_masked[word] and num_tokens <= budget:
            is_masked[word] = True
            placed[0] += 1
            budget -= num_tokens
    return is_masked


@numba_cache.kernel
def _draw_length(cumulative, stream):
    draw = prng.uniform(stream)
    length = 1
    while length < len(cumulative) and draw >= cumulative[length - 1]:
        length += 1
    return length
