"""The Python API: models to ask, layers and models to train."""
