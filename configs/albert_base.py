"""ALBERT base (Lan et al., 2019, table 1): 12 layers, H 768, 11.7M parameters.

python -m albert_tf.pretrain --config=configs/albert_base.py \
    --data_dir=RECORDS --model_dir=RUN

The paper's run: batch 4096, 125,000 steps on TPU v3. The defaults of model, optimizer
and training are the paper's; this file only sets what differs. The limit of 20
predictions is the original's: it masks 4.6% of a 512-token sequence, not 15%.
"""

from albert_tf.core import config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(
            hidden_size=768,
            num_layers=12,
            num_heads=12,
            intermediate_size=3072,
        ),
        data=config.DataConfig(max_predictions_per_seq=20),
    )
