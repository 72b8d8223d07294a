"""STS-B: similarity of two sentences, from 0 to 5 (GLUE).

python -m albert_tf.finetune --config=configs/finetune_stsb.py \
    --init_checkpoint=RUN --data_dir=glue_data/STS-B --model_dir=stsb

The paper starts from a checkpoint fine-tuned on MNLI: give the directory of that run
as --init_checkpoint.

3,598 steps of 16 sequences of at most 512 tokens (ALBERT paper, appendix A.4).
"""

from albert_tf.core import config, task_config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        optimizer=config.OptimizerConfig(
            name="adamw", learning_rate=2e-5, warmup_steps=214
        ),
        train=config.TrainConfig(
            batch_size=16,
            num_steps=3598,
            steps_per_loop=50,
            save_every_steps=500,
            keep_checkpoints=1,
            best_metric="",
            eval_every_steps=500,
            eval_batch_size=64,
            max_loss_rise=30.0,
        ),
        task=task_config.TaskConfig(name="stsb", hyperparameters="auto"),
    )
