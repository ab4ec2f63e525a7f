"""How a picture's name stands in an address: `<sha256:name>`. Importing this makes it known."""

from django.urls import register_converter
from django.urls.converters import StringConverter


class Sha256(StringConverter):
    """A digest in hex."""

    regex = "[0-9a-f]{64}"


register_converter(Sha256, "sha256")
