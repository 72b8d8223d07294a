"""The vocabulary in the directory of a run, and its SHA-256.

The SentencePiece file has no checksum of its own, and a damaged one may be a valid
other one. A run of pre-training has the SHA-256 in the manifests of its records; other
runs have it beside the file, in the format of `sha256sum`.
"""

import hashlib
import os

from albert_tf.checkpoints import run_dir
from albert_tf.core import files
from albert_tf.data import schema

SUM_FILE = f"{schema.VOCAB_FILE}.sha256"


def write(folder: str, vocab: bytes) -> None:
    """Writes a vocabulary and its SHA-256.

    Args:
      folder: of a run that has no manifests.
      vocab: content of the SentencePiece file.
    """
    line = f"{hashlib.sha256(vocab).hexdigest()}  {schema.VOCAB_FILE}\n"
    files.write_bytes(os.path.join(folder, SUM_FILE), line.encode())
    files.write_bytes(os.path.join(folder, schema.VOCAB_FILE), vocab)


def check(folder: str) -> None:
    """Checks the vocabulary of a run against its SHA-256, where that is known.

    Raises:
      ValueError: it is damaged, or that of another run.
    """
    path = os.path.join(folder, schema.VOCAB_FILE)
    known = {
        one["vocab_sha256"]
        for one in run_dir.read_manifests(folder).values()
        if "vocab_sha256" in one
    }
    sum_path = os.path.join(folder, SUM_FILE)
    if files.exists(sum_path):
        known.add(files.read_bytes(sum_path)[:64].decode(errors="replace"))
    if not known or not files.exists(path):
        return
    if hashlib.sha256(files.read_bytes(path)).hexdigest() not in known:
        raise ValueError(
            f"{path} is damaged or of another run: its SHA-256 is not the one in "
            f"{schema.MANIFEST_FILE} or {SUM_FILE} beside it. Copy it again from the "
            "run or from its records"
        )
