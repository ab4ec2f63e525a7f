"""The interface for programs, to read and to try from the browser: the OpenAPI document by Swagger UI, served from here."""

from django.contrib.auth.mixins import LoginRequiredMixin
from django.views.generic import TemplateView


class ApiPage(LoginRequiredMixin, TemplateView):
    """What is tried here is really done, as whoever is signed in or with the token that they paste."""

    template_name = "account/api.html"
