"""Samples of records, as text, tables and a page."""
