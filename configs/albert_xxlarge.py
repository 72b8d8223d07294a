"""ALBERT xxlarge (Lan et al., 2019, table 1): 12 layers, H 4096, 222.6M parameters.

python -m albert_tf.pretrain --config=configs/albert_xxlarge.py \
    --data_dir=RECORDS --model_dir=RUN

The run and its data are those of albert_base; only the model differs, and the size of
the batches of the evaluation.
"""

from albert_tf.core import config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(
            hidden_size=4096,
            num_layers=12,
            num_heads=64,
            intermediate_size=16384,
        ),
        data=config.DataConfig(max_predictions_per_seq=20),
        # The default of 256 rows would be 131,072 tokens on each device at a time.
        train=config.TrainConfig(eval_batch_size=16),
    )
