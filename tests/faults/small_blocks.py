"""Data preparation in blocks of some kilobytes, so that a small corpus has many.

python -m tests.faults.small_blocks FLAGS OF data_prep.create_pretraining_data
"""

from albert_tf.core import cli
from data_prep import create_pretraining_data
from data_prep.pipeline import block_processor
from data_prep.reading import blocks

NUM_BYTES = 1500

if __name__ == "__main__":
    blocks.GROUP_BYTES = block_processor.MAX_BLOCK_BYTES = NUM_BYTES
    cli.run(create_pretraining_data.main, create_pretraining_data.define_flags)
