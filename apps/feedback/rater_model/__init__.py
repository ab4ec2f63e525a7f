"""A model of a run's raters: it predicts a reward for every rollout from few decisions.

`reading` computes the features of a reply, `linear` learns people's ratings from them, `schedule`
says how many decisions are due by when, `audits` whether the model can be believed. These use no
database; `learning`, `filling` and `asking` do.
"""
