"""The SentencePiece tokenizer, in Python and in the TensorFlow graph."""
