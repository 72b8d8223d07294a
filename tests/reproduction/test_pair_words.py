"""The regression of `pair_words`: features, reading, and both kinds of pairs."""

import numpy as np

from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema
from data_prep.records import reader
from tests.reproduction import pair_words
from tests.support import small_run


def test_features_are_pieces_of_one_segment_and_the_first_of_each():
    first, second = np.array([5, 7, 5, 9]), np.array([7, 2])
    # Only in the first: 5 and 9; only in the second: 2.
    assert pair_words.features(first, second, 10) == [
        *(5, 9, 12),
        *(25, 37, 45),
        *(57, 62),
    ]


def test_all_pairs_are_read_with_their_segments_and_labels(tmp_path):
    records = small_run.write_records(
        tmp_path / "records", "data.pair_loss=sop", "data.pack_sequences=2"
    )
    manifest = manifest_lib.read_manifest(str(records))
    for split in (schema.TRAIN, schema.HELDOUT):
        rows, labels = pair_words.read(str(records), split)
        counts = manifest.splits[split].statistics["labels"]
        for label in (schema.IN_ORDER, schema.SWAPPED):
            assert np.sum(labels == label) == counts[str(label)]
        kept = (
            values
            for _, values in reader.iter_records(str(records), manifest, split)
            if values["next_sentence_labels"] != schema.NO_LABEL
        )
        for row, values in zip(rows, kept, strict=True):
            tokens = reader.unmask(values).tolist()
            end = tokens.index(tokens[-1])  # [SEP]
            first, second = tokens[1:end], tokens[end + 1 : -1]
            size, found = manifest.vocab_size, set(row.indices.tolist())
            assert {one for one in found if one < size} == set(first) - set(second)
            assert 2 * size + first[0] in found and 5 * size + second[0] in found


def test_what_one_kind_teaches_is_tried_on_both(tmp_path):
    folders = {
        kind: str(small_run.write_records(tmp_path / kind, f"data.pair_loss={kind}"))
        for kind in ("sop", "nsp")
    }
    found = pair_words.measure(folders)
    for kind, of in found.items():
        rows, labels = pair_words.read(folders[kind], schema.HELDOUT)
        assert of["pairs"]["heldout"] == rows.shape[0] == len(labels) > 0
        assert of["on"][kind]["accuracy"] == of["heldout"][of["best"]]
        assert of["heldout"][of["best"]] == max(of["heldout"].values())
        # Weaker regularization fits the trained pairs better.
        train = list(of["train"].values())
        assert train[-1] > train[0]
    assert found["sop"]["on"]["nsp"] != found["sop"]["on"]["sop"]
