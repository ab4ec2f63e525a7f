"""URLs of the REST interface under /api/v1/.

/api/v1/schema/ and docs/openapi.yaml document it.
"""

from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView

from apps.accounts.api_404 import Nowhere
from apps.accounts.api_page import ApiPage
from apps.accounts.models import Project
from apps.accounts.openapi import KeptSchema
from apps.environments.api import Environments, EpisodesOf, OneEnvironment
from apps.environments.environment_lookup import require_known_environment
from apps.environments.episodes_api import OneEpisode, OneTurn, Results, Rewards, Turns
from apps.environments.traces.api import EpisodesOfRun
from apps.feedback.api import RatingQueue, Ratings
from apps.feedback.items_api import Claims, KeepSlot, ReleaseSlot, SkipSlot, Slots
from apps.feedback.lessons_api import Lessons
from apps.lineage.api import Exports, Replays, Trace, TraceOfRating
from apps.pipelines.checking import require_known as require_known_operators
from apps.pipelines.imports_api import Imports, OneImport, StartImport, StopImport
from apps.rewards.api import OneRescoring, Rescorings, StopRescoring
from apps.rewards.scoring import require_known_scorers
from apps.rollouts.api import OneRollout, Rollouts
from apps.runs.api import Act, OneRun, RunMetrics, Runs
from apps.runs.config import RunConfig
from apps.runs.deleting_api import (
    DeletionOfRun,
    OneRunDeletion,
    RunDeletionAgain,
    RunDeletions,
)
from apps.runs.deleting_projects_api import (
    DeletionOfProject,
    OneProjectDeletion,
    ProjectDeletionAgain,
    ProjectDeletions,
)
from apps.runs.exporting.api import ActsFile, EventsFile, MetricsFile, RunEvents
from apps.runs.models_api import (
    ModelFile,
    ModelImportAgain,
    ModelImports,
    Models,
    OneModel,
    OneModelImport,
    StartModelImport,
    StopModelImport,
)
from apps.tasksets.api import OnePicture


def require_known_names(plan: RunConfig, project: Project) -> None:
    """Raise ConfigError naming objects of the plan that the project does not have."""
    require_known_scorers(plan, project)
    require_known_environment(plan, project)
    require_known_operators(plan, project)


app_name = "api"
urlpatterns = [
    path("schema/", SpectacularAPIView.as_view(generator_class=KeptSchema), name="schema"),
    path("docs/", ApiPage.as_view(), name="docs"),
    path("runs/", Runs.as_view(require=require_known_names), name="runs"),
    path("runs/<int:pk>/", OneRun.as_view(), name="run"),
    path("runs/<int:pk>/start/", Act.as_view(verb="start"), name="run-start"),
    path("runs/<int:pk>/pause/", Act.as_view(verb="pause"), name="run-pause"),
    path("runs/<int:pk>/resume/", Act.as_view(verb="resume"), name="run-resume"),
    path("runs/<int:pk>/stop/", Act.as_view(verb="stop"), name="run-stop"),
    path("runs/<int:pk>/deletion/", DeletionOfRun.as_view(), name="run-deletion-of"),
    path("run-deletions/", RunDeletions.as_view(), name="run-deletions"),
    path("run-deletions/<int:pk>/", OneRunDeletion.as_view(), name="run-deletion"),
    path("run-deletions/<int:pk>/again/", RunDeletionAgain.as_view(), name="run-deletion-again"),
    path(
        "projects/<slug:project>/deletion/", DeletionOfProject.as_view(), name="project-deletion-of"
    ),
    path("project-deletions/", ProjectDeletions.as_view(), name="project-deletions"),
    path("project-deletions/<int:pk>/", OneProjectDeletion.as_view(), name="project-deletion"),
    path(
        "project-deletions/<int:pk>/again/",
        ProjectDeletionAgain.as_view(),
        name="project-deletion-again",
    ),
    path("runs/<int:pk>/metrics/", RunMetrics.as_view(), name="run-metrics"),
    path("runs/<int:pk>/events/", RunEvents.as_view(), name="run-events"),
    path("runs/<int:pk>/trace/<int:version>/", Trace.as_view(), name="run-trace"),
    path("runs/<int:pk>/replay/", Replays.as_view(), name="run-replay"),
    path("runs/<int:pk>/rescorings/", Rescorings.as_view(), name="run-rescorings"),
    path("runs/<int:pk>/rescorings/<int:rescoring>/", OneRescoring.as_view(), name="run-rescoring"),
    path(
        "runs/<int:pk>/rescorings/<int:rescoring>/stop/",
        StopRescoring.as_view(),
        name="run-rescoring-stop",
    ),
    path("runs/<int:pk>/exports/metrics/", MetricsFile.as_view(), name="run-export-metrics"),
    path("runs/<int:pk>/exports/events/", EventsFile.as_view(), name="run-export-events"),
    path("runs/<int:pk>/exports/audit/", ActsFile.as_view(), name="run-export-audit"),
    path("runs/<int:pk>/exports/<slug:kind>/", Exports.as_view(), name="run-export"),
    path("runs/<int:pk>/episodes.jsonl", EpisodesOfRun.as_view(), name="run-episodes"),
    path("rollouts/", Rollouts.as_view(), name="rollouts"),
    path("rollouts/<int:pk>/", OneRollout.as_view(), name="rollout"),
    path("pictures/<sha256:sha256>/", OnePicture.as_view(), name="picture"),
    path("ratings/", Ratings.as_view(), name="ratings"),
    path("ratings/<int:pk>/trace/", TraceOfRating.as_view(), name="rating-trace"),
    path("rating-queue/", RatingQueue.as_view(), name="rating-queue"),
    path("rating-queue/claim/", Claims.as_view(), name="rating-claim"),
    path("rating-slots/<int:pk>/", Slots.as_view(), name="rating-slot"),
    path("rating-slots/<int:pk>/keep/", KeepSlot.as_view(), name="rating-slot-keep"),
    path("rating-slots/<int:pk>/release/", ReleaseSlot.as_view(), name="rating-slot-release"),
    path("rating-slots/<int:pk>/skip/", SkipSlot.as_view(), name="rating-slot-skip"),
    path("imports/", Imports.as_view(), name="imports"),
    path("imports/<int:pk>/", OneImport.as_view(), name="import"),
    path("imports/<int:pk>/start/", StartImport.as_view(), name="import-start"),
    path("imports/<int:pk>/stop/", StopImport.as_view(), name="import-stop"),
    path("models/", Models.as_view(), name="models"),
    path("models/<int:pk>/", OneModel.as_view(), name="model"),
    path("model-imports/", ModelImports.as_view(), name="model-imports"),
    path("model-imports/<int:pk>/", OneModelImport.as_view(), name="model-import"),
    path("model-imports/<int:pk>/start/", StartModelImport.as_view(), name="model-import-start"),
    path("model-imports/<int:pk>/stop/", StopModelImport.as_view(), name="model-import-stop"),
    path("model-imports/<int:pk>/again/", ModelImportAgain.as_view(), name="model-import-again"),
    path("model-imports/<int:pk>/files/<str:name>/", ModelFile.as_view(), name="model-import-file"),
    path("lessons/", Lessons.as_view(), name="lessons"),
    path("environments/", Environments.as_view(), name="environments"),
    path("environments/<slug:name>/", OneEnvironment.as_view(), name="environment"),
    path("environments/<slug:name>/episodes/", EpisodesOf.as_view(), name="environment-episodes"),
    path("episodes/<int:pk>/", OneEpisode.as_view(), name="episode"),
    path("episodes/<int:pk>/turns/", Turns.as_view(), name="episode-turns"),
    path("episodes/<int:pk>/turns/<int:number>/", OneTurn.as_view(), name="episode-turn"),
    path("episodes/<int:pk>/result/", Results.as_view(), name="episode-result"),
    path("rewards/", Rewards.as_view(), name="rewards"),
    re_path("", Nowhere.as_view(), name="nowhere"),
]
