"""Pictures from untrusted bytes are re-encoded or refused with a reason; nothing else is raised."""

import hashlib
import io
import random
import struct
import zlib

import pytest
from PIL import Image, PngImagePlugin

from apps.tasksets import gif, pictures
from apps.tasksets.models import Picture
from apps.tasksets.pictures import BadPicture, encode_picture

RED = (200, 10, 10)
BLUE = (10, 10, 200)


def written(image: Image.Image, format: str = "PNG", **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()


def noise(width: int, height: int) -> Image.Image:
    """Return random grey pixels, always the same (Pillow's own noise depends on earlier calls)."""
    return Image.frombytes("L", (width, height), random.Random(7).randbytes(width * height))


def opened(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png))


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF"])
def test_each_format_is_stored_as_an_rgb_png_named_by_its_hash(format):
    kept = encode_picture(written(Image.new("RGB", (30, 20), RED), format))
    found = opened(kept.png)
    assert (
        (found.format, found.mode, found.size)
        == ("PNG", "RGB", (30, 20))
        == ("PNG", "RGB", (kept.width, kept.height))
    )
    assert kept.sha256 == hashlib.sha256(kept.png).hexdigest()
    assert all(abs(a - b) < 8 for a, b in zip(found.getpixel((5, 5)), RED, strict=True))


def test_encoding_a_stored_picture_again_changes_no_byte():
    once = encode_picture(written(noise(50, 40)))
    assert encode_picture(once.png) == once


def test_stored_picture_contains_no_metadata():
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Comment", "where I live")
    exif = Image.Exif()
    exif[0x010E] = "where I live"
    for raw in (
        written(
            Image.new("RGB", (4, 4)),
            pnginfo=notes,
            exif=exif,
            icc_profile=b"where I live",
            dpi=(72, 72),
        ),
        written(Image.new("RGB", (4, 4)), "JPEG", exif=exif, comment="where I live"),
    ):
        assert b"where I live" in raw
        kept = encode_picture(raw).png
        assert b"where I live" not in kept
        assert opened(kept).info == {}


def test_picture_is_rotated_according_to_its_exif_orientation():
    exif = Image.Exif()
    exif[0x0112] = 6
    kept = encode_picture(written(Image.new("RGB", (30, 20)), "JPEG", exif=exif))
    assert (kept.width, kept.height) == (20, 30)


def test_large_picture_is_scaled_down_proportionally():
    kept = encode_picture(written(Image.new("L", (3000, 1500))))
    assert (kept.width, kept.height) == (1024, 512)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_every_pixel_mode_becomes_rgb(mode):
    format = "JPEG" if mode == "CMYK" else "PNG"
    assert opened(encode_picture(written(Image.new(mode, (6, 6)), format)).png).mode == "RGB"


def test_sixteen_bit_grey_keeps_its_brightness():
    kept = opened(encode_picture(written(Image.new("I;16", (6, 6), 0x8000))).png)
    assert kept.getpixel((0, 0)) == (128, 128, 128)


def test_transparent_pixels_become_white():
    assert opened(encode_picture(written(Image.new("RGBA", (6, 6), (0, 0, 0, 0)))).png).getpixel(
        (3, 3)
    ) == (255, 255, 255)


def test_only_the_first_frame_of_an_animated_gif_is_stored():
    frames = [Image.new("RGB", (6, 6), colour) for colour in (RED, BLUE)]
    raw = written(
        frames[0], "GIF", save_all=True, append_images=frames[1:], comment=b"where I live"
    )
    kept = opened(encode_picture(raw).png)
    assert kept.getpixel((0, 0)) == RED
    assert b"where I live" not in gif.first_picture(raw)


# -- what is refused


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_of(width: int, height: int, data: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


GOOD = written(noise(40, 40))
JPEG = written(noise(40, 40), "JPEG", progressive=True)
REFUSED = {
    "nothing": (b"", "nothing"),
    "text": (b"hello", "not a supported image"),
    "svg": (
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        "not a supported image",
    ),
    "tiff": (written(Image.new("L", (4, 4)), "TIFF"), "not a supported image"),
    "bmp": (written(Image.new("L", (4, 4)), "BMP"), "not a supported image"),
    "too many bytes": (GOOD + b"\0" * pictures.MAX_BYTES, "bytes, the limit is"),
    "cut short": (GOOD[: len(GOOD) // 2], "cannot be read"),
    "cut short GIF": (written(noise(40, 40), "GIF")[:300], "ends before"),
    "GIF without a picture": (b"GIF89a\x01\0\x01\0\0\0\0;", "contains no image"),
    "damaged": (GOOD[:60] + b"\xff" * 40 + GOOD[100:], "cannot be read"),
    "more pixels than there is data": (png_of(100, 100, zlib.compress(b"\0")), "cannot be read"),
    "a bomb": (
        png_of(20_000, 20_000, zlib.compress(b"\0" * 10_000_000)),
        "cannot be read|pixels; the limit is",
    ),
    "a smaller bomb": (
        png_of(5_000, 5_000, zlib.compress(b"\0" * 25_005_000)),
        "5000 × 5000 pixels; the limit is",
    ),
    "a JPEG of endless scans": (JPEG + b"\xff\xda\x00\x08" * 100, "scans"),
    "text that unpacks into a bomb": (
        GOOD[:-12] + chunk(b"zTXt", b"a\0\0" + zlib.compress(b"a" * 100_000_000)) + GOOD[-12:],
        "cannot be read",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_picture_is_refused_with_the_reason(name):
    raw, reason = REFUSED[name]
    with pytest.raises(BadPicture, match=reason):
        encode_picture(raw)


def test_decompression_bomb_is_refused_before_it_is_unpacked(monkeypatch):
    monkeypatch.setattr(Image.Image, "load", lambda *_: pytest.fail("was unpacked"))
    with pytest.raises(BadPicture, match="pixels"):
        encode_picture(REFUSED["a smaller bomb"][0])


def test_gif_with_millions_of_blocks_is_read_in_linear_time():
    small = written(Image.new("P", (4, 4)), "GIF")
    comment = b"!\xfe" + b"\x01a" * 2_400_000 + b"\0"
    at = small.index(b",\0\0\0\0")
    assert (
        encode_picture(small[:at] + comment + small[at:]).width == 4
    )  # a reader that concatenates the blocks would take many minutes


def test_randomly_changed_bytes_raise_only_bad_picture():
    draw = random.Random(5)
    for format in ("PNG", "JPEG", "WEBP", "GIF"):
        raw = written(noise(24, 24), format)
        for _ in range(200):
            broken = bytearray(raw)
            for _ in range(draw.randint(1, 6)):
                broken[draw.randrange(len(broken))] = draw.randrange(256)
            try:
                encode_picture(bytes(broken))
            except BadPicture:
                continue


# -- stored


def test_the_same_picture_is_stored_once_in_a_project(project):
    first = Picture.take(project, GOOD)
    again = Picture.take(project, GOOD)
    assert first == again and Picture.objects.count() == 1
    assert opened(bytes(first.png)).size == (first.width, first.height) == (40, 40)


def test_picture_is_visible_only_to_members_of_its_project(project, bob, carol):
    kept = Picture.take(project, GOOD)
    assert list(Picture.objects.visible_to(bob)) == [kept]
    assert not Picture.objects.visible_to(carol).exists()
