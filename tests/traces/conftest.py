from tests.dashboard.conftest import seeded  # noqa: F401  (a fixture)
