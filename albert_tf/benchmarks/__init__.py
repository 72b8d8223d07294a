"""Benchmarks: those of bench_model, bench_serve and bench_train."""
