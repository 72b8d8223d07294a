"""The section `task` of the configuration: the task of a fine-tuning run."""

import dataclasses

from albert_tf.core import validation

TASKS = (
    "cola",
    "sst2",
    "mrpc",
    "stsb",
    "qqp",
    "mnli",
    "qnli",
    "rte",
    "wnli",
    "squad1",
    "squad2",
    "race",
    "table",
    "conll",
)
# As pages and model cards name them.
TITLES = {
    "cola": "CoLA",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "stsb": "STS-B",
    "qqp": "QQP",
    "mnli": "MNLI",
    "qnli": "QNLI",
    "rte": "RTE",
    "wnli": "WNLI",
    "squad1": "SQuAD 1.1",
    "squad2": "SQuAD 2.0",
    "race": "RACE",
    "table": "a custom table",
    "conll": "word labels (CoNLL)",
}
TABLE_KINDS = ("classification", "regression")
INITIAL_WEIGHTS = ("checkpoint", "random")
ON_BAD_EXAMPLE = ("error", "skip")
HYPERPARAMETERS = ("given", "auto")


@dataclasses.dataclass(frozen=True)
class TaskConfig(validation.Section, name="task"):
    """A task, its features and its head (ALBERT paper, section 4.1 and appendix A.4).

    `name` is one of `TASKS`; empty means pre-training. With `initial_weights` "random"
    only sizes and vocabulary come from the checkpoint, for a baseline.

    `hyperparameters` "auto" chooses rate, steps, warmup and lengths by the sizes of
    model and data (`finetuning/hyperparameters.py`), except `given_settings`, to which
    `--set` adds those that it sets. "given" leaves all as they are; config.json, where
    the choice is recorded, has "given".

    A text, or a pair of texts, has at most `max_seq_length` tokens. With `num_lengths`
    above 1 training batches have items of like lengths, padded to one of so many
    lengths, which are chosen for the least padding; with 1 all batches are padded to
    the longest row, in an order that does not depend on lengths. The head drops
    `classifier_dropout_rate`; the encoder's rates are `model.*_dropout_rate`. With
    `layer_decay` below 1 the learning rate falls by that factor with each layer from
    the head down. A run ends after `patience` evaluations without a better score; 0
    never ends it. `selection_fraction` of the training examples are kept out of
    training, and the best checkpoint is selected on them, so that the development set
    stays unseen; with 0 it is selected on the development set. `on_bad_example` is
    "error" (the first ends the run) or "skip" (they are omitted and counted).

    Questions on a text (SQuAD) are cut to `max_query_length` tokens; windows over the
    text begin `doc_stride` tokens apart. The answer is the best of `n_best_size` of at
    most `max_answer_length` tokens. SQuAD 2.0 searches `num_starts` starts and
    `num_ends` ends for each. A question with an option (RACE) has at most
    `max_option_length` tokens.

    `train_file`, `dev_file` and `test_file` replace the official names within the data
    directory; empty means these. In a table of one's own (task "table") `text_column`,
    `pair_column` (empty: single texts), `label_column` and `id_column` (empty: rows are
    numbered) name the columns, and `kind` says whether labels are classes or numbers.
    """

    name: str = validation.one_of(TASKS, default="")
    initial_weights: str = validation.one_of(INITIAL_WEIGHTS, default="checkpoint")
    hyperparameters: str = validation.one_of(HYPERPARAMETERS, default="given")
    given_settings: tuple[str, ...] = ()
    max_seq_length: int = validation.at_least(8, default=512)
    num_lengths: int = validation.in_range(1, 8, "[]", default=1)
    classifier_dropout_rate: float = validation.in_range(0, 1, "[)", default=0.1)
    layer_decay: float = validation.in_range(0, 1, "(]", default=1.0)
    patience: int = validation.at_least(0, default=0)
    selection_fraction: float = validation.in_range(0, 1, "[)", default=0.0)
    on_bad_example: str = validation.one_of(ON_BAD_EXAMPLE, default="error")
    doc_stride: int = validation.at_least(1, default=128)
    max_query_length: int = validation.at_least(1, default=64)
    n_best_size: int = validation.at_least(1, default=20)
    max_answer_length: int = validation.at_least(1, default=30)
    num_starts: int = validation.at_least(1, default=5)
    num_ends: int = validation.at_least(1, default=5)
    max_option_length: int = validation.at_least(1, default=128)
    train_file: str = ""
    dev_file: str = ""
    test_file: str = ""
    text_column: str = "text"
    pair_column: str = ""
    label_column: str = "label"
    id_column: str = ""
    kind: str = validation.one_of(TABLE_KINDS, default="classification")
