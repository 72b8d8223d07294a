"""Configuration, paths, random numbers, kernels and command lines."""
