"""BERT base (Lan et al., 2019): 12 layers, H 768, 109.1M parameters.

python -m albert_tf.pretrain --config=configs/bert_base.py \
    --data_dir=RECORDS --model_dir=RUN

The baseline that ALBERT is compared with: E = H without a projection, nothing shared,
and BERT's dropout of 0.1 (Devlin et al., 2019, appendix A.2). Vocabulary, data, pair
task and optimizer are those of albert_base, so that two runs differ in the model
alone. BERT's own pair task is --set data.pair_loss=nsp.
"""

from albert_tf.core import config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(
            embedding_size=768,
            hidden_size=768,
            num_layers=12,
            sharing="none",
            num_heads=12,
            intermediate_size=3072,
            hidden_dropout_rate=0.1,
            attention_dropout_rate=0.1,
        ),
        data=config.DataConfig(max_predictions_per_seq=20),
    )
