"""Alerts about runs: rules over database rows, the alerts that they open, and their delivery."""
