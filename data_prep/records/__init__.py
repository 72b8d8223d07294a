"""Documents to segment pairs, Examples and TFRecord shards, and back."""
