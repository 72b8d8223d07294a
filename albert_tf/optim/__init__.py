"""LAMB, AdamW, schedules, layer-wise decay and batch-size scaling."""
