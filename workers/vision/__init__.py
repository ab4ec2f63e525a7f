"""Policies that see pictures: which they are, how a prompt with pictures is spelt, and how pictures enter the text model."""
