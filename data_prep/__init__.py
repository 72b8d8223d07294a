"""From raw text to TFRecord shards of ALBERT pre-training pairs."""
