"""The answer to unknown REST addresses: a problem document, as everywhere below /api/."""

from typing import NoReturn

from django.http import Http404, HttpRequest
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView


@extend_schema(exclude=True)
class Nowhere(APIView):
    authentication_classes = ()
    permission_classes = (AllowAny,)
    http_method_names: list[str] = []

    def http_method_not_allowed(
        self, request: HttpRequest | Request, *args: object, **kwargs: object
    ) -> NoReturn:
        raise Http404
