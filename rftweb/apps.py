"""The project as an app of its own: what is to happen around migrations."""

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate, pre_migrate


class Rftweb(AppConfig):
    name = "rftweb"

    def ready(self) -> None:
        from rftweb.sql.making import after_migrations, before_migrations

        # Signals come once for each app that has models: the first one's is before, the last one's behind all migrations.
        with_models = [app for app in apps.get_app_configs() if app.models_module is not None]
        pre_migrate.connect(before_migrations, sender=with_models[0], dispatch_uid="views_go")
        post_migrate.connect(after_migrations, sender=with_models[-1], dispatch_uid="views_come")
