"""Tests of albert_tf/reproduction."""
