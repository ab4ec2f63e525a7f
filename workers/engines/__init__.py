"""Rollout engines: one interface, two implementations that pass the same contract tests."""
