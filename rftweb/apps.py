"""The project as an app of its own: checks the database before migrations, connects signals
around them, connects kinds of plugins, and postpones garbage collection until all apps are loaded.
"""

import gc
from importlib import import_module
from types import ModuleType

from django.apps import AppConfig, apps
from django.core.checks import Tags, register
from django.db.models.signals import post_migrate, pre_migrate

KINDS_OF_PLUGINS = (
    "apps.rewards.scorers",
    "apps.pipelines.operators",
    "apps.tasksets.generators",
    "apps.feedback.forms",
    "apps.runs.plugin_kinds",
    "apps.environments.library",
    "apps.alerts.channel_kind",
    "apps.tasksets.sources.plugins",
)


def import_kinds() -> None:
    """Import the packages that register kinds of plugins; they are needed when somebody asks."""
    for name in KINDS_OF_PLUGINS:
        import_module(name)


class Rftweb(AppConfig):
    """The last app: made before the first model is imported, and ready after all others.

    Imports make no garbage. Collections while apps load, and another over all that they have loaded
    when the process ends, took a third of the processor time of a short command.
    """

    name = "rftweb"

    def __init__(self, app_name: str, app_module: ModuleType) -> None:
        super().__init__(app_name, app_module)
        gc.disable()

    def ready(self) -> None:
        self._connect()
        gc.enable()
        gc.freeze()

    def _connect(self) -> None:
        from apps.plugins.registry import REGISTRY
        from rftweb.migration_history import check_history
        from rftweb.sql.making import after_migrations, before_migrations

        REGISTRY.complete_with(import_kinds)
        register(check_history, Tags.database)
        # Signals come once for each app with models: the first pre_migrate is before, the last
        # post_migrate after all migrations.
        with_models = [app for app in apps.get_app_configs() if app.models_module is not None]
        pre_migrate.connect(before_migrations, sender=with_models[0], dispatch_uid="views_go")
        post_migrate.connect(after_migrations, sender=with_models[-1], dispatch_uid="views_come")
