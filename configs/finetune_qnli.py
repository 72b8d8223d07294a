"""QNLI (GLUE): does a sentence answer a question?

python -m albert_tf.finetune --config=configs/finetune_qnli.py \
    --init_checkpoint=RUN --data_dir=glue_data/QNLI --model_dir=qnli

33,112 steps of 32 sequences of at most 512 tokens (ALBERT paper, appendix A.4).
"""

from albert_tf.core import config, task_config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        optimizer=config.OptimizerConfig(
            name="adamw", learning_rate=1e-5, warmup_steps=1986
        ),
        train=config.TrainConfig(
            batch_size=32,
            num_steps=33112,
            steps_per_loop=50,
            save_every_steps=500,
            keep_checkpoints=1,
            best_metric="",
            eval_every_steps=500,
            eval_batch_size=64,
        ),
        task=task_config.TaskConfig(name="qnli", hyperparameters="auto"),
    )
