"""n-gram masking of whole words, for masked language modelling.

Pure: token ids and a generator in, masked ids and targets out. Source: Lan et al.,
"ALBERT" (arXiv 1909.11942), section 4.1 (n-gram masking, after Joshi et al.,
"SpanBERT"), and Devlin et al., "BERT" (arXiv 1810.04805), section 3.1 (80/10/10).
"""

import dataclasses

import numpy as np

MASK_RATE = 0.8
KEEP_RATE = 0.1  # and the rest becomes a random token
KINDS = ("mask", "keep", "random")


@dataclasses.dataclass(frozen=True)
class MaskedTokens:
    """A masked sequence, and what was drawn for it.

    Attributes:
      input_ids: int32 [num_tokens], with the replacements.
      positions: int32 [num_masked], ascending.
      labels: int32 [num_masked], the tokens that stood at `positions`.
      drawn_lengths: int64 [max_ngram], how often each n-gram length 1, 2, … was drawn.
      placed_lengths: int64 [max_ngram], how often each was masked, after the budget
        shortened the last ones.
      kinds: int64 [3], how many tokens were replaced in each way of `KINDS`.
    """

    input_ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    drawn_lengths: np.ndarray
    placed_lengths: np.ndarray
    kinds: np.ndarray


def ngram_probabilities(max_ngram: int) -> np.ndarray:
    """p(n) = (1/n) / sum over k of 1/k, for n = 1..max_ngram; float64 [max_ngram]."""
    inverse = 1.0 / np.arange(1, max_ngram + 1)
    return inverse / inverse.sum()


def num_to_mask(num_tokens: int, masked_lm_rate: float, max_predictions: int) -> int:
    """The budget of a sequence: a share of its tokens, at least 1, at most the cap."""
    return min(max_predictions, max(1, round(num_tokens * masked_lm_rate)))


def mask_tokens(
    tokens: np.ndarray,
    segment_a_length: int,
    is_word_start: np.ndarray,
    *,
    masked_lm_rate: float,
    max_predictions: int,
    max_ngram: int,
    mask_id: int,
    replacement_ids: np.ndarray,
    rng: np.random.Generator,
) -> MaskedTokens:
    """Masks n-grams of whole words.

    Args:
      tokens: int32 [num_tokens]: [CLS], segment A, [SEP], segment B, [SEP].
      segment_a_length: the tokens from [CLS] to the first [SEP], both included.
      is_word_start: bool [V], whether a token begins a word. A segment's first token
        always does.
      masked_lm_rate: the share of all tokens to mask.
      max_predictions: the most tokens to mask.
      max_ngram: N, the most words of one span.
      mask_id: the id of [MASK].
      replacement_ids: int32 [R], what random replacements are drawn from.
      rng: the source of all that is random here.

    Returns:
      The masked sequence. Fewer tokens than the budget are masked only if no word
      that is left fits into the rest of it.
    """
    starts, num_words_a = _find_words(tokens, segment_a_length, is_word_start)
    budget = num_to_mask(len(tokens), masked_lm_rate, max_predictions)
    spans, drawn = _choose_spans(starts, num_words_a, budget, max_ngram, rng)
    lengths = np.array([n for _, n in spans], np.int64)
    placed = np.bincount(lengths, minlength=max_ngram + 1)[1:]
    # The [SEP] between the segments ends the last word of A and is masked by none.
    first_sep = segment_a_length - 1
    positions = np.array(
        sorted(
            position
            for word, n in spans
            for position in range(starts[word], starts[word + n])
            if position != first_sep
        ),
        np.int32,
    )  # [num_masked]
    labels = tokens[positions]
    input_ids, kinds = _replace(tokens, positions, mask_id, replacement_ids, rng)
    return MaskedTokens(input_ids, positions, labels, drawn, placed, kinds)


def _find_words(
    tokens: np.ndarray, segment_a_length: int, is_word_start: np.ndarray
) -> tuple[list[int], int]:
    """Where the words begin.

    Returns:
      The positions of the first tokens of the words of A and B, then the position
      behind the last word: word i is [starts[i], starts[i + 1]), but for the last word
      of A, behind which stands [SEP]. And the number of words of A.
    """
    flags = is_word_start[tokens]  # [num_tokens]
    flags[0] = flags[segment_a_length - 1] = False  # [CLS], [SEP]
    flags[1] = flags[segment_a_length] = True
    flags[-1] = True  # the last [SEP], where the last word ends
    starts = np.flatnonzero(flags)  # [num_words + 1]
    return starts.tolist(), int(np.searchsorted(starts, segment_a_length))


def _choose_spans(
    starts: list[int],
    num_words_a: int,
    budget: int,
    max_ngram: int,
    rng: np.random.Generator,
) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Chooses disjoint spans of words within the budget of tokens.

    Words are tried as a span's first word in random order. A length is drawn and kept
    until a span of that length finds its place, so that the lengths follow p(n). Near
    the end a span is shortened to what is left of the budget. If all words were tried
    and some budget is left, single words fill it.

    Differs from the original: it draws a length anew for each word that it tries, so
    that long spans, which find their place less often, are too rare even before the
    budget shortens any. And its lengths come from an unseeded generator.

    Returns:
      (first word, number of words) of each span, and int64 [max_ngram], how often each
      length was drawn.
    """
    num_words = len(starts) - 1
    # Number of tokens before word i, the [SEP] between the segments not counted.
    before = [start - (i >= num_words_a) for i, start in enumerate(starts)]
    order = rng.permutation(num_words).tolist()
    cumulative = np.cumsum(ngram_probabilities(max_ngram)[:-1])
    draws = np.searchsorted(cumulative, rng.random(num_words), side="right") + 1
    lengths = draws.tolist()  # [num_words], enough for a span a word
    masked = [False] * num_words
    spans: list[tuple[int, int]] = []
    drawn = [0] * max_ngram
    held = 0
    for word in order:
        if budget <= 0:
            break
        if not held:
            held = lengths[len(spans)]
            drawn[held - 1] += 1
        segment_end = num_words_a if word < num_words_a else num_words
        if word + held > segment_end or any(masked[word : word + held]):
            continue
        n = held
        while n and before[word + n] - before[word] > budget:
            n -= 1
        if n:
            spans.append((word, n))
            masked[word : word + n] = [True] * n
            budget -= before[word + n] - before[word]
            held = 0
    for word in order:
        if budget <= 0:
            break
        if not masked[word] and before[word + 1] - before[word] <= budget:
            spans.append((word, 1))
            budget -= before[word + 1] - before[word]
    return spans, np.array(drawn, np.int64)


def _replace(
    tokens: np.ndarray,
    positions: np.ndarray,
    mask_id: int,
    replacement_ids: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Replaces each token by [MASK], itself or a random token: 80%, 10%, 10%.

    Differs from the original: its random tokens are any ids, control symbols too.

    Returns:
      int32 [num_tokens], and int64 [3], the count of each of `KINDS`.
    """
    num_masked = len(positions)
    draws = rng.random(num_masked)
    random_ids = replacement_ids[rng.integers(len(replacement_ids), size=num_masked)]
    is_masked = draws < MASK_RATE
    is_random = draws >= MASK_RATE + KEEP_RATE
    input_ids = tokens.copy()
    input_ids[positions[is_masked]] = mask_id
    input_ids[positions[is_random]] = random_ids[is_random]
    num_mask, num_random = int(is_masked.sum()), int(is_random.sum())
    kinds = np.array([num_mask, num_masked - num_mask - num_random, num_random])
    return input_ids, kinds
