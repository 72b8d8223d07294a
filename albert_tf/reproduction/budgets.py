"""Budgets: the sizes and lengths of all experiments, from a smoke test to the paper's.

`smoke` shows within minutes that everything runs. `hour` trains most experiments for
about ten minutes on one core, by `configs/small_ablations.py`, in float32, which no CPU
has to emulate. `full` has the sizes and steps of the paper.
"""

import dataclasses

SMOKE, HOUR, FULL = "smoke", "hour", "full"


@dataclasses.dataclass(frozen=True)
class Budget:
    """Sizes and lengths. Settings are `key.sub=value`; later ones replace earlier ones.

    Attributes:
      recipe: in configs/, without ".py"; the base of all experiments.
      settings: what the base changes in it.
      num_seeds: of each experiment.
      embedding_sizes: E for 64, 128, 256 and 768 in the paper; the second is the
        base's, the last H.
      depth_settings: of the model whose depth varies.
      depths: (ours, the paper's) numbers of layers.
      width_settings: of the models whose width varies.
      widths: (ours, the paper's) hidden sizes.
      head_size: of the models whose width varies.
      wide_settings: of the wide model, of two depths.
      wide_depths: (ours, the paper's) numbers of its layers.
      bert_settings: of the model like BERT large in the comparison at the same time.
      albert_settings: of the model like ALBERT xxlarge there.
      same_seconds: of training there.
      dropout_settings: of the model that loses its dropout late.
      dropout_steps: before that, and after it.
      pair_settings: of the models of the comparison of pair losses.
      pair_length: tokens of their sequences.
      pair_pack: as `data.pack_sequences` there.
      blimp_pairs: pairs of each paradigm; 0 probes nothing.
      task_settings: of the fine-tuning.
    """

    recipe: str
    settings: tuple[str, ...]
    num_seeds: int
    embedding_sizes: tuple[int, int, int, int]
    depth_settings: tuple[str, ...]
    depths: tuple[tuple[int, int], ...]
    width_settings: tuple[str, ...]
    widths: tuple[tuple[int, int], ...]
    head_size: int
    wide_settings: tuple[str, ...]
    wide_depths: tuple[tuple[int, int], ...]
    bert_settings: tuple[str, ...]
    albert_settings: tuple[str, ...]
    same_seconds: float
    dropout_settings: tuple[str, ...]
    dropout_steps: tuple[int, int]
    pair_settings: tuple[str, ...]
    pair_length: int
    pair_pack: int
    blimp_pairs: int
    task_settings: tuple[str, ...]


def _sizes(
    hidden_size: int, num_heads: int, num_layers: int, embedding_size: int
) -> tuple[str, ...]:
    return (
        f"model.hidden_size={hidden_size}",
        f"model.num_heads={num_heads}",
        f"model.intermediate_size={4 * hidden_size}",
        f"model.num_layers={num_layers}",
        f"model.embedding_size={embedding_size}",
    )


def _steps(num_steps: int, warmup_steps: int, decay_steps: int) -> tuple[str, ...]:
    return (
        f"train.num_steps={num_steps}",
        f"train.eval_every_steps={num_steps}",
        f"optimizer.warmup_steps={warmup_steps}",
        "optimizer.decay=wsd",
        f"optimizer.decay_steps={decay_steps}",
    )


_DROPOUT = ("model.hidden_dropout_rate=0.1", "model.attention_dropout_rate=0.1")

_SMOKE = Budget(
    recipe="small_ablations",
    settings=(
        *_sizes(24, 2, 2, 4),
        *_steps(8, 2, 4),
        "model.vocab_size=500",
        "model.max_positions=64",
        "data.max_seq_length=32",
        "data.pack_sequences=2",
        "data.heldout_rate=0.1",
        "train.batch_size=8",
        "train.steps_per_loop=4",
        "train.save_every_steps=4",
        "train.eval_batch_size=8",
        "train.eval_batches=2",
        "train.jit_compile=off",
    ),
    num_seeds=1,
    embedding_sizes=(2, 4, 8, 24),
    depth_settings=(),
    depths=((1, 1), (3, 3)),
    width_settings=("model.num_layers=1",),
    widths=((24, 1024), (48, 2048)),
    head_size=12,
    wide_settings=_sizes(48, 4, 1, 4),
    wide_depths=((1, 12), (2, 24)),
    bert_settings=(*_sizes(24, 2, 2, 24), "model.sharing=none"),
    albert_settings=_sizes(48, 2, 1, 4),
    same_seconds=1.0,
    dropout_settings=_DROPOUT,
    dropout_steps=(4, 4),
    pair_settings=(),
    pair_length=64,
    pair_pack=1,
    blimp_pairs=1,
    task_settings=(
        "task.max_seq_length=32",
        "train.num_steps=4",
        "optimizer.warmup_steps=1",
        "train.eval_every_steps=4",
        "train.save_every_steps=4",
    ),
)

_HOUR = Budget(
    recipe="small_ablations",
    settings=(),
    num_seeds=3,
    embedding_sizes=(8, 16, 32, 96),
    depth_settings=(),
    depths=((1, 1), (3, 3), (6, 6), (12, 12)),
    width_settings=("model.num_layers=3",),
    widths=((32, 1024), (64, 2048), (128, 4096), (192, 6144)),
    head_size=32,
    wide_settings=_sizes(128, 4, 3, 16),
    wide_depths=((3, 12), (6, 24)),
    bert_settings=(*_sizes(96, 3, 8, 96), "model.sharing=none"),
    albert_settings=_sizes(192, 6, 4, 16),
    # After half of it on one core models of that width have a loss of 6.2 to 6.3:
    # docs/experiments.md, the smaller base, 2.0 million tokens.
    same_seconds=1200.0,
    dropout_settings=_DROPOUT,
    dropout_steps=(6000, 3000),
    # With which this table was measured; smaller models were not tried on pairs.
    pair_settings=(
        *_sizes(192, 4, 4, 32),
        *_steps(3000, 200, 2200),
        "train.batch_size=16",
        "train.save_every_steps=500",
    ),
    pair_length=64,
    pair_pack=2,
    blimp_pairs=50,
    task_settings=(
        "task.max_seq_length=32",
        "task.hyperparameters=given",
        "optimizer.learning_rate=3e-4",
        "optimizer.bias_correction=true",
        "train.num_steps=700",
        "optimizer.warmup_steps=70",
        "train.eval_every_steps=700",
        "train.save_every_steps=700",
    ),
)

_LARGE = _sizes(1024, 16, 24, 128)
_XXLARGE = _sizes(4096, 64, 12, 128)
_FULL = Budget(
    recipe="albert_base",
    settings=("train.eval_every_steps=125000",),
    num_seeds=3,
    embedding_sizes=(64, 128, 256, 768),
    depth_settings=_LARGE,
    depths=tuple((number, number) for number in (1, 3, 6, 12, 24, 48)),
    width_settings=(*_LARGE, "model.num_layers=3"),
    widths=tuple((size, size) for size in (1024, 2048, 4096, 6144)),
    head_size=64,
    wide_settings=_XXLARGE,
    wide_depths=((12, 12), (24, 24)),
    bert_settings=(*_sizes(1024, 16, 24, 1024), "model.sharing=none", *_DROPOUT),
    albert_settings=_XXLARGE,
    same_seconds=32 * 3600.0,
    dropout_settings=(*_XXLARGE, *_DROPOUT),
    dropout_steps=(1_000_000, 125_000),
    pair_settings=(),
    pair_length=512,
    pair_pack=0,
    blimp_pairs=0,
    task_settings=(),
)

BUDGETS = {SMOKE: _SMOKE, HOUR: _HOUR, FULL: _FULL}
