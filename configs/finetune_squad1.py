"""SQuAD 1.1: questions whose answer is a part of a text.

python -m albert_tf.finetune --config=configs/finetune_squad1.py \
    --init_checkpoint=RUN --data_dir=squad --model_dir=squad1

3,649 steps of 48 sequences of at most 384 tokens (ALBERT paper, appendix A.4).
"""

from albert_tf.core import config, task_config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        optimizer=config.OptimizerConfig(
            name="adamw", learning_rate=5e-5, warmup_steps=365
        ),
        train=config.TrainConfig(
            batch_size=48,
            num_steps=3649,
            steps_per_loop=50,
            save_every_steps=500,
            keep_checkpoints=1,
            best_metric="",
            eval_every_steps=500,
            eval_batch_size=64,
        ),
        task=task_config.TaskConfig(
            name="squad1", hyperparameters="auto", max_seq_length=384
        ),
    )
