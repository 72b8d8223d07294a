"""The train step outside TensorFlow: exported, and run by JAX."""
