"""Calibration: compare a run's scorers with people's labels continuously, and raise alarms.

Replies with the greatest disagreement come before people first.
"""
