"""The web server in front of a SavedModel."""
