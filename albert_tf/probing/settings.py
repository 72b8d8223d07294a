"""Settings of a probe, without TensorFlow: names of the scores, size of a batch.

"pll" is the pseudo-log-likelihood of Salazar et al., "Masked Language Model Scoring"
(ACL 2020, arXiv 1910.14659): the sum over the tokens of their log-probabilities, each
with that token masked. "within_word" also masks the tokens to its right in the same
word, without which a word's first tokens are easy to guess from its last: PLL-word-l2r
of Kauf and Ivanova, "A Better Way to Do Masked Language Model Scoring" (ACL 2023, arXiv
2305.10588).
"""

PLL, WITHIN_WORD = "pll", "within_word"
METRICS = (PLL, WITHIN_WORD)
# The split of a row of metrics.jsonl that a probe within a run writes.
PROBE = "probe"
# Tokens of a batch: more are not faster on two cores, see docs/probing.md.
BATCH_TOKENS = 4096
