"""Statistics of people's decisions: small functions of arrays.

Each is tested against a published example or a known truth.
"""
