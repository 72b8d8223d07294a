"""Measurements of bench_data: stages within a process, and whole runs."""
