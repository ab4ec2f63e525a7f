"""Kimi's check for prompts that are easy to hack: guesses at each task without thinking."""
