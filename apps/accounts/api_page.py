"""The page that shows the API document in Swagger UI and lets people try requests."""

from django.contrib.auth.mixins import LoginRequiredMixin
from django.views.generic import TemplateView


class ApiPage(LoginRequiredMixin, TemplateView):
    """A page of the API document.

    Requests tried there take effect, as the signed-in user or with a pasted token.
    """

    template_name = "account/api.html"
