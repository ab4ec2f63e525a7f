"""Which task a draw takes: pure rules, one a file; numbers in, indexes out, seeded by the run's seed and the draw's number."""
