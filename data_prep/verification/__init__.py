"""Checks of a directory of records: manifest, shards and records."""
