"""Tests in an environment that holds PyTorch and transformers, and no TensorFlow."""
