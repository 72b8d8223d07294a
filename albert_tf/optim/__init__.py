"""LAMB, AdamW, Muon, schedules, layer-wise decay and batch-size scaling."""
