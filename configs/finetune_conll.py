"""Token classification on one's own data in CoNLL format.

python -m albert_tf.finetune --config=configs/finetune_conll.py \
    --init_checkpoint=RUN --data_dir=DATA --model_dir=conll

The data is in DATA/train.txt and DATA/dev.txt.

2,000 steps of 32 sequences of at most 128 tokens.
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
        ),
        task=task_config.TaskConfig(
            name="conll", hyperparameters="auto", max_seq_length=128
        ),
    )
