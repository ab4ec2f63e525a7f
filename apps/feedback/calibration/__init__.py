"""Calibration: continuous comparison of a run's scorers with people's labels, with alarms.

Replies with the greatest disagreement are put before people first.
"""
