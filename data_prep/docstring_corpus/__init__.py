"""Demonstration corpus: prose from documentation topics and docstrings."""
