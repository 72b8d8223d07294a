"""Clients of exported models: load a SavedModel and call its signatures."""
