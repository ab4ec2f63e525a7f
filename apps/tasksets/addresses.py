"""URL converter for a picture's name, `<sha256:name>`; importing this module registers it."""

from django.urls import register_converter
from django.urls.converters import StringConverter


class Sha256(StringConverter):
    """URL converter of a digest in hex."""

    regex = "[0-9a-f]{64}"


register_converter(Sha256, "sha256")
