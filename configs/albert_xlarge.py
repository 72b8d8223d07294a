"""ALBERT xlarge (Lan et al., 2019, table 1): 24 layers, H 2048, 58.7M parameters.

python -m albert_tf.pretrain --config=configs/albert_xlarge.py \
    --data_dir=RECORDS --model_dir=RUN

The run and its data are those of albert_base; only the model differs, and the size of
the batches of the evaluation.
"""

from albert_tf.core import config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(
            hidden_size=2048,
            num_layers=24,
            num_heads=16,
            intermediate_size=8192,
        ),
        data=config.DataConfig(max_predictions_per_seq=20),
        # The default of 256 rows would be 131,072 tokens on each device at a time.
        train=config.TrainConfig(eval_batch_size=64),
    )
