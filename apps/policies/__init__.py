"""Policies that can be trained, and the folders that hold their weights."""
