"""The lines that say what is to be fetched."""

from collections.abc import Callable, Mapping

Say = Callable[[str], None]


def announce(sizes: Mapping[str, int], whence: str, say: Say) -> None:
    """Says what is to be fetched.

    Args:
      sizes: bytes of the files that are not in the cache, by name; may be empty.
      whence: address and revision.
      say: gets the lines.
    """
    if not sizes:
        say(f"in the cache already, nothing is fetched: {whence}")
        return
    noun = "file" if len(sizes) == 1 else "files"
    say(f"fetching {len(sizes)} {noun}, {sum(sizes.values()):,} bytes, from {whence}:")
    for name, size in sizes.items():
        say(f"  {name}, {size:,} bytes")
