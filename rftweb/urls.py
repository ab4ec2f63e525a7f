"""URLs of the installation."""

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import include, path

from rftweb.administration.scorers import scorers
from rftweb.administration.storage import storage
from rftweb.health import healthz, readyz
from rftweb.metrics import Metrics

handler400 = "rftweb.bad_request.bad_request"
handler404 = "rftweb.not_found.not_found"

# The admin's own login is not used, because it would not ask for a second factor. allauth documents
# the assignment.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]
admin.site.index_title = "Overview"

urlpatterns = [
    path("admin/storage/", admin.site.admin_view(storage), name="admin-storage"),
    path("admin/scorers/", admin.site.admin_view(scorers), name="admin-scorers"),
    path("admin/", admin.site.urls),
    path("accounts/", include("apps.accounts.urls")),
    path("api/v1/", include("rftweb.api")),
    path("v1/", include("apps.environments.agents.urls")),
    path("openenv/", include("apps.environments.openenv.urls")),
    path("weight-files/", include("apps.runs.weight_files")),
    path("rate/arenas/", include("apps.evaluation.urls")),
    path("rate/", include("apps.feedback.urls")),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", Metrics.as_view(), name="metrics"),
    path("", include("apps.dashboard.urls")),
]
