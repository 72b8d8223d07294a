"""Checks of a machine before anything is run on it; no TensorFlow, no NumPy."""
