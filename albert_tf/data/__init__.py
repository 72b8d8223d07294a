"""The record format, masking, and the tf.data input pipeline."""
