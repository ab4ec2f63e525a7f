from tests.runs.writers.measured import measured  # noqa: F401  (a fixture)
