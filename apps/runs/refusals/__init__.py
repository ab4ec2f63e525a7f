"""Checks of a whole configuration: combinations of settings that have no meaning."""
