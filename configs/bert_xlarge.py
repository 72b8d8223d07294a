"""BERT xlarge (Lan et al., 2019): 24 layers, H 2048, 1,275M parameters.

python -m albert_tf.pretrain --config=configs/bert_xlarge.py \
    --data_dir=RECORDS --model_dir=RUN

The run and its data are those of bert_base; only the model differs.
"""

from albert_tf.core import config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(
            embedding_size=2048,
            hidden_size=2048,
            num_layers=24,
            sharing="none",
            num_heads=32,
            intermediate_size=8192,
            hidden_dropout_rate=0.1,
            attention_dropout_rate=0.1,
        ),
        data=config.DataConfig(max_predictions_per_seq=20),
    )
