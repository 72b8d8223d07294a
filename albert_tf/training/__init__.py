"""Losses, objectives, the train step, its loops, and the trainer."""
