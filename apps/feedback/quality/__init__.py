"""The quality of people's decisions in a run, for those who run the project.

It covers agreement, raters and disputes.
"""
