"""Recipes: one small file each, with get_config()."""
