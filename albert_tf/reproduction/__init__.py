"""The ablations of the ALBERT paper, at a size that a small machine can train."""
