"""Policies that see pictures: detection, prompts with pictures, and picture embeddings."""
