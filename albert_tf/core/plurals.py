"""Counts with their nouns."""


def count(number: int, noun: str) -> str:
    """Returns a count with its noun, such as "1 step" and "1,000 steps"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
