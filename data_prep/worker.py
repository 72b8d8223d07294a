"""What the workers of `create_pretraining_data` do: blocks, and shards from them.

What a worker writes depends on its task alone, so nothing depends on the number of
workers or on who is first.
"""

import collections
import os

import numpy as np

from albert_tf import schema
from data_prep import blocks, readers, shards, work_folder


class Worker:
    """Does tasks; lives as long as its process."""

    def __init__(self, settings: blocks.Settings, folder: str):
        """Takes note of the settings and of the folder of unfinished work."""
        self._settings = settings
        self._work = work_folder.WorkFolder(folder)
        self._processor: blocks.BlockProcessor | None = None

    def make_block(self, block: readers.Block) -> collections.Counter:
        """Makes a block and gives its tallies."""
        if self._processor is None:
            self._processor = blocks.BlockProcessor(self._settings)
        return self._work.write_block(block, self._processor)

    def make_shard(self, split: str, number: int, count: int) -> schema.Shard:
        """Makes one of `count` shards, unless it is done."""
        self._processor = None  # no blocks follow, and its memory is needed
        data = self._settings.data
        name = shards.shard_name(data, split, number, count)
        done = self._work.read_shard_counts(name)
        if done:
            return done.shard
        vocab_size = self._settings.vocab_size
        content, num_records, tokens, masked = shards.assemble(
            (
                shards.select(part, dropped, split, number, count)
                for part, dropped in self._work.iter_parts()
            ),
            np.dtype(schema.id_dtype(vocab_size)).itemsize,
            data.masking == "dynamic",
            vocab_size,
        )
        path = self._work.shard_path(name)
        temporary = f"{path}.tmp{os.getpid()}"
        shard = shards.write_shard(
            temporary, name, content, num_records, data.compression
        )
        os.replace(temporary, path)
        self._work.write_shard_counts(shard, tokens, masked)
        return shard
