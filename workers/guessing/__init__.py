"""Kimi's check for prompts that are easy to hack: a policy guesses each task N times without thinking, on the real engine."""
