"""The base of the ablations of `albert_tf.reproduce`: 4 layers, H 96, E 16, V 8,000.

6,000 steps of 1,024 tokens in sequences of 32, without a loss of the pair: about
ten minutes on one core. docs/reproduction.md says why; configs/small.py is the
recipe for one's own text.
"""

from albert_tf.core import config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(
            vocab_size=8000,
            embedding_size=16,
            hidden_size=96,
            num_layers=4,
            num_heads=3,
            intermediate_size=384,
            max_positions=128,
        ),
        text=config.TextConfig(sentence_splitter="sentencex"),
        data=config.DataConfig(
            max_seq_length=32,
            pack_sequences=4,
            pair_loss="none",
            masking="dynamic",
            mask_token_rate=1.0,
            random_token_rate=0.0,
            dupe_factor=1,
            max_ngram=1,
        ),
        optimizer=config.OptimizerConfig(
            name="muon",
            learning_rate=0.002,
            warmup_steps=400,
            decay="wsd",
            decay_steps=4400,
            weight_decay_rate=0.05,
            beta_1=0.95,
            beta_2=0.98,
            bias_correction=True,
        ),
        train=config.TrainConfig(
            batch_size=8,
            num_steps=6000,
            steps_per_loop=50,
            save_every_steps=1000,
            keep_checkpoints=1,
            eval_every_steps=6000,
            eval_batch_size=64,
            eval_batches=30,
            max_skipped_steps=100,
        ),
    )
