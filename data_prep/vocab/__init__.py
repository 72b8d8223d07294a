"""Vocabulary training, line sampling and the vocabulary report."""
