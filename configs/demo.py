"""The demonstration: a small ALBERT on Python's own documentation, on a laptop's CPU.

make demo

2 cores: see README for the minutes and the figures it reaches.
"""

from albert_tf import config


def get_config() -> config.Config:
    """A recipe that learns from context within minutes."""
    return config.Config(
        model=config.ModelConfig(
            vocab_size=4000,
            embedding_size=128,
            hidden_size=256,
            num_layers=4,
            num_heads=4,
            intermediate_size=1024,
            max_positions=128,
        ),
        data=config.DataConfig(
            max_seq_length=96,
            short_seq_rate=0.1,
            dupe_factor=4,
            heldout_rate=0.03,
            num_shards=4,
        ),
        optimizer=config.OptimizerConfig(
            learning_rate=0.005,
            warmup_steps=100,
            decay_from="warmup_end",
            bias_correction=True,
        ),
        train=config.TrainConfig(
            batch_size=32,
            num_steps=1000,
            steps_per_loop=25,
            save_every_steps=250,
            keep_checkpoints=2,
            eval_every_steps=250,
            eval_batch_size=64,
        ),
    )
