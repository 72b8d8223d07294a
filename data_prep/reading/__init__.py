"""From files to blocks to documents: formats, decompression, progress."""
