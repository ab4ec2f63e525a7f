"""Configuration of the app `dashboard`, which starts the tour at the first login."""

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in


class DashboardConfig(AppConfig):
    name = "apps.dashboard"

    def ready(self) -> None:
        from apps.dashboard.tour import look_for_it

        user_logged_in.connect(look_for_it, dispatch_uid="tour_is_looked_for")
