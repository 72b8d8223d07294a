"""RTE (GLUE): does a sentence follow from another?

python -m albert_tf.finetune --config=configs/finetune_rte.py \
    --init_checkpoint=RUN --data_dir=glue_data/RTE --model_dir=rte

The paper starts from a checkpoint fine-tuned on MNLI: give the directory of that run
as --init_checkpoint.

800 steps of 32 sequences of at most 512 tokens (ALBERT paper, appendix A.4).
"""

from albert_tf.core import config, task_config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(hidden_dropout_rate=0.1, attention_dropout_rate=0.1),
        optimizer=config.OptimizerConfig(
            name="adamw", learning_rate=3e-5, warmup_steps=200
        ),
        train=config.TrainConfig(
            batch_size=32,
            num_steps=800,
            steps_per_loop=50,
            save_every_steps=100,
            keep_checkpoints=1,
            best_metric="",
            eval_every_steps=100,
            eval_batch_size=64,
        ),
        task=task_config.TaskConfig(name="rte", hyperparameters="auto"),
    )
