"""The quality of people's decisions in a run: agreement, raters and disputes.

For those who run the project.
"""
