"""Layers, encoder, heads and models, and what they cost."""
