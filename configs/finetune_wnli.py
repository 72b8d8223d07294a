"""WNLI: the noun that a pronoun refers to (GLUE).

python -m albert_tf.finetune --config=configs/finetune_wnli.py \
    --init_checkpoint=RUN --data_dir=glue_data/WNLI --model_dir=wnli

The row of this task in the paper's table could not be verified.

2,000 steps of 16 sequences of at most 512 tokens.
"""

from albert_tf.core import config, task_config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(hidden_dropout_rate=0.1, attention_dropout_rate=0.1),
        optimizer=config.OptimizerConfig(
            name="adamw", learning_rate=2e-5, warmup_steps=250
        ),
        train=config.TrainConfig(
            batch_size=16,
            num_steps=2000,
            steps_per_loop=50,
            save_every_steps=500,
            keep_checkpoints=1,
            best_metric="",
            eval_every_steps=500,
            eval_batch_size=64,
        ),
        task=task_config.TaskConfig(name="wnli", hyperparameters="auto"),
    )
