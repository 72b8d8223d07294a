"""Fine-tuning runs: batches, training, prediction and results."""
