"""A model of a run's raters: from the few decisions that people take to a reward for every rollout.

`reading` sees what a reply is made of, `linear` learns what people think of it, `schedule` says how many decisions are wanted
by when, `audits` whether the model can be believed. These know no database; `learning`, `filling` and `asking` do.
"""
