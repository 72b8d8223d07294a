"""BERT large (Lan et al., 2019): 24 layers, H 1024, 334.6M parameters.

python -m albert_tf.pretrain --config=configs/bert_large.py \
    --data_dir=RECORDS --model_dir=RUN

The run and its data are those of bert_base; only the model differs.
"""

from albert_tf.core import config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(
            embedding_size=1024,
            hidden_size=1024,
            num_layers=24,
            sharing="none",
            num_heads=16,
            intermediate_size=4096,
            hidden_dropout_rate=0.1,
            attention_dropout_rate=0.1,
        ),
        data=config.DataConfig(max_predictions_per_seq=20),
    )
