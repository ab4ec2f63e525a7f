"""The pages of the dashboard that are measured, by their names in urls.py."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.dashboard_stage import BIG, FIRST, LONG


@dataclass(frozen=True)
class Page:
    """A page by its URL name.

    `of` returns the URL's arguments for the slug of a run; `query` is the query string.
    """

    title: str
    name: str
    of: Callable[[str], list] = lambda slug: ["lab", slug]
    query: str = ""
    run: str = BIG
    by: str = "alice"


def no_arguments(_: str) -> list:
    return []


def newest_rollout(slug: str) -> list:
    return [_newest(slug).pk]


def newest_group(slug: str) -> list:
    return ["lab", slug, _newest(slug).group_id]


def newest_step(slug: str) -> list:
    return ["lab", slug, _last_step(slug)]


def middle_step(slug: str) -> list:
    return ["lab", slug, max(1, _last_step(slug) // 2)]


def _last_step(slug: str) -> int:
    from apps.runs.models import TrainStep

    steps = TrainStep.objects.filter(run__slug=slug, state="committed")
    return steps.order_by("-number").values_list("number", flat=True)[0]


def _newest(slug: str) -> object:
    from apps.rollouts.models import Rollout

    return Rollout.objects.filter(run__slug=slug, state="finished").order_by("-pk").first()


def taskset_arguments(_: str) -> list:
    return ["lab", "tone"]


def project_arguments(_: str) -> list:
    return ["lab"]


def a_worker(_: str) -> list:
    from apps.runs.models import Worker

    return [Worker.objects.filter(role="explorer").order_by("pk").first().pk]


def first_version(slug: str) -> list:
    return ["lab", slug, 1]


# One line per page, with the query string if it needs one.
PAGES = (
    Page("runs", "runs", no_arguments),
    Page("runs, by reward", "runs", no_arguments, "?sort=reward"),
    Page("runs, by cost", "runs", no_arguments, "?sort=cost"),
    Page("runs, by words", "runs", no_arguments, "?words=run-1&sort=name"),
    Page("new run, like another", "run-new", no_arguments, f"?like=lab/{FIRST}"),
    Page("compare", "compare", no_arguments, f"?runs=lab/{BIG},lab/{FIRST}"),
    Page("compare, its curves", "compare-curves", no_arguments, f"?runs=lab/{BIG},lab/{FIRST}"),
    Page("overview", "run"),
    Page("overview of the long run", "run", run=LONG),
    Page("its points", "run-curves", run=LONG),
    Page(
        "its points, zoomed", "run-curves", query="?from_step=20000&to_step=60000&x=time", run=LONG
    ),
    Page("its points by version", "run-curves", query="?x=version"),
    Page(
        "pulse, all of it", "run-pulse", query="?after=0&part=now&part=beside&part=newest&marks=1"
    ),
    Page("charts", "run-charts", query="?names=kl&names=entropy&log=1", run=LONG),
    Page("step", "run-step", newest_step),
    Page("step, its drawer", "run-step-drawer", middle_step),
    Page("step of the long run", "run-step", newest_step, run=LONG),
    Page("rollouts", "rollouts"),
    Page("rollouts, a common word", "rollouts", query="?text=sorry"),
    Page("rollouts, a rare word", "rollouts", query="?text=4321"),
    Page("rollouts, these characters", "rollouts", query="?exact=orry+4321"),
    Page("rollouts, of a rater", "rollouts", query="?rater=bob"),
    Page("rollouts of an update", "rollouts", query="?from_step=50&to_step=50"),
    Page("rollouts, by reward", "rollouts", query="?fate=trained&reward_from=0.9"),
    Page("rollouts, none fits", "rollouts", query="?reward_from=7"),
    Page("bars of rewards", "rollout-bars"),
    Page("bars, none fits", "rollout-bars", query="?reward_from=7"),
    Page("rollout", "rollout", newest_rollout),
    Page("group", "group", newest_group),
    Page("weights of a run", "run-weights"),
    Page("version", "run-weight", first_version),
    Page("two versions", "run-weights-compare", query="?one=1&other=2"),
    Page("chat", "run-weight-chat", first_version),
    Page("evaluations", "run-evaluations"),
    Page("people", "run-people"),
    Page("people, quality", "run-quality"),
    Page("people, calibration", "run-calibration"),
    Page("people, time bought", "run-bought"),
    Page("its curves", "run-bought-curves"),
    Page("people, gold", "run-gold"),
    Page("people, rater model", "run-rater-model"),
    Page("people, disputes", "run-adjudicate"),
    Page("suspicions", "run-suspicions"),
    Page("scored again", "run-rescorings"),
    Page("buffer", "run-buffer"),
    Page("pipeline", "run-pipeline"),
    Page("settings of a run", "run-settings"),
    Page("alerts of a run", "run-alerts"),
    Page("rules of alerts", "run-alert-rules"),
    Page("cost", "run-cost"),
    Page("logs of a run", "run-logs"),
    Page("audit of a run", "run-audit"),
    Page("tags and notes", "run-labels"),
    Page("trace", "run-trace"),
    Page("export", "run-exports"),
    Page("live", "live", no_arguments),
    Page("alerts", "alerts", no_arguments),
    Page("workers", "workers", no_arguments),
    Page("logs", "logs", no_arguments),
    Page("weights", "weights", no_arguments),
    Page("tasksets", "tasksets", no_arguments),
    Page("taskset", "taskset", taskset_arguments),
    Page("imports of tasks", "taskset-imports", project_arguments),
    Page("import of lessons", "lessons-import", project_arguments),
    Page("environments", "environments", no_arguments),
    Page("arenas", "arenas", no_arguments),
    Page("worker", "worker", a_worker),
    Page("logs of a worker", "worker-logs", a_worker),
    Page("channels of alerts", "alert-channels", project_arguments),
    Page("audit of a project", "project-audit", project_arguments),
    Page("rate", "rate", no_arguments, by="bob"),
    Page("settings", "settings", no_arguments),
    Page("administration", "admin:index", no_arguments, by="root"),
    Page("its storage", "admin-storage", no_arguments, by="root"),
    Page("its scorers", "admin-scorers", no_arguments, by="root"),
    Page("its rollouts", "admin:rollouts_rollout_changelist", no_arguments, by="root"),
    Page("its metrics", "admin:runs_metric_changelist", no_arguments, by="root"),
    Page("its audit", "admin:accounts_auditentry_changelist", no_arguments, by="root"),
)
