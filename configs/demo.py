"""The demo: a small ALBERT on Python's own documentation, on a laptop's CPU.

make demo

2,800 steps of 64 sequences of 32 tokens, five to seven minutes on two cores. How these
settings were found: docs/decisions.md, "The demonstration's recipe".
"""

from albert_tf.core import config


def get_config() -> config.Config:
    """Returns a recipe that learns from context within minutes."""
    return config.Config(
        model=config.ModelConfig(
            vocab_size=4000,
            hidden_size=128,
            num_layers=4,
            num_heads=2,
            intermediate_size=512,
            max_positions=32,
        ),
        data=config.DataConfig(
            max_seq_length=32,
            dupe_factor=3,
            heldout_rate=0.05,
            min_shards=4,
        ),
        optimizer=config.OptimizerConfig(
            name="muon",
            learning_rate=0.004,
            warmup_steps=200,
            decay_from="warmup_end",
            weight_decay_rate=0.05,
            beta_1=0.95,
            beta_2=0.98,
            bias_correction=True,
        ),
        train=config.TrainConfig(
            batch_size=64,
            num_steps=2800,
            steps_per_loop=50,
            save_every_steps=400,
            keep_checkpoints=2,
            eval_every_steps=400,
            eval_batch_size=128,
            jit_compile="on",
        ),
    )
