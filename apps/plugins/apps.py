"""The app config of plugins: tells the registry where the installation's plugins folder is."""

from django.apps import AppConfig
from django.conf import settings


class Plugins(AppConfig):
    name = "apps.plugins"

    def ready(self) -> None:
        from apps.plugins.registry import REGISTRY

        REGISTRY.use(settings.PLUGINS)
