"""The tasks of worker processes: blocks, runs of merged blocks, and shards.

The output of a task depends on the task alone: not on the number of workers, nor on
the order of tasks.
"""

import collections

from albert_tf.core import files
from albert_tf.data import schema
from data_prep.pipeline import block_processor, duplicates, work_dir, work_file
from data_prep.reading import blocks
from data_prep.records import shards


class Worker:
    """Does tasks; one per process, for as long as the process lives.

    Attributes:
      work_path: the directory of unfinished work.
    """

    def __init__(
        self,
        settings: block_processor.PipelineSettings,
        work_path: str,
        num_groups: int,
        blocks_per_run: int = work_dir.BLOCKS_PER_RUN,
    ):
        """Prepares nothing yet.

        Args:
          settings: of the run.
          work_path: the directory of unfinished work.
          num_groups: the number of groups of input files.
          blocks_per_run: as `work_dir.WorkDir` takes it.
        """
        self.work_path = work_path
        self._settings = settings
        self._work = work_dir.WorkDir(work_path, num_groups, blocks_per_run)
        self._processor: block_processor.BlockProcessor | None = None

    def make_block(self, block: blocks.Block) -> collections.Counter:
        """Makes a block and returns its tallies."""
        if self._processor is None:
            self._processor = block_processor.BlockProcessor(self._settings)
        return self._work.write_block(block, self._processor)

    def merge_run(self, number: int) -> work_file.DamagedError | None:
        """Merges the records of a run of blocks.

        Returns:
          What is wrong with a file of a block, if anything.
        """
        self._processor = None  # frees its memory: no blocks follow
        try:
            self._work.merge_run(number, duplicates.is_wanted(self._settings.text))
        except work_file.DamagedError as error:
            return error
        return None

    def make_shard(
        self, split: str, number: int, count: int
    ) -> schema.Shard | work_file.DamagedError:
        """Makes one of `count` shards, unless it is done.

        Returns:
          The shard, or what is wrong with a file of a block.
        """
        self._processor = None  # frees its memory: no blocks follow
        data = self._settings.data
        name = shards.shard_name(data, split, number, count)
        done = self._work.find_shard(name)
        if done and self._work.has_file(done):
            return done
        is_deduplicated = duplicates.is_wanted(self._settings.text)
        try:
            content, num_records, tokens, masked = shards.assemble(
                self._work.iter_selected(split, number, count, is_deduplicated),
                data,
                self._settings.vocab_size,
            )
        except work_file.DamagedError as error:
            return error
        temporary = files.temporary_path(self._work.shard_path(name))
        shard = shards.write_shard(
            temporary, name, content, num_records, data.compression
        )
        self._work.add_shard(temporary, shard, tokens, masked)
        return shard
