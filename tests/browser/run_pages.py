"""Addresses of the pages of a run, for tests that visit them all."""

from django.urls import reverse

# Pages of a run, for users who steer it.
PAGES = (
    "run-evaluations",
    "run-settings",
    "run-alerts",
    "run-cost",
    "run-logs",
    "run-labels",
    "run-audit",
    "run-exports",
    "run-people",
    "run-buffer",
    "run-pipeline",
    "run-weights-compare",
)


def list_run_pages(run) -> list[str]:
    """Return the addresses of the pages of a run, and of the pages about all runs."""
    newest = [
        reverse(name, args=["lab", run.slug, run.published_version])
        for name in ("run-weight", "run-weight-chat")
    ]
    group = run.groups.filter(state="admitted").first()
    return [
        *(reverse(name, args=["lab", run.slug]) for name in PAGES),
        *newest,
        reverse("group", args=["lab", run.slug, group.pk]),
        *(reverse(name) for name in ("home", "run-new", "workers", "alerts", "projects")),
        *(reverse(name, args=["lab"]) for name in ("project", "test-bench", "test-bench-cases")),
        f"{reverse('compare')}?runs=lab/{run.slug}",
    ]
