"""The graphs that are exported: SavedModel signatures, TensorFlow Lite, encoder."""
