"""Stored form of pictures: decoded once from untrusted bytes, and encoded again by us.

What leaves this room is an RGB PNG of a bounded size without metadata, named by the sha256 of its
bytes; the bytes that came in are thrown away, so nothing hidden in a file ever reaches a browser, a
scorer or an engine.
"""

import hashlib
import io
from dataclasses import dataclass

from PIL import Image, ImageOps

from apps.accounts.confining import is_confined
from apps.tasksets import gif

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
MAX_BYTES = 5 << 20  # of a file that comes in
MAX_PIXELS = 1 << 24  # of a picture that comes in, told by its header before a pixel is read
MAX_SIDE = 1024  # pixels of a picture that is kept; larger ones are scaled down
# Passes of a JPEG: each may be a few bytes long and cost as much as a whole picture.
MAX_SCANS = 64
START_OF_SCAN = b"\xff\xda"
PAPER = "white"  # what shows through where a picture is transparent


class BadPicture(ValueError):
    """Raised for bytes that are no accepted picture; the message says why."""


@dataclass(frozen=True)
class EncodedPicture:
    """Picture in the stored form: `png`, its `sha256` in hex, and its sides in pixels."""

    sha256: str
    width: int
    height: int
    png: bytes


def encode_picture(raw: bytes) -> EncodedPicture:
    """Encode a PNG, JPEG, WebP or GIF picture (its first frame) in the stored form.

    Raises BadPicture.
    """
    if not raw:
        raise BadPicture("there is nothing in it")
    if len(raw) > MAX_BYTES:
        raise BadPicture(f"is too large: {len(raw)} bytes, the limit is {MAX_BYTES}")
    if raw.count(START_OF_SCAN) > MAX_SCANS:
        raise BadPicture(f"is a JPEG with more than {MAX_SCANS} scans")
    return encode_confined(raw) if is_confined() else _decode_apart(raw)


def encode_confined(raw: bytes) -> EncodedPicture:
    """Return the same in this process, which is confined. Raises BadPicture."""
    return encode_drawn(_decoded(raw))


def _decode_apart(raw: bytes) -> EncodedPicture:
    from apps.tasksets.picture_process import decode_apart  # it imports this module

    return decode_apart(raw)


def encode_drawn(image: Image.Image) -> EncodedPicture:
    """Return a picture of ours, for instance one that a generator drew, as it is kept."""
    image = image.convert("RGB")
    image.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.LANCZOS)
    image.info = {}
    written = io.BytesIO()
    image.save(written, "PNG")
    png = written.getvalue()
    return EncodedPicture(hashlib.sha256(png).hexdigest(), image.width, image.height, png)


def _decoded(raw: bytes) -> Image.Image:
    """Return pixels in RGB, upright, on white.

    The header is looked at before anything is unpacked.
    """
    try:
        if raw.startswith(gif.HEADERS):
            raw = gif.first_picture(raw)
        with Image.open(io.BytesIO(raw), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise BadPicture(
                    f"has {image.width} × {image.height} pixels; the limit is {MAX_PIXELS} in total"
                )
            image.load()
            return _without_transparency(ImageOps.exif_transpose(image))
    except BadPicture:
        raise
    except Image.UnidentifiedImageError:
        raise BadPicture(f"is not a supported image; use {', '.join(FORMATS)}") from None
    except MemoryError:
        raise BadPicture("requires too much memory to decode") from None
    # decoders of broken files raise whatever they stumble over; the file is at fault, not we
    except Exception as error:
        raise BadPicture(f"cannot be read: {str(error)[:200] or type(error).__name__}") from None


def _without_transparency(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits of grey
        image = image.convert("I").point(lambda grey: grey / 256).convert("L")
    if not image.has_transparency_data:
        return image.convert("RGB")
    paper = Image.new("RGBA", image.size, PAPER)
    paper.alpha_composite(image.convert("RGBA"))
    return paper.convert("RGB")
