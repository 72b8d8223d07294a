"""Records for benchmarks, made by data_prep's binaries.

They are kept, and made again only for another recipe. The binaries run as processes,
since albert_tf does not import data_prep.
"""

import hashlib
import json
import os

from albert_tf.core import binaries, config_io, files
from albert_tf.core import config as config_lib
from albert_tf.data import schema


def make_records(
    work_dir: str, config: config_lib.Config, corpus: str = "", vocab: str = ""
) -> str:
    """The folder of a recipe's records, which are made if they do not exist.

    Args:
      work_dir: an absolute path; keeps the text, vocabularies and records.
      config: the recipe; model.vocab_size, text and data determine the records.
      corpus: files of text, as data_prep takes them; empty means the demonstration's.
      vocab: a vocabulary of the recipe's size; empty means to train one.

    Raises:
      ValueError: they cannot be made.
    """
    files.make_folder(work_dir)
    values = config_io.to_dict(config)
    settings = values["text"], values["data"], config.model.vocab_size
    given = (corpus, vocab) if corpus or vocab else ()
    key = json.dumps([*settings, schema.FORMAT_VERSION, *given]).encode()
    name = f"records-{hashlib.sha256(key).hexdigest()[:12]}"
    records = os.path.join(work_dir, name)
    own_corpus = os.path.join(work_dir, "corpus.txt")
    corpus = corpus or own_corpus
    vocab = vocab or os.path.join(work_dir, f"vocab-{config.model.vocab_size}.model")
    if corpus == own_corpus and not files.exists(corpus):
        binaries.run_module("data_prep.demo_corpus", f"--output={corpus}")
    if not files.exists(vocab):
        size = f"--vocab_size={config.model.vocab_size}"
        arguments = (f"--input={corpus}", f"--output={vocab}", size)
        binaries.run_module("data_prep.train_vocab", *arguments)
    if not files.exists(os.path.join(records, schema.MANIFEST_FILE)):
        recipe = os.path.join(work_dir, f"{name}.json")
        files.write_bytes(recipe, config_io.to_json(config).encode())
        binaries.run_module(
            "data_prep.create_pretraining_data",
            f"--config={recipe}",
            f"--input={corpus}",
            f"--vocab_model={vocab}",
            f"--output_dir={records}",
        )
    return records
