"""The only way in for ratings, whoever gives them and wherever.

Pages and the REST API translate requests into calls of these modules, and so does the simulated
rater, whose ratings come over REST. `items` takes the decision of an item's holder, `stars` stars
without a claim, `rewrites` corrected replies, `adjudication` the decision of a dispute, and
`withdrawal` takes a decision back. Each locks the group, checks who may, and hands what it accepts
to `intake`, which alone writes ratings and their rewards.
"""
