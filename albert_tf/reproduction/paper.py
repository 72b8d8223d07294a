"""Figures of the ALBERT paper's ablations (Lan et al., 2019, arXiv 1909.11942v6).

All are in percent, and of development sets.
"""

from typing import NamedTuple


class Scores(NamedTuple):
    """Scores of a model on the tasks of the ablations.

    Attributes:
      squad1: F1 and exact match on SQuAD 1.1.
      squad2: F1 and exact match on SQuAD 2.0.
      mnli: accuracy.
      sst2: accuracy.
      race: accuracy.
      average: over the five tasks, as printed; of SQuAD the mean of both scores counts.
    """

    squad1: tuple[float, float]
    squad2: tuple[float, float]
    mnli: float
    sst2: float
    race: float
    average: float


# Table 3, by sharing and the size of the embeddings. H is 768.
EMBEDDING_SIZES = {
    "none": {
        64: Scores((89.9, 82.9), (80.1, 77.8), 82.9, 91.5, 66.7, 81.3),
        128: Scores((89.9, 82.8), (80.3, 77.3), 83.7, 91.5, 67.9, 81.7),
        256: Scores((90.2, 83.2), (80.3, 77.4), 84.1, 91.9, 67.3, 81.8),
        768: Scores((90.4, 83.2), (80.4, 77.6), 84.5, 92.8, 68.2, 82.3),
    },
    "all": {
        64: Scores((88.7, 81.4), (77.5, 74.8), 80.8, 89.4, 63.5, 79.0),
        128: Scores((89.3, 82.3), (80.0, 77.1), 81.6, 90.3, 64.0, 80.1),
        256: Scores((88.8, 81.5), (79.1, 76.3), 81.5, 90.3, 63.4, 79.6),
        768: Scores((88.6, 81.5), (79.2, 76.6), 82.0, 90.6, 63.3, 79.8),
    },
}

# Table 4, by the size of the embeddings and the sharing.
SHARINGS = {
    768: {
        "all": Scores((88.6, 81.5), (79.2, 76.6), 82.0, 90.6, 63.3, 79.8),
        "attention": Scores((89.9, 82.7), (80.0, 77.2), 84.0, 91.4, 67.7, 81.6),
        "feed_forward": Scores((89.2, 82.1), (78.2, 75.4), 81.5, 90.8, 62.6, 79.5),
        "none": Scores((90.4, 83.2), (80.4, 77.6), 84.5, 92.8, 68.2, 82.3),
    },
    128: {
        "all": Scores((89.3, 82.3), (80.0, 77.1), 82.0, 90.3, 64.0, 80.1),
        "attention": Scores((89.9, 82.8), (80.7, 77.9), 83.4, 91.9, 67.6, 81.7),
        "feed_forward": Scores((88.9, 81.6), (78.6, 75.6), 82.3, 91.7, 64.4, 80.2),
        "none": Scores((89.9, 82.8), (80.3, 77.3), 83.2, 91.5, 67.9, 81.6),
    },
}

# Table 5, by the loss of the pair: accuracies in pre-training, and the tasks.
INTRINSIC = {
    "none": {"mlm": 54.9, "nsp": 52.4, "sop": 53.3},
    "nsp": {"mlm": 54.5, "nsp": 90.5, "sop": 52.0},
    "sop": {"mlm": 54.0, "nsp": 78.9, "sop": 86.5},
}
PAIR_LOSSES = {
    "none": Scores((88.6, 81.5), (78.1, 75.3), 81.5, 89.9, 61.7, 79.0),
    "nsp": Scores((88.4, 81.5), (77.2, 74.6), 81.6, 91.1, 62.3, 79.2),
    "sop": Scores((89.3, 82.3), (80.0, 77.1), 82.0, 90.3, 64.0, 80.1),
}

# Table 6: 34 hours of BERT large, 32 hours of ALBERT xxlarge.
SAME_TIME = {
    "bert_large": Scores((93.5, 87.4), (86.9, 84.3), 87.8, 94.6, 77.3, 87.2),
    "albert_xxlarge": Scores((94.0, 88.1), (88.3, 85.3), 87.8, 95.4, 82.5, 88.7),
}

# Table 7: Wikipedia and books, without and with the data of XLNet and RoBERTa.
ADDED_DATA = {
    "without": Scores((89.3, 82.3), (80.0, 77.1), 81.6, 90.3, 64.0, 80.1),
    "with": Scores((88.8, 81.7), (79.1, 76.3), 82.4, 92.8, 66.0, 80.8),
}

# Table 8, of ALBERT xxlarge after a million steps.
DROPOUT = {
    "with": Scores((94.7, 89.2), (89.6, 86.9), 90.0, 96.3, 85.7, 90.4),
    "without": Scores((94.8, 89.5), (89.9, 87.2), 90.4, 96.5, 86.1, 90.7),
}

# Table 11, of ALBERT large, by the number of layers.
DEPTHS = {
    1: Scores((31.1, 22.9), (50.1, 50.1), 66.4, 80.8, 40.1, 52.9),
    3: Scores((79.8, 69.7), (64.4, 61.7), 77.7, 86.7, 54.0, 71.2),
    6: Scores((86.4, 78.4), (73.8, 71.1), 81.2, 88.9, 60.9, 77.2),
    12: Scores((89.8, 83.3), (80.7, 77.9), 83.3, 91.7, 66.7, 81.5),
    24: Scores((90.3, 83.3), (81.8, 79.0), 83.3, 91.5, 68.7, 82.1),
    48: Scores((90.0, 83.1), (81.8, 78.9), 83.4, 91.9, 66.9, 81.8),
}

# Table 12, of three layers, by the hidden size.
WIDTHS = {
    1024: Scores((79.8, 69.7), (64.4, 61.7), 77.7, 86.7, 54.0, 71.2),
    2048: Scores((83.3, 74.1), (69.1, 66.6), 79.7, 88.6, 58.2, 74.6),
    4096: Scores((85.0, 76.4), (71.0, 68.1), 80.3, 90.4, 60.4, 76.3),
    6144: Scores((84.7, 75.8), (67.8, 65.4), 78.1, 89.1, 56.0, 74.0),
}

# Table 13, of the hidden size 4096, by the number of layers.
WIDE_DEPTHS = {
    12: Scores((94.0, 88.1), (88.3, 85.3), 87.8, 95.4, 82.5, 88.7),
    24: Scores((94.1, 88.3), (88.1, 85.1), 88.0, 95.2, 82.3, 88.7),
}
