"""Exclude and replay: a new run from the recorded data of another one, without what some people said, or without some tasks.

`first_use` finds where those words first reached the weights, `creating` makes the run, `copying` brings the data over
when its trainer first opens it. From there on it is a run as any other: the refiner judges, the trainer trains.
"""
