"""Cleaning, deduplication, contamination checks and sentence splitting."""
