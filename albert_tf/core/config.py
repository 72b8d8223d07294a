"""The configuration: frozen dataclasses, one for each section.

A recipe (`configs/NAME.py`) returns a `Config` from `get_config()`. Each default is
written once, here, with the rule that its values follow. `config_io` reads recipes and
saved configurations, and applies overrides such as `train.batch_size=512`.

docs/reference/settings.md is made of these classes: the description of a setting is the
sentences of the docstring that name it; one that names none continues that of the
setting named first in the sentence before.
"""

import dataclasses
import re
from typing import ClassVar

from albert_tf.core import console, row_shapes, task_config, validation

SHARINGS = ("all", "attention", "feed_forward", "none")
ACTIVATIONS = ("gelu_tanh", "gelu_exact", "relu")
# Far beyond any trained network; with more, a graph would take minutes to build.
MAX_BLOCK_APPLICATIONS = 1024


@dataclasses.dataclass(frozen=True)
class ModelConfig(validation.Section, name="model"):
    """The encoder and its pre-training heads (ALBERT paper, section 3.1).

    `vocab_size` is V, the number of pieces of the vocabulary. `embedding_size` is E,
    the width of the word embeddings. If E equals H there is no projection: with no
    sharing that is BERT. `hidden_size` is H, the width of the hidden states.
    `num_layers` is L, the number of layers. `num_heads` is N, the number of attention
    heads of a layer. `intermediate_size` is the width within the feed-forward part.
    `activation` is the function within it and in the masked-LM head. `max_positions` is
    the length of the longest sequence, in tokens. `type_vocab_size` is the number of
    kinds of segments.

    `sharing` names the parts of a block that all layers share, each with its layer
    norm: "all" is ALBERT. `num_groups` splits the layers into that many runs of
    consecutive layers that share only among themselves; they are equally long unless
    `uneven_groups` is set. A layer is `num_inner_groups` blocks in sequence, each with
    its own parameters.

    `hidden_dropout_rate` is the dropout rate of the embeddings and of what each part of
    a block adds to the hidden states. `attention_dropout_rate` is the dropout rate of
    the attention probabilities. Initial weights are drawn from a truncated normal
    distribution with the standard deviation `initializer_range`. `layer_norm_epsilon`
    is added to the variance in each layer norm.
    """

    vocab_size: int = validation.at_least(1, default=30000)
    embedding_size: int = validation.at_least(1, default=128)
    hidden_size: int = validation.at_least(1, default=768)
    num_layers: int = validation.at_least(1, default=12)
    sharing: str = validation.one_of(SHARINGS, default="all")
    num_groups: int = validation.at_least(1, default=1)
    uneven_groups: bool = False
    num_inner_groups: int = validation.at_least(1, default=1)
    num_heads: int = validation.at_least(1, default=12)
    intermediate_size: int = validation.at_least(1, default=3072)
    activation: str = validation.one_of(ACTIVATIONS, default="gelu_tanh")
    max_positions: int = validation.at_least(1, default=512)
    type_vocab_size: int = validation.at_least(1, default=2)
    hidden_dropout_rate: float = validation.in_range(0, 1, "[)", default=0.0)
    attention_dropout_rate: float = validation.in_range(0, 1, "[)", default=0.0)
    initializer_range: float = validation.above(0, default=0.02)
    layer_norm_epsilon: float = validation.above(0, default=1e-12)

    def __post_init__(self):
        super().__post_init__()
        validation.require(
            self.num_layers * self.num_inner_groups <= MAX_BLOCK_APPLICATIONS,
            "model.num_layers times model.num_inner_groups must be at most "
            f"{MAX_BLOCK_APPLICATIONS:,}",
            (self.num_layers, self.num_inner_groups),
        )
        validation.require(
            self.hidden_size % self.num_heads == 0,
            "model.hidden_size must be a multiple of model.num_heads",
            (self.hidden_size, self.num_heads),
        )
        validation.require(
            self.num_groups == 1 or self.sharing != "none",
            'model.num_groups must be 1 if model.sharing is "none"',
            self.num_groups,
        )
        validation.require(
            self.num_groups <= self.num_layers,
            "model.num_groups must not be larger than model.num_layers",
            (self.num_groups, self.num_layers),
        )
        validation.require(
            self.uneven_groups or self.num_layers % self.num_groups == 0,
            "model.num_layers must be a multiple of model.num_groups, unless "
            "model.uneven_groups is set",
            (self.num_layers, self.num_groups),
        )
        validation.require(
            self.embedding_size <= self.vocab_size,
            "model.embedding_size must not be larger than model.vocab_size",
            (self.embedding_size, self.vocab_size),
        )


INPUT_FORMATS = (
    "text",
    "lines",
    "file",
    "jsonl",
    "wikiextractor",
    "mediawiki",
    "parquet",
)
INVALID_UTF8 = ("error", "replace")
UNICODE_NORMALIZATIONS = ("none", "NFC", "NFKC")
SENTENCE_SPLITTERS = ("line", "sentencex")


@dataclasses.dataclass(frozen=True)
class TextConfig(validation.Section, name="text"):
    """Splitting of files into documents, and cleaning.

    `input_format`: "text" has an empty line between documents, "lines" one document per
    line, "file" one per file, "jsonl" one JSON object per line with the text in
    `field`, "wikiextractor" that tool's `<doc>` elements, "mediawiki" an XML dump,
    "parquet" a table with the text in column `field`. Bytes that are not UTF-8 end the
    run (`invalid_utf8` "error") or become U+FFFD ("replace"). The text is converted to
    the form `unicode_normalization`. With `remove_control_characters` control
    characters and most invisible ones are removed. Documents with fewer characters than
    `min_document_characters` are dropped. With `drop_exact_duplicates` the first of the
    documents with the same words is kept. A document is dropped if its estimated
    Jaccard similarity of 5-word shingles to an earlier one is
    `near_duplicate_threshold` or more; 0 keeps all. If an evaluation set is given, a
    document must not share `contamination_ngram` consecutive words with it.
    `keep_languages` are ISO 639-1 codes; an empty list keeps all. `sentence_splitter`
    is "line" for text with one sentence per line, or "sentencex" to split each line
    with that library by the rules of `language`.
    Memory and time are bounded whatever the text is: a line of more than
    `max_line_characters` and a document of more than `max_document_bytes` are cut, or
    dropped where a part of a document would be useless. No more is read of a file than
    `max_unpacked_ratio` times its size on disk, or `max_document_bytes` if that is
    more. A wiki page is dropped if the parser would have to read more than
    `max_markup_work` characters in vain, or if it takes more than `max_markup_seconds`
    of a processor all the same.
    """

    input_format: str = validation.one_of(INPUT_FORMATS, default="text")
    field: str = "text"
    invalid_utf8: str = validation.one_of(INVALID_UTF8, default="error")
    unicode_normalization: str = validation.one_of(
        UNICODE_NORMALIZATIONS, default="none"
    )
    remove_control_characters: bool = True
    min_document_characters: int = validation.at_least(0, default=0)
    drop_exact_duplicates: bool = False
    near_duplicate_threshold: float = validation.zero_or_in_range(0.5, 1, default=0.0)
    contamination_ngram: int = validation.at_least(1, default=13)
    keep_languages: tuple[str, ...] = ()
    sentence_splitter: str = validation.one_of(SENTENCE_SPLITTERS, default="line")
    language: str = "en"
    max_line_characters: int = validation.at_least(64, default=1 << 18)
    max_document_bytes: int = validation.at_least(1024, default=64 << 20)
    max_unpacked_ratio: int = validation.at_least(1, default=100)
    max_markup_work: int = validation.at_least(1, default=100_000_000)
    max_markup_seconds: int = validation.at_least(1, default=10)


PAIR_LOSSES = ("sop", "nsp", "none")
MASKINGS = ("static", "dynamic")
NGRAM_DISTRIBUTIONS = ("shorter", "uniform", "longer")
COMPRESSIONS = ("none", "gzip")
LONGEST_ROW = 65535


@dataclasses.dataclass(frozen=True)
class DataConfig(validation.Section, name="data"):
    """Making of records from documents (ALBERT paper, sections 3.1 and 4.1).

    `pair_loss` is "sop" (two consecutive segments, swapped in half of the records),
    "nsp" (the second segment is from another document in half of them) or "none" (one
    segment). `masking` is "static" (masks are drawn when the records are made, for each
    of `dupe_factor` copies) or "dynamic" (the trainer draws new masks in each epoch). A
    masked span has up to `max_ngram` words; `ngram_distribution` favours "shorter"
    spans (p(n) ~ 1/n, as in the paper), "longer" ones (p(n) ~ n) or none ("uniform").
    Without `whole_words` each token counts as a word. `max_predictions_per_seq` limits
    the masked tokens of a sequence; with 0, `masked_lm_rate` alone does. With
    `pack_sequences` above 0 a row of a batch holds as many sequences as fit into that
    many times `max_seq_length` tokens, and tokens see their own sequence alone; with 0
    it holds one, and padding. A sequence has at most `max_seq_length` tokens, [CLS] and
    [SEP] included. For `short_seq_rate` of the copies of documents a shorter length is
    drawn. The fraction `masked_lm_rate` of the tokens is masked; of these
    `mask_token_rate` become [MASK] and `random_token_rate` another token, and the rest
    are kept (BERT paper, section 3.1). With `lower_case` the
    text is lower-cased before it is tokenized. `seed` decides all that is drawn, and
    what is held out. `heldout_rate` is the fraction of documents kept out of the
    training records. There are at least `min_shards` training shards, and enough to
    keep each at about `shard_megabytes` before `compression`.
    """

    seed: int = validation.in_range(0, 2**63, "[)", default=12345)
    lower_case: bool = True
    pair_loss: str = validation.one_of(PAIR_LOSSES, default="sop")
    max_seq_length: int = validation.in_range(8, 65535, "[]", default=512)
    pack_sequences: int = validation.in_range(0, 64, "[]", default=0)
    short_seq_rate: float = validation.in_range(0, 1, "[]", default=0.1)
    masking: str = validation.one_of(MASKINGS, default="static")
    masked_lm_rate: float = validation.in_range(0, 1, "()", default=0.15)
    mask_token_rate: float = validation.in_range(0, 1, "[]", default=0.8)
    random_token_rate: float = validation.in_range(0, 1, "[]", default=0.1)
    max_predictions_per_seq: int = validation.in_range(0, 2**63, "[)", default=0)
    max_ngram: int = validation.at_least(1, default=3)
    ngram_distribution: str = validation.one_of(NGRAM_DISTRIBUTIONS, default="shorter")
    whole_words: bool = True
    dupe_factor: int = validation.at_least(1, default=10)
    heldout_rate: float = validation.in_range(0, 1, "[]", default=0.01)
    min_shards: int = validation.at_least(1, default=8)
    shard_megabytes: int = validation.at_least(1, default=128)
    compression: str = validation.one_of(COMPRESSIONS, default="none")

    def __post_init__(self):
        super().__post_init__()
        validation.require(
            self.mask_token_rate + self.random_token_rate <= 1,
            "data.mask_token_rate and data.random_token_rate must sum to 1 at most",
            (self.mask_token_rate, self.random_token_rate),
        )
        validation.require(
            self.max_seq_length * self.pack_sequences <= LONGEST_ROW,
            "data.max_seq_length times data.pack_sequences must be at most "
            f"{LONGEST_ROW}",
            (self.max_seq_length, self.pack_sequences),
        )

    @property
    def num_predictions(self) -> int:
        """The largest number of masked tokens of a sequence."""
        uncapped = max(1, round(self.max_seq_length * self.masked_lm_rate))
        return min(uncapped, self.max_predictions_per_seq or uncapped)

    @property
    def row(self) -> row_shapes.RowShape:
        """The shape of a row of a batch."""
        if not self.pack_sequences:
            return row_shapes.RowShape(self.max_seq_length, self.num_predictions)
        return row_shapes.packed(
            self.max_seq_length,
            self.pack_sequences,
            self.masked_lm_rate,
            self.num_predictions,
        )


OPTIMIZERS = ("lamb", "adamw", "muon")
DECAYS = ("polynomial", "cosine", "sqrt", "constant", "wsd", "wsd_sqrt")
WSD_DECAYS = ("wsd", "wsd_sqrt")
DECAY_STARTS = ("start", "warmup_end")
# Of the steps of a run: the paper's 3,125 of 125,000.
WARMUP_SHARE = 0.025


@dataclasses.dataclass(frozen=True)
class OptimizerConfig(validation.Section, name="optimizer"):
    """LAMB, AdamW or Muon, warmup and decay (ALBERT paper, section 4.1; LAMB paper).

    `name` chooses the optimizer; "muon" is AdamW with orthogonalized steps for the
    matrices of dense layers. `learning_rate` is the highest that is reached: the
    rate rises linearly over `warmup_steps`. If `warmup_steps` is not given, it is 2.5 %
    of the steps of the run, as in the paper (3,125 of 125,000), and at most what the
    decay leaves. After warmup the rate falls to 0 at the last step, as a polynomial of
    power `decay_power`, as a cosine or ("sqrt") as 1 minus the square root of the
    progress, or stays constant, depending on `decay`. The decay counts its
    steps from `decay_from`: "start" is the original's (the rate jumps down where warmup
    ends), "warmup_end" is continuous. With "wsd" (warmup, stable, decay) the rate stays
    constant until `decay_steps` before the last step, and then falls to 0 as that
    polynomial, which is linear by default; with "wsd_sqrt" it falls as 1 minus the
    square root of the progress. `beta_1` and `beta_2` are the decay rates of the first
    and the second moment. `epsilon` is added to the square root of the second moment.
    `bias_correction` is that of the LAMB paper and of Adam; the original has none.
    Gradients are clipped to the global norm `clip_norm`. `weight_decay_rate` is that of
    the decoupled decay of the weights.
    Variables whose name matches one of `exclude_patterns`, regular expressions, get
    neither weight decay nor, under LAMB, a trust ratio nor, under Muon, an
    orthogonalized step.
    """

    name: str = validation.one_of(OPTIMIZERS, default="lamb")
    learning_rate: float = validation.above(0, default=0.00176)
    # A number in every `Config`.
    warmup_steps: int = validation.at_least(
        0, default=None, default_rule="2.5 % of `train.num_steps`"
    )
    decay: str = validation.one_of(DECAYS, default="polynomial")
    decay_power: float = validation.above(0, default=1.0)
    decay_from: str = validation.one_of(DECAY_STARTS, default="start")
    decay_steps: int = validation.at_least(0, default=0)
    weight_decay_rate: float = validation.at_least(0, default=0.01)
    beta_1: float = validation.in_range(0, 1, "[)", default=0.9)
    beta_2: float = validation.in_range(0, 1, "[)", default=0.999)
    epsilon: float = validation.above(0, default=1e-6)
    bias_correction: bool = False
    clip_norm: float = validation.above(0, default=1.0)
    exclude_patterns: tuple[str, ...] = ("layer_norm", "bias")

    def __post_init__(self):
        super().__post_init__()
        validation.require(
            (self.decay_steps > 0) == (self.decay in WSD_DECAYS),
            "optimizer.decay_steps must be above 0 if optimizer.decay is "
            f"{' or '.join(WSD_DECAYS)}, and 0 if it is not",
            (self.decay, self.decay_steps),
        )
        for pattern in self.exclude_patterns:
            _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(
            "each of optimizer.exclude_patterns must be a regular expression; received "
            f"{pattern!r}: {error}"
        ) from error


COMPUTE_DTYPES = ("float32", "bfloat16")
# float16 is only for training, on GPUs that multiply nothing else as fast.
TRAIN_DTYPES = (*COMPUTE_DTYPES, "float16")


def serving_dtype(compute_dtype: str) -> str:
    """Returns the default dtype of what is made from a run, by that of the run."""
    return compute_dtype if compute_dtype in COMPUTE_DTYPES else COMPUTE_DTYPES[0]


BEST_METRICS = (
    "mlm_loss",
    "mlm_accuracy",
    "sentence_order_loss",
    "sentence_order_accuracy",
    "next_sentence_loss",
    "next_sentence_accuracy",
)
REMATS = ("none", "attention", "block")
JIT_COMPILE = ("auto", "on", "off")
WEIGHTS = ("averaged", "trained")
ON_NO_PROGRESS = ("warn", "end")


@dataclasses.dataclass(frozen=True)
class StageConfig(validation.Section, name="train.stages"):
    """A stage of a run: steps with batches of their own shape and records.

    A stage takes `num_steps` steps. Everything else is the recipe's unless it is set:
    `batch_size` and `accumulation_steps` that of `train`; `max_seq_length`,
    `pack_sequences`, `masked_lm_rate`, `max_predictions_per_seq`, `mask_token_rate` and
    `random_token_rate` that of `data`, and `records` those of `train.records`. Masks of
    static records were drawn when they were made: the first two settings of masks must
    be those of the records then, and the last two not be set. The learning rate is that
    of the schedule, which knows no stages, times `learning_rate_factor`.
    """

    num_steps: int = validation.at_least(1)
    batch_size: int | None = validation.at_least(1, default=None)
    accumulation_steps: int | None = validation.at_least(1, default=None)
    max_seq_length: int | None = validation.in_range(8, 65535, "[]", default=None)
    pack_sequences: int | None = validation.in_range(0, 64, "[]", default=None)
    masked_lm_rate: float | None = validation.in_range(0, 1, "()", default=None)
    mask_token_rate: float | None = validation.in_range(0, 1, "[]", default=None)
    random_token_rate: float | None = validation.in_range(0, 1, "[]", default=None)
    max_predictions_per_seq: int | None = validation.in_range(
        0, 2**63, "[)", default=None
    )
    records: dict[str, float] = validation.weights_by_name()
    learning_rate_factor: float = validation.above(0, default=1.0)


@dataclasses.dataclass(frozen=True)
class TrainConfig(validation.Section, name="train"):
    """The training loop: batches, steps, evaluation, checkpoints and compilation.

    `seed` decides the initial weights, the order of the records, dropout and dynamic
    masks. `num_steps` is the number of steps of the run. `batch_size` counts rows over
    all devices: sequences, unless these are packed. A batch is split into
    `accumulation_steps` equal parts, which the model processes one after another.
    `steps_per_loop` steps run on the device before the host reads the metrics. A batch
    is made from `num_streams` streams of records: a multiple of the number of hosts, or
    0 for one per host. With the same number the batches are the same on any number of
    hosts. `shuffle_buffer` counts the records of a stream from which the next is drawn.

    `records` are directories of records, relative to --data_dir, with weights: a batch
    draws from each in proportion to its weight. Without any, --data_dir itself holds
    the records. `stages` divide the run into parts with other batches; their steps add
    up to `num_steps`. Without any, the run is one stage with the recipe's settings.

    Held-out documents are evaluated every `eval_every_steps` steps. `eval_batch_size`
    counts rows per device; `eval_batches` limits an evaluation; 0 means all held-out
    records. A checkpoint is saved every `save_every_steps` steps. The last
    `keep_checkpoints` checkpoints are kept, and the one with the best held-out
    `best_metric`: for a task the name of one of its metrics, or empty for the first of
    them. If the held-out loss shows that pre-training does not learn, a line says so;
    with `on_no_progress` "end" and not "warn" the run also saves and ends, with exit
    code 78.

    With `ema_decay` above 0 the run keeps an exponential moving average of the weights:
    after each step it moves by 1 - `ema_decay` of the way to the weights, in the first
    steps by more (`optim/averaging.py`). `eval_weights` says which weights the
    evaluations of such a run use, "averaged" or "trained".

    Every `probe_every_steps` steps (0: never) the first `probe_pairs` minimal pairs of
    each paradigm of `probe_suite` are scored: the directory of BLiMP or Zorro, or a
    file of JSON lines (docs/probing.md).

    A step is skipped if its loss or gradient is not finite, or if its loss is more than
    `max_loss_rise` nats above the running mean of about 100 steps. Up to
    `max_skipped_steps` of them are counted; one more ends the run. If no step, no batch
    of an evaluation or no save is done within `stall_seconds`, that is logged; after
    `hang_seconds`, which a compilation must not take, the process ends, and the same
    command resumes. If checkpoints cannot be written for `save_retry_seconds`, the run
    ends. The blocks compute in `compute_dtype`; the weights stay in float32. With
    "float16", for GPUs without bfloat16, the loss is scaled: each `loss_scale_steps`
    good steps in a row double the scale, an overflow skips its step and halves it.
    `jit_compile` is what XLA compiles: "on" the whole forward and backward pass, "off"
    nothing; "auto" is "on" with an accelerator, and on a CPU compiles only the
    operations between matrix products. `remat` trades time for memory: the backward
    pass computes the activations within "attention", or within each "block", again
    instead of keeping them. With `queries_at_once` above 0 attention is computed for at
    most that many queries at a time, so that the probabilities of all pairs of tokens
    are never in memory; the backward pass computes each part's again.
    """

    seed: int = validation.in_range(0, 2**31, "[)", default=1)
    batch_size: int = validation.at_least(1, default=4096)
    accumulation_steps: int = validation.at_least(1, default=1)
    num_steps: int = validation.at_least(1, default=125000)
    steps_per_loop: int = validation.at_least(1, default=100)
    num_streams: int = validation.at_least(0, default=0)
    save_every_steps: int = validation.at_least(1, default=5000)
    keep_checkpoints: int = validation.at_least(1, default=5)
    best_metric: str = "mlm_loss"
    ema_decay: float = validation.in_range(0, 1, "[)", default=0.0)
    eval_weights: str = validation.one_of(WEIGHTS, default="averaged")
    on_no_progress: str = validation.one_of(ON_NO_PROGRESS, default="warn")
    eval_every_steps: int = validation.at_least(1, default=5000)
    eval_batch_size: int = validation.at_least(1, default=256)
    eval_batches: int = validation.at_least(0, default=0)
    probe_every_steps: int = validation.at_least(0, default=0)
    probe_suite: str = ""
    probe_pairs: int = validation.at_least(1, default=20)
    shuffle_buffer: int = validation.at_least(1, default=10000)
    max_loss_rise: float = validation.above(0, default=3.0)
    max_skipped_steps: int = validation.at_least(0, default=0)
    stall_seconds: float = validation.above(0, default=120.0)
    hang_seconds: float = validation.above(0, default=1800.0)
    save_retry_seconds: float = validation.at_least(0, default=3600.0)
    compute_dtype: str = validation.one_of(TRAIN_DTYPES, default="float32")
    loss_scale_steps: int = validation.at_least(1, default=2000)
    jit_compile: str = validation.one_of(JIT_COMPILE, default="auto")
    remat: str = validation.one_of(REMATS, default="none")
    queries_at_once: int = validation.at_least(0, default=0)
    records: dict[str, float] = validation.weights_by_name()
    stages: tuple[StageConfig, ...] = ()

    def __post_init__(self):
        super().__post_init__()
        validation.require(
            self.batch_size % self.accumulation_steps == 0,
            "train.batch_size must be a multiple of train.accumulation_steps",
            (self.batch_size, self.accumulation_steps),
        )
        validation.require(
            bool(self.probe_every_steps) == bool(self.probe_suite),
            "train.probe_every_steps and train.probe_suite must be set together",
            (self.probe_every_steps, self.probe_suite),
        )
        total = sum(stage.num_steps for stage in self.stages)
        validation.require(
            not self.stages or total == self.num_steps,
            f"train.num_steps must be the sum of those of train.stages, {total}, or "
            "pass --set train.stages=[]",
            self.num_steps,
        )


@dataclasses.dataclass(frozen=True)
class Config:
    """A whole recipe: model, text, data, optimizer, training, and a task if any.

    In fine-tuning, the sizes of the model, `text` and `data` are those of the run whose
    checkpoint it starts from.

    `warmup_follows_steps` says whether `optimizer.warmup_steps` was not given, so that
    it follows `train.num_steps` also where that is overridden.
    """

    warmup_follows_steps: ClassVar[bool]

    model: ModelConfig = ModelConfig()
    text: TextConfig = TextConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    train: TrainConfig = TrainConfig()
    task: task_config.TaskConfig = task_config.TaskConfig()

    def __post_init__(self):
        # Not a field: what a run records is the number.
        follows_steps = self.optimizer.warmup_steps is None
        object.__setattr__(self, "warmup_follows_steps", follows_steps)
        if follows_steps:
            object.__setattr__(self, "optimizer", self._with_default_warmup())
        validation.require(
            self.data.max_seq_length <= self.model.max_positions,
            "data.max_seq_length must not be larger than model.max_positions",
            (self.data.max_seq_length, self.model.max_positions),
        )
        if self.task.name:
            self._check_no_stages()
        else:
            self._check_pretraining_metric()
        validation.require(
            not (self.task.name and self.train.probe_every_steps),
            "train.probe_every_steps must be 0 in a recipe of fine-tuning, whose model "
            "has no masked-LM head",
            self.train.probe_every_steps,
        )
        for number, stage in enumerate(self.train.stages, 1):
            self._check_stage(f"train.stages.{number}", stage)
        # With "auto" all of these may still change; the result is checked.
        if self.task.hyperparameters != "auto":
            self._check_steps()

    def _with_default_warmup(self) -> OptimizerConfig:
        num_steps = self.train.num_steps
        room = max(0, num_steps - self.optimizer.decay_steps)
        warmup_steps = min(round(WARMUP_SHARE * num_steps), room)
        return dataclasses.replace(self.optimizer, warmup_steps=warmup_steps)

    def _check_steps(self) -> None:
        adam, num_steps = self.optimizer, self.train.num_steps
        received = {
            "optimizer.warmup_steps": adam.warmup_steps,
            "optimizer.decay_steps": adam.decay_steps,
            "train.num_steps": num_steps,
        }
        validation.require_together(
            adam.warmup_steps <= num_steps,
            "optimizer.warmup_steps must not be larger than train.num_steps",
            received,
        )
        validation.require_together(
            adam.warmup_steps + adam.decay_steps <= num_steps,
            "optimizer.warmup_steps and optimizer.decay_steps together must not be "
            "larger than train.num_steps",
            received,
        )

    @property
    def longest_sequence(self) -> int:
        """The maximal tokens of a sequence in pre-training, of all stages."""
        lengths = [stage.max_seq_length for stage in self.train.stages]
        return max(
            (length or self.data.max_seq_length for length in lengths),
            default=self.data.max_seq_length,
        )

    def check_pretraining(self) -> None:
        """Raises a ValueError if this recipe cannot be pre-trained."""
        validation.require(
            not self.task.name,
            "task.name must be empty in a recipe for pre-training; "
            f"`{console.command_line('albert_tf.finetune')}` trains tasks",
            self.task.name,
        )
        validation.require(
            self.model.type_vocab_size >= 2 or self.data.pair_loss == "none",
            "model.type_vocab_size must be at least 2, one for each segment of a pair, "
            "unless data.pair_loss is none",
            self.model.type_vocab_size,
        )

    def _check_no_stages(self) -> None:
        for name in ("records", "stages"):
            value = getattr(self.train, name)
            validation.require(
                not value, f"train.{name} must be empty in a recipe for a task", value
            )

    def _check_stage(self, name: str, stage: StageConfig) -> None:
        length = stage.max_seq_length or self.data.max_seq_length
        validation.require(
            length <= self.model.max_positions,
            f"{name}.max_seq_length must not be larger than model.max_positions",
            (length, self.model.max_positions),
        )
        num_packed = stage.pack_sequences
        num_packed = self.data.pack_sequences if num_packed is None else num_packed
        validation.require(
            length * num_packed <= LONGEST_ROW,
            f"{name}.max_seq_length times its pack_sequences must be at most "
            f"{LONGEST_ROW}",
            (length, num_packed),
        )
        batch_size = stage.batch_size or self.train.batch_size
        num_parts = stage.accumulation_steps or self.train.accumulation_steps
        validation.require(
            batch_size % num_parts == 0,
            f"{name}.batch_size must be a multiple of its accumulation_steps",
            (batch_size, num_parts),
        )
        rates = (stage.mask_token_rate, stage.random_token_rate)
        validation.require(
            self.data.masking == "dynamic" or rates == (None, None),
            f"{name}.mask_token_rate and {name}.random_token_rate need data.masking to "
            "be dynamic, since static records keep the masks that they were made with",
            rates,
        )
        of_recipe = (self.data.mask_token_rate, self.data.random_token_rate)
        taken = tuple(
            own if rate is None else rate
            for rate, own in zip(rates, of_recipe, strict=True)
        )
        validation.require(
            sum(taken) <= 1,
            f"{name}.mask_token_rate and its random_token_rate must sum to 1 at most",
            taken,
        )

    def _check_pretraining_metric(self) -> None:
        metric = self.train.best_metric
        validation.require_choice("train.best_metric", metric, BEST_METRICS)
        pair = {"sop": "sentence_order", "nsp": "next_sentence"}
        measured = ("mlm", pair.get(self.data.pair_loss, "mlm"))
        validation.require(
            metric.startswith(measured),
            "train.best_metric must be a metric of masked words, or of the pair loss "
            f"data.pair_loss={self.data.pair_loss}",
            metric,
        )
