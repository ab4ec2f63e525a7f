"""Tiny policies, built here from a config and warmed on demonstrations: nothing is downloaded."""
