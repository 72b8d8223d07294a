"""The demonstration: a small ALBERT on Python's own documentation, on a laptop's CPU.

make demo

3,600 steps of 64 sequences of 32 tokens. What tuning showed, by held-out MLM loss at
equal time: short sequences learn to look at neighbours earlier than long ones (fewer
positions to tell apart); H 128 beats H 256, which takes fewer steps; weights that start
smaller than the paper's 0.02 keep the blocks near the identity, and do better; LAMB at
0.04, AdamW at 0.004 and weights of 0.05 stay at the token frequencies.
"""

from albert_tf import config


def get_config() -> config.Config:
    """A recipe that learns from context within minutes."""
    return config.Config(
        model=config.ModelConfig(
            vocab_size=4000,
            hidden_size=128,
            num_layers=4,
            num_heads=2,
            intermediate_size=512,
            max_positions=32,
            initializer_range=0.01,
        ),
        data=config.DataConfig(
            max_seq_length=32,
            dupe_factor=5,
            heldout_rate=0.05,
            num_shards=4,
        ),
        optimizer=config.OptimizerConfig(
            learning_rate=0.02,
            warmup_steps=100,
            decay_from="warmup_end",
            bias_correction=True,
        ),
        train=config.TrainConfig(
            batch_size=64,
            num_steps=3600,
            steps_per_loop=50,
            save_every_steps=300,
            keep_checkpoints=2,
            eval_every_steps=600,
            eval_batch_size=128,
            jit_compile="on",
        ),
    )
