"""Grammar probes: suites of minimal pairs, their scores and accuracies."""
