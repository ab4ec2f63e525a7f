"""Prompts for a language model as a judge, and the reading of its replies.

workers/judge_models.py sends the requests.
"""
