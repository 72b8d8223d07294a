"""RACE: questions of school examinations with four options.

python -m albert_tf.finetune --config=configs/finetune_race.py \
    --init_checkpoint=RUN --data_dir=RACE --model_dir=race

The released v2 models were fine-tuned at a rate of 1e-5 without dropout.

12,000 steps of 32 sequences of at most 512 tokens (ALBERT paper, appendix A.4).
"""

from albert_tf.core import config, task_config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(hidden_dropout_rate=0.1, attention_dropout_rate=0.1),
        optimizer=config.OptimizerConfig(
            name="adamw", learning_rate=2e-5, warmup_steps=1000
        ),
        train=config.TrainConfig(
            batch_size=32,
            num_steps=12000,
            steps_per_loop=50,
            save_every_steps=500,
            keep_checkpoints=1,
            best_metric="",
            eval_every_steps=500,
            eval_batch_size=16,
        ),
        task=task_config.TaskConfig(name="race", hyperparameters="auto"),
    )
