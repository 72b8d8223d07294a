"""Tables of the counts of records, compared with the expected distributions."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.data import masking, schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.inspection import cues
from data_prep.inspection import sample as sample_lib

KIND_WORDS = ("[MASK]", "kept", "random token")
# At this level, one in a thousand sound runs gives a false alarm.
_SMALLEST_P = 0.001
_Z_99 = 2.575829  # 99% of a normal distribution, in standard deviations
_NUM_FREQUENT = 12
# A cue that guesses more labels than chance by this many standard errors is named.
_MOST_ERRORS = 4


class Table(NamedTuple):
    """A table: its title, column heads, rows, and an explanation."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


class Counts(NamedTuple):
    """All counts of a split.

    Attributes:
      manifest: of the directory.
      split: the name.
      sample: of its records.
      drawn: int64 [N], n-gram lengths that were drawn.
      placed: int64 [N], n-gram lengths that were masked.
      kinds: int64 [3], replacements as they were drawn.
      labels: int64 [3], records with label 0, with label 1, and without a label.
    """

    manifest: schema.Manifest
    split: str
    sample: sample_lib.Sample
    drawn: np.ndarray
    placed: np.ndarray
    kinds: np.ndarray
    labels: np.ndarray

    @property
    def is_dynamic(self) -> bool:
        """True if the records have no masks."""
        return self.manifest.data["masking"] == "dynamic"

    @property
    def ngram_probabilities(self) -> np.ndarray:
        """p(n) of n-gram lengths; float64 [N]."""
        data = self.manifest.data
        return masking.ngram_probabilities(
            data["max_ngram"], data["ngram_distribution"]
        )

    @property
    def replacement_rates(self) -> np.ndarray:
        """The expected rates of `schema.REPLACEMENTS`; float64 [3]."""
        data = sample_lib.data_settings(self.manifest)
        return masking.replacement_rates(data.mask_token_rate, data.random_token_rate)

    @property
    def label_words(self) -> tuple[str, ...]:
        """The meanings of the labels 0 and 1; empty without a pair loss."""
        return schema.PAIR_LABELS[self.manifest.data["pair_loss"]]

    @property
    def source(self) -> str:
        """The records that `drawn`, `placed` and `kinds` are counts of."""
        if self.is_dynamic:
            return "the sample, masked here as the trainer may mask it"
        return "all records, from the manifest"


def make_counts(
    manifest: schema.Manifest,
    split: str,
    sample: sample_lib.Sample,
    masker: sample_lib.Masker,
) -> Counts:
    """Returns the counts: of all records, as far as the manifest has them."""
    statistics = manifest.splits[split].statistics
    labels = np.array(
        [statistics["labels"][str(label)] for label in (0, 1, schema.NO_LABEL)]
    )
    if manifest.data["masking"] == "dynamic":
        drawn, placed, kinds = masker.drawn, masker.placed, masker.kinds
    else:
        drawn = _array(statistics["drawn_ngram_lengths"])
        placed = _array(statistics["placed_ngram_lengths"])
        kinds = np.array([statistics["replacements"][k] for k in schema.REPLACEMENTS])
    return Counts(manifest, split, sample, drawn, placed, kinds, labels)


def _array(counts: Mapping[str, int]) -> np.ndarray:
    """The values of an object with integer keys, in the order of the keys."""
    return np.array([counts[key] for key in sorted(counts, key=int)])


# ---- Distributions ----


def chi_square_p(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """Returns the p-value of Pearson's chi-square test of counts.

    The tail is computed in closed form for 1 or 2 degrees of freedom, and for more by
    the recurrence of the incomplete gamma function.

    Args:
      counts: int64 [n].
      probabilities: float64 [n], the expected distribution.
    """
    is_possible = probabilities > 0
    if counts[~is_possible].any():
        return 0.0
    counts, probabilities = counts[is_possible], probabilities[is_possible]
    freedom = len(counts) - 1
    expected = counts.sum() * probabilities
    if not freedom or not counts.sum() or np.array_equal(counts, expected):
        return 1.0
    half = float(((counts - expected) ** 2 / expected).sum()) / 2
    below = 1 if freedom % 2 else 2
    p = math.erfc(math.sqrt(half)) if freedom % 2 else math.exp(-half)
    for of in range(below, freedom, 2):
        p += math.exp(of / 2 * math.log(half) - half - math.lgamma(of / 2 + 1))
    return p


def interval_99(count: int, total: int) -> tuple[float, float]:
    """Returns Wilson's score interval (1927) of a share, at 99% confidence."""
    share, z = count / total, _Z_99
    center = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = math.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2)
    half *= z / (1 + z * z / total)
    return center - half, center + half


def _verdict(name: str, p: float) -> str:
    if p >= _SMALLEST_P:
        return f"{name} fit the expected distribution (chi-square test, p = {p:.2g})."
    return f"{name} do NOT fit the expected distribution (p = {p:.1g})."


# ---- Tables ----


def make_tables(counts: Counts, tokenizer: tokenizer_lib.Tokenizer) -> list[Table]:
    """Returns all tables of a split."""
    tables = [
        _overview(counts, tokenizer),
        _ngram_lengths(counts),
        _masked_share(counts),
        _replacements(counts),
    ]
    if counts.label_words:
        tables.append(_labels(counts))
        if len(counts.sample.boundaries.labels) > 1:
            tables.append(_cues(counts, tokenizer))
    return [*tables, *_ledgers(counts), _frequent(counts, tokenizer)]


def _overview(counts: Counts, tokenizer: tokenizer_lib.Tokenizer) -> Table:
    split = counts.manifest.splits[counts.split]
    sample, seq_length = counts.sample, counts.manifest.seq_length
    lengths = np.flatnonzero(sample.lengths)
    sizes = [shard.num_bytes for shard in split.shards]
    records = [shard.num_records for shard in split.shards]
    padding = 1.0 - sample.num_tokens / (sample.num_records * seq_length)
    one = "one record"
    packed = []
    if counts.manifest.is_packed:
        padding, one = split.statistics["padding_rate"], "one sequence"
        packed = [("sequences in them", f"{split.num_sequences:,}")]
    unknown = int(sample.tokens[tokenizer.unk_id])
    mean_length = sample.num_tokens / sample.num_records
    is_all = sample.num_records == split.num_sequences
    notes = []
    if not is_all:
        notes.append("Records are in random order: the first are a fair sample.")
    if packed:
        notes.append("In the other tables a record is one sequence of a packed one.")
    return Table(
        f"Records of {counts.split}",
        ("", ""),
        [
            ("records", f"{split.num_records:,}"),
            *packed,
            ("sampled", "all" if is_all else f"the first {sample.num_records:,}"),
            ("documents", f"{split.num_documents:,}"),
            ("shards", f"{len(sizes):,}"),
            ("  records in one", f"{min(records):,} to {max(records):,}"),
            ("  size of one", f"{_megabytes(min(sizes))} to {_megabytes(max(sizes))}"),
            (f"tokens in {one}, mean", f"{mean_length:.1f}"),
            ("  shortest, longest", f"{lengths[0]}, {lengths[-1]} of {seq_length}"),
            ("padding", _share(padding)),
            ("unknown pieces", f"{unknown:,} ({_share(unknown / sample.num_tokens)})"),
        ],
        " ".join(notes),
    )


def _ngram_lengths(counts: Counts) -> Table:
    expected, spans = counts.ngram_probabilities, counts.sample.spans
    num_spans = max(1, int(spans.sum()))
    rows = [
        (
            str(place + 1),
            _share(expected[place]),
            _counted(counts.drawn, place),
            _counted(counts.placed, place),
            f"{spans[place + 1]:,} ({_share(spans[place + 1] / num_spans)})",
        )
        for place in range(len(expected))
    ]
    longer = int(spans[len(expected) + 1 :].sum())
    share = _share(longer / num_spans)
    rows.append((f"{len(expected) + 1} or more", "", "", "", f"{longer:,} ({share})"))
    p = chi_square_p(counts.drawn, expected)
    return Table(
        "Words of one masked span",
        ("words", "expected", "drawn", "placed", "runs observed"),
        rows,
        f"Drawn and placed are of {counts.source}. {_verdict('The drawn lengths', p)} "
        "Fewer long spans are placed: near the end of the budget spans are shortened, "
        "and single words fill the rest. Runs are observed in the sample: adjacent "
        "spans are one run, so that there are more long ones.",
    )


def _masked_share(counts: Counts) -> Table:
    sample, manifest = counts.sample, counts.manifest
    rate = manifest.data["masked_lm_rate"]
    masked = sample.num_masked
    return Table(
        "Masked tokens",
        ("", ""),
        [
            ("rate in the settings", _share(rate)),
            ("maximum in one record", f"{manifest.num_predictions:,}"),
            (
                "masked",
                f"{masked:,} ({_share(masked / sample.num_tokens)} of all tokens)",
            ),
            (
                "of the budget",
                f"{_share(masked / sample.budget)} of {sample.budget:,} tokens",
            ),
            (
                "records with the maximum",
                f"{sample.num_full:,} ({_share(sample.num_full / sample.num_records)})",
            ),
        ],
        "The budget is the rate times the length of each record, rounded, but at most "
        "the maximum. Some of it is unused if no remaining whole word fits.",
    )


def _replacements(counts: Counts) -> Table:
    observed = counts.sample.kinds
    expected = counts.replacement_rates
    p = chi_square_p(counts.kinds, expected)
    return Table(
        "What replaced masked tokens",
        ("replaced by", "expected", "drawn", "observed"),
        [
            (
                KIND_WORDS[kind],
                _share(expected[kind]),
                _counted(counts.kinds, kind),
                _counted(observed, kind),
            )
            for kind in range(len(KIND_WORDS))
        ],
        f"Drawn are of {counts.source}. {_verdict('They', p)} Observed are of the "
        "sample, where a random token that equals the original looks like a kept one.",
    )


def _labels(counts: Counts) -> Table:
    words = (*counts.label_words, "none")
    total = int(counts.labels[:2].sum())
    note = "A record without a label has one segment: it adds nothing to the pair loss."
    if total:
        low, high = interval_99(int(counts.labels[1]), total)
        is_within = "is" if low <= 0.5 <= high else "is NOT"
        note += (
            f" With 99% confidence, the rate of {words[1]!r} among pairs is between "
            f"{_share(low)} and {_share(high)}; one half {is_within} in this interval."
        )
    return Table(
        "Labels",
        ("label", "records"),
        [
            (f"{label}: {words[label]}", _counted(counts.labels, label))
            for label in (0, 1, schema.NO_LABEL)
        ],
        note,
    )


def _cues(counts: Counts, tokenizer: tokenizer_lib.Tokenizer) -> Table:
    pairs = counts.sample.boundaries
    most = 0.5 + _MOST_ERRORS * cues.standard_error(len(pairs.labels))
    return Table(
        "Labels guessed from cues",
        ("cue", "right", "above chance"),
        [
            (name, _share(rate), "yes" if rate > most else "no")
            for name, rate in cues.guess_rates(pairs, tokenizer).items()
        ],
        f"Naive Bayes guesses the labels of the {len(pairs.labels):,} pairs of the "
        "sample from one cue alone, those of each half by what the other half shows. "
        f"More than {_share(most)}, {_MOST_ERRORS} standard errors, is above chance. "
        "Some of it is fair: a text begins with other words and shorter or longer "
        "sentences than it continues with, and a title, without closing punctuation, "
        "comes before it.",
    )


def _ledgers(counts: Counts) -> list[Table]:
    manifest = counts.manifest
    statistics = manifest.splits[counts.split].statistics
    tokens = [
        ("input (all copies)", statistics["tokens_in"]),
        ("used", statistics["tokens_used"]),
        ("+ from other documents", statistics["tokens_borrowed"]),
        ("+ [CLS] and [SEP]", statistics["tokens_special"]),
        ("= in the records", statistics["num_tokens"]),
    ]
    documents, characters = manifest.documents, manifest.characters
    return [
        _ledger("Documents, of all splits", [(k, documents[k]) for k in _KEPT]),
        _ledger(
            "Characters, of all splits",
            [(k, characters[k]) for k in ("read", "removed", *_KEPT[1:])],
        ),
        _ledger(f"Tokens of {counts.split}", tokens),
    ]


_KEPT = ("read", "dropped", "kept")


def _ledger(title: str, entries: Sequence[tuple[str, Any]]) -> Table:
    """Numbers with their share of the first; each reason has a row."""
    whole = max(1, entries[0][1])
    rows: list[tuple[str, ...]] = []
    for name, value in entries:
        reasons = value.items() if isinstance(value, Mapping) else ()
        number = sum(count for _, count in reasons) if reasons else value or 0
        rows.append((name, f"{number:,}", _share(number / whole)))
        rows += [
            (f"  {reason.replace('_', ' ')}", f"{count:,}", _share(count / whole))
            for reason, count in reasons
        ]
    return Table(title, ("", "number", "share"), rows)


def _frequent(counts: Counts, tokenizer: tokenizer_lib.Tokenizer) -> Table:
    sample = counts.sample
    order = np.argsort(-sample.masked, kind="stable")[:_NUM_FREQUENT]
    order = order[sample.masked[order] > 0]
    return Table(
        "Most frequently masked tokens",
        ("token", "masked", "of all masked", "of its occurrences"),
        [
            (
                piece,
                f"{sample.masked[i]:,}",
                _share(sample.masked[i] / sample.num_masked),
                _share(sample.masked[i] / sample.tokens[i]),
            )
            for i, piece in zip(order, tokenizer.pieces(order.tolist()), strict=True)
        ],
    )


def _counted(counts: np.ndarray, place: int) -> str:
    return f"{counts[place]:,} ({_share(counts[place] / max(1, counts.sum()))})"


def _share(share: float) -> str:
    return f"{share:.2%}"


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.2f} MB"
