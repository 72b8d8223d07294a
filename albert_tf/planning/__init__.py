"""The train step outside TensorFlow: exported, run by JAX, compiled for a plan."""
