"""The job that starts the processes for models: one for imports and removals, one for previews."""

from celery import shared_task

from apps.policies.models import PolicyImport, PolicyRemoval, TemplatePreview
from workers.on_demand import OnDemand

imports = OnDemand("workers.model_imports", job="import_models")
previews = OnDemand("workers.model_imports", job="import_models")


@shared_task(name="import_models")
def start_model_imports(**_: object) -> None:
    """Start the processes that have work and are not running.

    Idempotent: two workers take different rows. A process dies with its worker; its row is then
    taken up again. Nobody's preview waits for a long import.
    """
    is_due = PolicyImport.objects.due().exists() or PolicyRemoval.objects.due().exists()
    if is_due and not imports.is_running:
        imports.start(["imports"])
    if TemplatePreview.objects.due().exists() and not previews.is_running:
        previews.start(["previews"])
