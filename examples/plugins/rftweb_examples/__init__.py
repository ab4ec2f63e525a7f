"""Plugins of rftweb: a scorer, an operator and a rating form. pyproject.toml offers them."""
