"""A small ALBERT for one's own text on one machine: 6 layers, H 256, V 8,000.

python -m albert_tf.pretrain --config=configs/small.py \
    --data_dir=RECORDS --model_dir=RUN

20,000 steps of 32 sequences of 128 tokens.
"""

from albert_tf.core import config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(
            vocab_size=8000,
            hidden_size=256,
            num_layers=6,
            num_heads=4,
            intermediate_size=1024,
            max_positions=128,
        ),
        text=config.TextConfig(sentence_splitter="sentencex"),
        data=config.DataConfig(max_seq_length=128),
        optimizer=config.OptimizerConfig(
            learning_rate=0.01,
            warmup_steps=500,
            decay_from="warmup_end",
        ),
        train=config.TrainConfig(
            batch_size=32,
            num_steps=20000,
            steps_per_loop=50,
            save_every_steps=1000,
            eval_every_steps=1000,
            eval_batch_size=64,
            eval_batches=50,
        ),
    )
