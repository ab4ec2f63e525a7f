"""Pictures as we keep them: read once from bytes that nobody vouches for, and written anew by us.

What leaves this room is an RGB PNG of a bounded size without metadata, named by the sha256 of its bytes; the bytes that
came in are thrown away, so nothing hidden in a file ever reaches a browser, a scorer or an engine.
"""

import hashlib
import io
from dataclasses import dataclass

from PIL import Image, ImageOps

from apps.accounts.confining import is_confined
from apps.tasksets import gif

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
MOST_BYTES = 5 << 20  # of a file that comes in
MOST_PIXELS = 1 << 24  # of a picture that comes in, told by its header before a pixel is read
LONGEST_SIDE = 1024  # pixels of a picture that is kept; larger ones are scaled down
MOST_SCANS = 64  # passes of a JPEG: each may be a few bytes long and cost as much as a whole picture
START_OF_SCAN = b"\xff\xda"
PAPER = "white"  # what shows through where a picture is transparent


class BadPicture(ValueError):
    """The bytes are no picture that we take; the message says why."""


@dataclass(frozen=True)
class Encoded:
    """A picture as it is kept: `png` are our bytes, `sha256` is theirs in hex; sides in pixels."""

    sha256: str
    width: int
    height: int
    png: bytes


def encode(raw: bytes) -> Encoded:
    """The picture in a PNG, JPEG, WebP or GIF file (its first frame), as we keep it. Raises BadPicture."""
    if not raw:
        raise BadPicture("there is nothing in it")
    if len(raw) > MOST_BYTES:
        raise BadPicture(f"has {len(raw)} bytes; at most {MOST_BYTES} are taken")
    if raw.count(START_OF_SCAN) > MOST_SCANS:
        raise BadPicture(f"is a JPEG of more than {MOST_SCANS} scans")
    return decode(raw) if is_confined() else _decode_apart(raw)


def decode(raw: bytes) -> Encoded:
    """The same in this process, which is confined. Raises BadPicture."""
    return drawn(_decoded(raw))


def _decode_apart(raw: bytes) -> Encoded:
    from apps.tasksets.picture_process import decode_apart  # it imports this module

    return decode_apart(raw)


def drawn(image: Image.Image) -> Encoded:
    """A picture of ours, for instance one that a generator drew, as it is kept."""
    image = image.convert("RGB")
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    image.info = {}
    written = io.BytesIO()
    image.save(written, "PNG")
    png = written.getvalue()
    return Encoded(hashlib.sha256(png).hexdigest(), image.width, image.height, png)


def _decoded(raw: bytes) -> Image.Image:
    """Pixels in RGB, upright, on white. The header is looked at before anything is unpacked."""
    try:
        if raw.startswith(gif.HEADERS):
            raw = gif.first_picture(raw)
        with Image.open(io.BytesIO(raw), formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                raise BadPicture(f"has {image.width} × {image.height} pixels; at most {MOST_PIXELS} in all are taken")
            image.load()
            return _on_paper(ImageOps.exif_transpose(image))
    except BadPicture:
        raise
    except Image.UnidentifiedImageError:
        raise BadPicture(f"is no picture that we read; {', '.join(FORMATS)} are taken") from None
    except MemoryError:
        raise BadPicture("takes too much memory to decode") from None
    except Exception as error:  # decoders of broken files raise whatever they stumble over; the file is at fault, not we
        raise BadPicture(f"cannot be read: {str(error)[:200] or type(error).__name__}") from None


def _on_paper(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits of grey
        image = image.convert("I").point(lambda grey: grey / 256).convert("L")
    if not image.has_transparency_data:
        return image.convert("RGB")
    paper = Image.new("RGBA", image.size, PAPER)
    paper.alpha_composite(image.convert("RGBA"))
    return paper.convert("RGB")
