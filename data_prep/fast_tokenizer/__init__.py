"""A compiled unigram tokenizer that gives the ids of SentencePiece."""
