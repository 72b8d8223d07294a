"""One's own texts or pairs of texts, with classes or numbers.

python -m albert_tf.finetune --config=configs/finetune_table.py \
    --init_checkpoint=RUN --data_dir=DATA --model_dir=table

The data is in DATA/train, dev and test with the ending .tsv, .csv or .jsonl. Its
columns `text` and `label` may have other names: --set task.text_column=... --set
task.pair_column=... --set task.label_column=... With --set task.kind=regression labels
are numbers; they should be within a few units of 0, so divide large ones first.

2,000 steps of 32 sequences of at most 128 tokens. For a model with a hidden size below
768 rate and steps follow from the sizes of model and data (docs/finetuning.md).
"""

from albert_tf.core import config, task_config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        optimizer=config.OptimizerConfig(
            name="adamw", learning_rate=2e-5, warmup_steps=200
        ),
        train=config.TrainConfig(
            batch_size=32,
            num_steps=2000,
            steps_per_loop=50,
            save_every_steps=500,
            keep_checkpoints=1,
            best_metric="",
            eval_every_steps=500,
            eval_batch_size=64,
            # Of numbers it is in their units, squared.
            max_loss_rise=1e4,
        ),
        task=task_config.TaskConfig(
            name="table", hyperparameters="auto", max_seq_length=128
        ),
    )
