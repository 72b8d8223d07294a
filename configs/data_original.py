"""Data settings of the original, for comparison with its output.

python -m data_prep.create_pretraining_data --config=configs/data_original.py \
    --input=TEXT --vocab_model=VOCAB --output_dir=RECORDS

The original's defaults for 512 tokens, but 10 copies of each document instead of 40, as
for the figures in docs/data_original.md. This file only sets what differs from the
defaults of this project. Nothing is held out.
"""

from albert_tf.core import config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        text=config.TextConfig(sentence_splitter="line"),
        data=config.DataConfig(
            lower_case=True,
            pair_loss="sop",
            max_seq_length=512,
            short_seq_rate=0.1,
            masking="static",
            masked_lm_rate=0.15,
            max_predictions_per_seq=20,
            max_ngram=3,
            ngram_distribution="shorter",
            whole_words=True,
            dupe_factor=10,
            heldout_rate=0.0,
        ),
    )
