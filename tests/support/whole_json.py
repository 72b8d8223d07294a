"""Small objects that readers of JSON take, to be damaged by tests."""

from albert_tf.data import schema

SHARD = {"name": "train-00000", "num_records": 9, "num_bytes": 99, "sha256": "0f"}
STATISTICS = {
    "labels": {"-1": 1, "0": 4, "1": 4},
    "padding_rate": 0.25,
    "drawn_ngram_lengths": {"1": 2},
    "replacements": {"mask": 1, "keep": 1, "random": 0},
    "num_tokens": 70,
}
MANIFEST = {
    "text": {"field": "text", "min_document_characters": 3},
    "data": {
        "compression": "none",
        "lower_case": True,
        "masked_lm_rate": 0.15,
        "masking": "static",
        "pair_loss": "sop",
        "seed": 1,
    },
    "vocab_size": 100,
    "vocab_sha256": "0f",
    "mask_id": 4,
    "reserved_ids": [0, 1],
    "seq_length": 32,
    "num_predictions": 5,
    "documents": {"read": 3, "kept": 3, "dropped": {}},
    "characters": {"read": 30},
    "evaluation_digest": "",
    "splits": {
        "train": {
            "num_documents": 3,
            "num_records": 9,
            "shards": [SHARD],
            "statistics": STATISTICS,
        }
    },
    "heldout_unigram_entropy": 5.5,
    "format_version": schema.FORMAT_VERSION,
}
CONFIG = {
    "model": {"num_layers": 2, "sharing": "all", "hidden_dropout_rate": 0.1},
    "train": {
        "num_steps": 900,
        "records": {"wiki": 3.0, "books": 1.0},
        "stages": [{"num_steps": 900, "max_seq_length": 128, "batch_size": 64}],
    },
    "optimizer": {"exclude_patterns": ["bias"], "warmup_steps": 10},
    "task": {"given_settings": []},
}
MINIMAL_PAIR = {"sentence_good": "A.", "sentence_bad": "B.", "group": "c", "UID": "d"}
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "Ann has a cat.",
                    "qas": [
                        {
                            "id": "q",
                            "question": "Who?",
                            "answers": [{"text": "Ann", "answer_start": 0}],
                            "is_impossible": False,
                        }
                    ],
                }
            ]
        }
    ]
}
RACE = {
    "id": "a",
    "article": "Ann has a cat.",
    "questions": ["Who?"],
    "options": [["Ann", "Bob", "Cid", "Dot"]],
    "answers": ["A"],
}
ROW = {"split": "train", "step": 3, "seconds": 1.5, "loss": 0.5}
SEEDS = {
    "task": "mrpc",
    "best_metric": "accuracy",
    "best": 3,
    "seeds": [{"seed": 3, "folder": "seed-3", "scores": {"dev": {"accuracy": 0.5}}}],
    "median": {"dev": {"accuracy": 0.5}},
}
TASK = {
    "name": "mrpc",
    "kind": "classification",
    "labels": ["0", "1"],
    "head_settings": {"num_classes": 2, "dropout_rate": 0.1},
    "train_digest": "0f",
    "init_checkpoint": "/run/model.ckpt-3",
    "calibration": {"null_odds_threshold": 0.5},
}
ARRAY = {"name": "w", "dtype": "float32", "shape": [3], "fill": None, "stddev": 0.02}
STEP = {
    "format_version": 1,
    "config": {"model": {"num_layers": 2}},
    "num_tokens": 9,
    "model_flops": 99,
    "arguments": [ARRAY],
    "outputs": [{"name": "w", "dtype": "float32", "shape": [3], "argument": 0}],
}
OPENVINO = {
    "precision": "bfloat16",
    "hidden_size": 12,
    "checkpoint": "model.ckpt-3",
    "weights": "trained",
}
HUGGING_FACE = {
    "model_type": "albert",
    "architectures": ["AlbertForPreTraining"],
    "vocab_size": 100,
    "embedding_size": 6,
    "hidden_size": 12,
    "num_hidden_layers": 4,
    "num_hidden_groups": 2,
    "inner_group_num": 1,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "hidden_act": "gelu_new",
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
    "layer_norm_eps": 1e-12,
}
TF1 = {**HUGGING_FACE, "hidden_act": "gelu", "initializer_range": 0.02}
ZH = {**TF1, "ln_type": "postln"}
KERAS = {
    "class_name": "AlbertBackbone",
    "config": {
        "vocabulary_size": 100,
        "num_layers": 4,
        "num_heads": 3,
        "embedding_dim": 6,
        "hidden_dim": 12,
        "intermediate_dim": 20,
        "num_groups": 2,
        "num_inner_repetitions": 1,
        "dropout": 0.0,
        "max_sequence_length": 16,
        "num_segments": 2,
    },
}
KERAS_TASK = {
    "class_name": "AlbertTextClassifier",
    "config": {"num_classes": 3, "dropout": 0.1},
}
