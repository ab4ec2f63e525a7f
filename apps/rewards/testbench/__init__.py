"""The test bench: one scorer on pasted replies, and a regression set of replies to score again."""
