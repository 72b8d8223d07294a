"""ALBERT in TensorFlow: model, training, export and use."""
