"""SQuAD 2.0: questions on a text, some of which it does not answer.

python -m albert_tf.finetune --config=configs/finetune_squad2.py \
    --init_checkpoint=RUN --data_dir=squad --model_dir=squad2

8,144 steps of 48 sequences of at most 512 tokens (ALBERT paper, appendix A.4).
"""

from albert_tf.core import config, task_config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        optimizer=config.OptimizerConfig(
            name="adamw", learning_rate=3e-5, warmup_steps=814
        ),
        train=config.TrainConfig(
            batch_size=48,
            num_steps=8144,
            steps_per_loop=50,
            save_every_steps=500,
            keep_checkpoints=1,
            best_metric="best_f1",
            eval_every_steps=500,
            eval_batch_size=64,
        ),
        task=task_config.TaskConfig(name="squad2", hyperparameters="auto"),
    )
