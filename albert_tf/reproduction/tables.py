"""The tables: which experiments each has, and what of the paper they stand beside.

Source: Lan et al. (2019), tables 3 to 8 and 11 to 13.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from albert_tf.core import binaries, config_io, plurals
from albert_tf.core import config as config_lib
from albert_tf.reproduction import budgets, experiments, paper

_SHARING_LABELS = {
    "all": "all shared",
    "attention": "attention shared",
    "feed_forward": "feed-forward shared",
    "none": "not shared",
}


@dataclasses.dataclass(frozen=True)
class Measure:
    """A column of a table.

    Attributes:
      key: of the measured values.
      label: its title.
      paper: which figure of the paper it is compared with, if any.
      is_share: whether it is shown in percent.
      chance: of the paper's figure, in percent; rows that are both near it in the paper
        are not compared.
    """

    key: str
    label: str
    paper: str = ""
    is_share: bool = True
    chance: float = 0.0


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
      name: unique in the table.
      label: its title.
      experiment: what is trained.
      paper: figures of the paper, by name.
    """

    name: str
    label: str
    experiment: experiments.Experiment
    paper: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
      name: of the command line.
      numbers: of the paper's table.
      title: what it compares.
      measures: the columns.
      rows: the rows.
      comparisons: pairs of rows whose order is compared with the paper's.
    """

    name: str
    numbers: str
    title: str
    measures: tuple[Measure, ...]
    rows: tuple[Row, ...]
    comparisons: tuple[tuple[str, str], ...]


AVERAGE = "average"
_LEARNT = (
    Measure("mlm_accuracy", "MLM accuracy", AVERAGE),
    Measure("mlm_loss", "MLM loss", is_share=False),
    Measure("blimp", "BLiMP", AVERAGE),
    Measure("sst2", "SST-2", AVERAGE),
)


class Maker:
    """Makes the tables of a budget."""

    def __init__(self, budget: budgets.Budget, settings: Sequence[str] = ()):
        """Takes the budget, and changes of the recipe in all its experiments."""
        recipe = str(binaries.ROOT / "configs" / f"{budget.recipe}.py")
        self._budget = budget
        self._base = config_io.load(recipe, [*budget.settings, *settings])
        self._settings = tuple(settings)

    def make(self, name: str) -> Table:
        """Returns a table by its name, a key of `TABLES`.

        Raises:
          ValueError: the settings change what the table compares, or leave no steps to
            a run that continues another.
        """
        keys = {setting.partition("=")[0] for setting in self._settings}
        varied = _varied(TABLES[name](Maker(self._budget)))
        if changed := sorted(keys & varied):
            raise ValueError(
                f"--set must not change what --table={name} compares; received "
                f"{', '.join(changed)}"
            )
        table = TABLES[name](self)
        for row in table.rows:
            trained = row.experiment
            start = trained.start
            if start and trained.config.train.num_steps <= start.config.train.num_steps:
                raise ValueError(
                    f"--set must leave steps to {trained.name} after those of "
                    f"{start.name}; received {', '.join(self._settings)}"
                )
        return table

    # ---- Experiments ----

    def _config(self, *settings: str) -> config_lib.Config:
        return config_io.override(self._base, [*settings, *self._settings])

    def _dataset(
        self, text: str = experiments.MAIN, pair_loss: str = ""
    ) -> experiments.Dataset:
        data = self._base.data
        return experiments.Dataset(
            text,
            pair_loss or data.pair_loss,
            data.max_seq_length,
            data.pack_sequences,
        )

    def _pair_dataset(self, pair_loss: str) -> experiments.Dataset:
        budget = self._budget
        return experiments.Dataset(
            experiments.MAIN, pair_loss, budget.pair_length, budget.pair_pack
        )

    def _experiment(self, *settings: str) -> experiments.Experiment:
        """Returns the training of a model of some sizes, named by them."""
        records = (self._dataset(),)
        config = self._config(*settings, *experiments.records_of(records))
        model = config.model
        name = (
            f"e{model.embedding_size}-h{model.hidden_size}-l{model.num_layers}-"
            f"{model.sharing}"
        )
        return experiments.Experiment(name, config, records)

    # ---- Tables ----

    def embedding_size(self) -> Table:
        """Table 3: the size of the embeddings, with and without sharing."""
        rows, comparisons = [], []
        for sharing in ("none", "all"):
            names = []
            printed = paper.EMBEDDING_SIZES[sharing]
            for size, theirs in zip(self._budget.embedding_sizes, printed, strict=True):
                names.append(f"{sharing}-{size}")
                trained = self._experiment(
                    f"model.sharing={sharing}", f"model.embedding_size={size}"
                )
                label = f"{_SHARING_LABELS[sharing]}, E {size} (paper: {theirs})"
                rows.append(_row(names[-1], label, trained, printed[theirs]))
            # E of 128, which ALBERT has, is the second.
            comparisons += [(names[i], names[1]) for i in (0, 2, 3)]
        for size in self._budget.embedding_sizes:
            comparisons.append((f"all-{size}", f"none-{size}"))
        return Table(
            "embedding_size",
            "3",
            "Size of the embeddings",
            _LEARNT,
            tuple(rows),
            tuple(comparisons),
        )

    def sharing(self) -> Table:
        """Table 4: what the layers share."""
        rows, comparisons = [], []
        sizes = self._budget.embedding_sizes
        for size, theirs in ((sizes[-1], 768), (sizes[1], 128)):
            for sharing, scores in paper.SHARINGS[theirs].items():
                trained = self._experiment(
                    f"model.sharing={sharing}", f"model.embedding_size={size}"
                )
                label = f"E {size} (paper: {theirs}), {_SHARING_LABELS[sharing]}"
                rows.append(_row(f"{sharing}-{size}", label, trained, scores))
            comparisons += [
                (f"{sharing}-{size}", f"none-{size}")
                for sharing in ("all", "attention", "feed_forward")
            ]
            comparisons.append((f"feed_forward-{size}", f"attention-{size}"))
        return Table(
            "sharing",
            "4",
            "What the layers share",
            _LEARNT,
            tuple(rows),
            tuple(comparisons),
        )

    def pair_loss(self) -> Table:
        """Table 5: no pair loss, next sentence, sentence order."""
        judged = tuple((kind, self._pair_dataset(kind)) for kind in ("sop", "nsp"))
        rows = []
        for kind, figures in paper.INTRINSIC.items():
            records = (self._pair_dataset(kind),)
            config = self._config(
                *self._budget.pair_settings, *experiments.records_of(records)
            )
            trained = experiments.Experiment(f"pair-{kind}", config, records, judged)
            printed = {**figures, AVERAGE: paper.PAIR_LOSSES[kind].average}
            rows.append(Row(kind, _PAIR_LABELS[kind], trained, printed))
        measures = (
            # On records of the model's own kind.
            Measure("mlm_accuracy", "MLM accuracy", "mlm"),
            Measure("nsp/next_sentence_accuracy", "NSP accuracy", "nsp", chance=50.0),
            Measure("sop/sentence_order_accuracy", "SOP accuracy", "sop", chance=50.0),
            Measure("sst2", "SST-2", AVERAGE),
        )
        comparisons = (("nsp", "none"), ("sop", "none"), ("sop", "nsp"))
        return Table(
            "pair_loss", "5", "Loss of the pair", measures, tuple(rows), comparisons
        )

    def same_time(self) -> Table:
        """Table 6: a model like BERT large and one like ALBERT xxlarge."""
        budget = self._budget
        records = (self._dataset(),)
        rows = [
            _row(
                name,
                label,
                experiments.Experiment(
                    f"same-time-{name}",
                    self._config(*settings, *experiments.records_of(records)),
                    records,
                    seconds=budget.same_seconds,
                ),
                paper.SAME_TIME[name],
            )
            for name, label, settings in (
                ("bert_large", "like BERT large", budget.bert_settings),
                ("albert_xxlarge", "like ALBERT xxlarge", budget.albert_settings),
            )
        ]
        measures = (Measure("num_steps", "steps", is_share=False), *_LEARNT)
        comparisons = (("albert_xxlarge", "bert_large"),)
        return Table("same_time", "6", "Same time", measures, tuple(rows), comparisons)

    def added_data(self) -> Table:
        """Table 7: one text, and the same with another one."""
        main, other = (
            self._dataset(text) for text in (experiments.MAIN, experiments.OTHER)
        )
        judged = ((experiments.MAIN, main), (experiments.OTHER, other))
        rows = []
        for name, label, records in (
            ("without", "text of --input", (main,)),
            ("with", "and text of --other_input", (main, other)),
        ):
            config = self._config(*experiments.records_of(records))
            trained = experiments.Experiment(f"data-{name}", config, records, judged)
            rows.append(_row(name, label, trained, paper.ADDED_DATA[name]))
        measures = (
            Measure("main/mlm_accuracy", "MLM accuracy on --input"),
            Measure("other/mlm_accuracy", "MLM accuracy on --other_input"),
            *_LEARNT[2:],
        )
        comparisons = (("with", "without"),)
        return Table(
            "added_data", "7", "Added data", measures, tuple(rows), comparisons
        )

    def dropout(self) -> Table:
        """Table 8: dropout removed late."""
        budget = self._budget
        records = (self._dataset(),)
        read = experiments.records_of(records)
        before, after = budget.dropout_steps
        first = experiments.Experiment(
            "dropout-start",
            self._config(
                *read,
                *budget.dropout_settings,
                "optimizer.decay=constant",
                "optimizer.decay_steps=0",
                f"train.num_steps={before}",
                f"train.eval_every_steps={before}",
            ),
            records,
        )
        ending = (
            "optimizer.decay=wsd",
            f"optimizer.decay_steps={after}",
            f"train.num_steps={before + after}",
            f"train.eval_every_steps={before + after}",
        )
        removed = ("model.hidden_dropout_rate=0", "model.attention_dropout_rate=0")
        rows = []
        for name, label, last in (
            ("with", "with dropout to the end", ()),
            ("without", "dropout removed late", removed),
        ):
            config = self._config(*read, *budget.dropout_settings, *ending, *last)
            trained = experiments.Experiment(
                f"dropout-{name}",
                config,
                records,
                start=first,
            )
            rows.append(_row(name, label, trained, paper.DROPOUT[name]))
        comparisons = (("without", "with"),)
        return Table(
            "dropout", "8", "Dropout removed late", _LEARNT, tuple(rows), comparisons
        )

    def depth(self) -> Table:
        """Table 11: the number of layers."""
        rows = [
            _row(
                f"{ours}",
                f"{plurals.count(ours, 'layer')} (paper: {theirs})",
                self._experiment(
                    *self._budget.depth_settings, f"model.num_layers={ours}"
                ),
                paper.DEPTHS[theirs],
            )
            for ours, theirs in self._budget.depths
        ]
        return Table(
            "depth", "11", "Number of layers", _LEARNT, tuple(rows), _in_steps(rows)
        )

    def width(self) -> Table:
        """Table 12: the hidden size, of a model of few layers."""
        rows = [
            _row(
                f"{ours}",
                f"H {ours} (paper: {theirs})",
                self._experiment(
                    *self._budget.width_settings,
                    f"model.hidden_size={ours}",
                    f"model.intermediate_size={4 * ours}",
                    f"model.num_heads={ours // self._budget.head_size}",
                ),
                paper.WIDTHS[theirs],
            )
            for ours, theirs in self._budget.widths
        ]
        return Table(
            "width", "12", "Hidden size", _LEARNT, tuple(rows), _in_steps(rows)
        )

    def wide_depth(self) -> Table:
        """Table 13: the number of layers of a wide model."""
        rows = [
            _row(
                f"{ours}",
                f"{plurals.count(ours, 'layer')} (paper: {theirs})",
                self._experiment(
                    *self._budget.wide_settings, f"model.num_layers={ours}"
                ),
                paper.WIDE_DEPTHS[theirs],
            )
            for ours, theirs in self._budget.wide_depths
        ]
        return Table(
            "wide_depth",
            "13",
            "Number of layers of a wide model",
            _LEARNT,
            tuple(rows),
            _in_steps(rows),
        )


_PAIR_LABELS = {"none": "none", "nsp": "next sentence", "sop": "sentence order"}

TABLES: dict[str, Callable[[Maker], Table]] = {
    "embedding_size": Maker.embedding_size,
    "sharing": Maker.sharing,
    "pair_loss": Maker.pair_loss,
    "same_time": Maker.same_time,
    "added_data": Maker.added_data,
    "dropout": Maker.dropout,
    "depth": Maker.depth,
    "width": Maker.width,
    "wide_depth": Maker.wide_depth,
}


def _row(
    name: str, label: str, trained: experiments.Experiment, scores: paper.Scores
) -> Row:
    return Row(name, label, trained, {AVERAGE: scores.average})


def _varied(table: Table) -> set[str]:
    """Returns the settings in which rows differ."""
    values: dict[str, list[Any]] = {}
    for row in table.rows:
        for section, settings in config_io.to_dict(row.experiment.config).items():
            for name, value in settings.items():
                values.setdefault(f"{section}.{name}", []).append(value)
    return {key for key, found in values.items() if any(v != found[0] for v in found)}


def _in_steps(rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    """Compares each row with the one before it."""
    return tuple(
        (after.name, before.name) for before, after in itertools.pairwise(rows)
    )
