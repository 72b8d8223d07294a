"""Tasks of fine-tuning: files, features, predictions, metrics and submissions."""
