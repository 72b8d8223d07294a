"""The contestants of bench_model, and what makes them take steps and compares them."""
