"""ALBERT large (Lan et al., 2019, table 1): 24 layers, H 1024, 17.7M parameters.

python -m albert_tf.pretrain --config=configs/albert_large.py \
    --data_dir=RECORDS --model_dir=RUN

The run and its data are those of albert_base; only the model differs.
"""

from albert_tf.core import config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(
            hidden_size=1024,
            num_layers=24,
            num_heads=16,
            intermediate_size=4096,
        ),
        data=config.DataConfig(max_predictions_per_seq=20),
    )
