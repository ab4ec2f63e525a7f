"""Exclude and replay: a new run from the recorded data of another, without some people or tasks.

`first_use` finds where the excluded data first reached the weights, `creating` creates the run, and
`copying` copies the data when its trainer first opens it. From then on it is a run like any other:
the refiner judges, the trainer trains.
"""
