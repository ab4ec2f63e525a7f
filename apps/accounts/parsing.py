"""Request bodies of the REST interface: strict JSON of bounded size, without compression."""

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import APIException, ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser

from apps.accounts import strict_json


class TooLarge(APIException):
    status_code = 413
    default_detail = f"The body is larger than {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes."
    default_code = "too_large"


class StrictJSONParser(BaseParser):
    """A JSON parser that raises TooLarge (413), UnsupportedMediaType (415), ParseError (400)."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        assert parser_context is not None  # the framework always passes it
        encoding = parser_context["request"].headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise UnsupportedMediaType(
                media_type or "",
                f"Content-Encoding {encoding[:40]!r} is not supported. Send the body uncompressed.",
            )
        body = stream.read(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
        if len(body) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise TooLarge
        try:
            return strict_json.decode_json(body)
        except strict_json.NotStrictJson as error:
            raise ParseError(f"The body is not valid JSON: {error}.") from None
