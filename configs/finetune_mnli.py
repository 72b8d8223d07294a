"""MNLI (GLUE): does a sentence follow from another? Also the diagnostic set.

python -m albert_tf.finetune --config=configs/finetune_mnli.py \
    --init_checkpoint=RUN --data_dir=glue_data/MNLI --model_dir=mnli

10,000 steps of 128 sequences of at most 512 tokens (ALBERT paper, appendix A.4).
"""

from albert_tf.core import config, task_config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        optimizer=config.OptimizerConfig(
            name="adamw", learning_rate=3e-5, warmup_steps=1000
        ),
        train=config.TrainConfig(
            batch_size=128,
            num_steps=10000,
            steps_per_loop=50,
            save_every_steps=500,
            keep_checkpoints=1,
            best_metric="",
            eval_every_steps=500,
            eval_batch_size=64,
        ),
        task=task_config.TaskConfig(name="mnli", hyperparameters="auto"),
    )
