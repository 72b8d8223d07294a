"""n-gram masking of whole words, for masked language modelling.

One law for both ways: data_prep masks once when it writes records, the trainer masks
anew at each epoch where the records are dynamic. Source: Lan et al., "ALBERT" (arXiv
1909.11942), section 4.1 (n-gram masking, after Joshi et al., "SpanBERT"), and Devlin
et al., "BERT" (arXiv 1810.04805), section 3.1 (80/10/10).
"""

from typing import NamedTuple

import numpy as np

from albert_tf import compiled, random_stream

MASK_RATE = 0.8
KEEP_RATE = 0.1  # and the rest becomes a random token
KINDS = ("mask", "keep", "random")


class Law(NamedTuple):
    """What decides, beside chance, how a sequence is masked.

    Attributes:
      cumulative: float64 [N], p(1), p(1) + p(2), … of the n-gram lengths.
      budgets: int64 [S + 1], the most tokens to mask by the length of the sequence.
      mask_id: int64, the id of [MASK].
      replacement_ids: int32 [R], what random replacements are drawn from.
    """

    cumulative: np.ndarray
    budgets: np.ndarray
    mask_id: int
    replacement_ids: np.ndarray


def make_law(
    max_ngram: int,
    ngram_law: str,
    masked_lm_rate: float,
    max_predictions: int,
    max_seq_length: int,
    mask_id: int,
    replacement_ids: np.ndarray,
) -> Law:
    """The law of settings as `config.DataConfig` has them.

    Args:
      max_ngram: N, the most words of one span.
      ngram_law: one of `config.NGRAM_LAWS`.
      masked_lm_rate: the share of all tokens to mask.
      max_predictions: the most tokens to mask.
      max_seq_length: S.
      mask_id: the id of [MASK].
      replacement_ids: int32 [R].
    """
    budgets = [
        min(max_predictions, max(1, round(length * masked_lm_rate)))
        for length in range(max_seq_length + 1)
    ]
    return Law(
        np.cumsum(ngram_probabilities(max_ngram, ngram_law)),
        np.array(budgets, np.int64),
        mask_id,
        np.ascontiguousarray(replacement_ids, np.int32),
    )


def ngram_probabilities(max_ngram: int, ngram_law: str = "shorter") -> np.ndarray:
    """p(n) for n = 1..max_ngram; float64 [max_ngram].

    It is in proportion to 1/n ("shorter", the paper's), 1 ("uniform") or n ("longer").
    """
    power = {"shorter": -1.0, "uniform": 0.0, "longer": 1.0}[ngram_law]
    weights = np.arange(1, max_ngram + 1) ** power
    return weights / weights.sum()


@compiled.kernel
def mask_sequence(
    input_ids,
    is_word_start,
    segment_a_length,
    law,
    stream,
    positions,
    labels,
    drawn,
    placed,
    kinds,
):
    """Masks n-grams of whole words in a sequence, in place.

    Words are tried as a span's first word in random order. A length is drawn and kept
    until a span of that length finds its place, so that the lengths follow the law.
    Near the end a span is shortened to what is left of the budget. If all words were
    tried and some budget is left, single words fill it. A span stays in its segment.

    Differs from the original: it draws a length anew for each word that it tries, so
    that long spans, which find their place less often, are too rare even before the
    budget shortens any. And its lengths come from an unseeded generator.

    Args:
      input_ids: int32 [num_tokens]: [CLS], segment A, [SEP], segment B, [SEP], or
        [CLS], segment A, [SEP]; changed in place.
      is_word_start: bool [num_tokens], whether a token begins a word. What stands at
        special tokens does not matter, and a segment's first token always does.
      segment_a_length: tokens from [CLS] to the first [SEP], both included.
      law: see `Law`.
      stream: uint64 [4], see `random_stream`.
      positions: int32 [P], filled with the masked positions, ascending.
      labels: int32 [P], filled with the tokens that stood there.
      drawn: int64 [N], to which is added how often each length was drawn.
      placed: int64 [N], the same for the lengths that were masked.
      kinds: int64 [3], to which are added the replacements of each of `KINDS`.

    Returns:
      The number of masked tokens. It is below the budget only if no word that is left
      fits into the rest of it.
    """
    num_tokens = len(input_ids)
    starts, num_words, num_words_a = _find_words(
        is_word_start, num_tokens, segment_a_length
    )
    is_masked = _choose_words(
        starts,
        num_words,
        num_words_a,
        law.budgets[num_tokens],
        law.cumulative,
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
            _replace(input_ids, position, law, stream, kinds)
    return num_masked


@compiled.kernel
def mask_batch(
    input_ids,
    num_tokens,
    segment_a_lengths,
    word_start_bits,
    whole_words,
    law,
    keys,
    num_predictions,
):
    """Masks a batch of padded sequences; each follows from its key.

    Args:
      input_ids: int32 [B, S].
      num_tokens: int32 [B], without padding.
      segment_a_lengths: int32 [B], see `mask_sequence`.
      word_start_bits: uint8 [B, ceil(S / 8)], whether a token begins a word, the first
        token in the lowest bit of the first byte.
      whole_words: whether not to take every token for a word.
      law: see `Law`.
      keys: uint64 [B, K], of the streams of random numbers.
      num_predictions: P.

    Returns:
      int32 [B, S], the masked sequences; int32 [B, P], positions; int32 [B, P], the
      tokens that stood there; float32 [B, P], 1 at masked tokens, 0 at padding.
    """
    batch_size, seq_length = input_ids.shape
    masked_ids = input_ids.copy()
    positions = np.zeros((batch_size, num_predictions), np.int32)
    labels = np.zeros((batch_size, num_predictions), np.int32)
    weights = np.zeros((batch_size, num_predictions), np.float32)
    is_word_start = np.empty(seq_length, np.bool_)
    drawn = np.zeros(len(law.cumulative), np.int64)
    placed = np.zeros(len(law.cumulative), np.int64)
    kinds = np.zeros(3, np.int64)
    for row in range(batch_size):
        for place in range(seq_length):
            bit = (word_start_bits[row, place // 8] >> (place % 8)) & 1
            is_word_start[place] = bit == 1 or not whole_words
        num_masked = mask_sequence(
            masked_ids[row, : num_tokens[row]],
            is_word_start,
            segment_a_lengths[row],
            law,
            random_stream.open_stream(keys[row]),
            positions[row],
            labels[row],
            drawn,
            placed,
            kinds,
        )
        weights[row, :num_masked] = 1.0
    return masked_ids, positions, labels, weights


@compiled.kernel
def _replace(input_ids, position, law, stream, kinds):
    """Replaces a token by [MASK], itself or a random token: 80%, 10%, 10%.

    Differs from the original: its random tokens are any ids, control symbols too.
    """
    draw = random_stream.uniform(stream)
    if draw < MASK_RATE:
        input_ids[position] = law.mask_id
        kinds[0] += 1
    elif draw < MASK_RATE + KEEP_RATE:
        kinds[1] += 1
    else:
        choice = random_stream.below(stream, len(law.replacement_ids))
        input_ids[position] = law.replacement_ids[choice]
        kinds[2] += 1


@compiled.kernel
def _find_words(is_word_start, num_tokens, segment_a_length):
    """Where the words begin.

    Returns:
      int64 [num_words + 1], the positions of the first tokens of the words of A and B,
      then the position behind the last word: word i is [starts[i], starts[i + 1]), but
      for the last word of A, behind which stands [SEP]. The number of words, and of
      words of A.
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


@compiled.kernel
def _choose_words(
    starts, num_words, num_words_a, budget, cumulative, stream, drawn, placed
):
    """Chooses disjoint spans of words within the budget of tokens.

    Returns:
      bool [num_words], whether a word is masked.
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
        # A shuffle that goes only as far as words are tried.
        other = turn + random_stream.below(stream, num_words - turn)
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


@compiled.kernel
def _draw_length(cumulative, stream):
    draw = random_stream.uniform(stream)
    length = 1
    while length < len(cumulative) and draw >= cumulative[length - 1]:
        length += 1
    return length
