"""QQP (GLUE): do two questions ask the same?

python -m albert_tf.finetune --config=configs/finetune_qqp.py \
    --init_checkpoint=RUN --data_dir=glue_data/QQP --model_dir=qqp

Some rows of the official train.tsv are broken by line ends; they are omitted.

14,000 steps of 128 sequences of at most 512 tokens (ALBERT paper, appendix A.4).
"""

from albert_tf.core import config, task_config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(hidden_dropout_rate=0.1, attention_dropout_rate=0.1),
        optimizer=config.OptimizerConfig(
            name="adamw", learning_rate=5e-5, warmup_steps=1000
        ),
        train=config.TrainConfig(
            batch_size=128,
            num_steps=14000,
            steps_per_loop=50,
            save_every_steps=500,
            keep_checkpoints=1,
            best_metric="",
            eval_every_steps=500,
            eval_batch_size=64,
        ),
        task=task_config.TaskConfig(
            name="qqp", hyperparameters="auto", on_bad_example="skip"
        ),
    )
