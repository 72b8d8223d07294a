"""A small ALBERT for one's own text on one machine: 4 layers, H 256, V 8,000.

for length in 32 64 128; do
  python -m data_prep.create_pretraining_data --config=configs/small.py \
      --set data.max_seq_length=$length \
      --set data.pack_sequences=$((128 / length)) --output_dir=records/$length ...
done
python -m albert_tf.pretrain --config=configs/small.py --data_dir=records \
    --model_dir=RUN --set train.compute_dtype=bfloat16

18,000 steps of 4,096 tokens, one to two hours on two cores that multiply in
bfloat16: BLiMP 62.3% (61.6 to 63.0; 300 pairs of each paradigm), Zorro 67.4%
(66.6 to 68.3; 500 pairs), trained on Wikipedia's articles alone. With 30% of the
rows from text with dialogues and questions it has 63.8% and 80.0%.

The order of sentences is not learnt: with these masks [CLS] becomes the same for
all texts. It depends on the text with

    --set train.stages.1.mask_token_rate=1 --set train.stages.1.random_token_rate=0

which needs twice the steps for nearly as low a loss.
How these settings were found: docs/experiments.md.
"""

from albert_tf.core import config


def get_config() -> config.Config:
    """Returns the recipe."""
    return config.Config(
        model=config.ModelConfig(
            vocab_size=8000,
            hidden_size=256,
            num_layers=4,
            num_heads=4,
            intermediate_size=1024,
            max_positions=128,
        ),
        text=config.TextConfig(sentence_splitter="sentencex"),
        data=config.DataConfig(
            max_seq_length=128,
            pack_sequences=1,
            masking="dynamic",
            dupe_factor=1,
            max_ngram=1,
        ),
        optimizer=config.OptimizerConfig(
            name="muon",
            learning_rate=0.002,
            warmup_steps=300,
            decay_from="warmup_end",
            weight_decay_rate=0.05,
            beta_1=0.95,
            beta_2=0.98,
            bias_correction=True,
        ),
        train=config.TrainConfig(
            batch_size=32,
            num_steps=18000,
            steps_per_loop=50,
            save_every_steps=1000,
            eval_every_steps=1000,
            eval_batch_size=64,
            eval_batches=15,
            ema_decay=0.998,
            stages=(
                config.StageConfig(
                    num_steps=11000,
                    max_seq_length=32,
                    pack_sequences=4,
                    masked_lm_rate=0.2,
                    records={"32": 1},
                ),
                config.StageConfig(
                    num_steps=4000,
                    max_seq_length=64,
                    pack_sequences=2,
                    masked_lm_rate=0.2,
                    records={"64": 1},
                ),
                config.StageConfig(num_steps=3000, records={"128": 1}),
            ),
        ),
    )
