"""CoLA (GLUE): is a sentence grammatical?

python -m albert_tf.finetune --config=configs/finetune_cola.py \
    --init_checkpoint=RUN --data_dir=glue_data/CoLA --model_dir=cola

5,336 steps of 16 sequences of at most 512 tokens (ALBERT paper, appendix A.4).
"""

from albert_tf.core import config, task_config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        optimizer=config.OptimizerConfig(
            name="adamw", learning_rate=1e-5, warmup_steps=320
        ),
        train=config.TrainConfig(
            batch_size=16,
            num_steps=5336,
            steps_per_loop=50,
            save_every_steps=500,
            keep_checkpoints=1,
            best_metric="",
            eval_every_steps=500,
            eval_batch_size=64,
        ),
        task=task_config.TaskConfig(name="cola", hyperparameters="auto"),
    )
