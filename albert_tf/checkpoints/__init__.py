"""Checkpoints and run directories: write, restore, warm start."""
