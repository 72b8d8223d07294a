"""The demonstration: its stages, and the summary of their results."""
