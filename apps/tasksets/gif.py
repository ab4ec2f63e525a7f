"""The first picture of a GIF, and nothing else of it.

A GIF may hold any number of pictures, comments and extensions, each cut into blocks as small as a
byte, and readers that gather them take time in the square of the file. Here the file is walked
once, and what we do not want is left out. The layout is that of the GIF89a specification: header,
screen, colours, blocks.
"""

HEADERS = (b"GIF87a", b"GIF89a")
EXTENSION = 0x21
PICTURE = 0x2C  # how a block begins
GRAPHIC_CONTROL = 0xF9  # the extension that tells which colour is transparent
END = b";"


class BrokenGif(ValueError):
    """Raised if the file ends, or holds something else, where a block should be."""


def first_picture(raw: bytes) -> bytes:
    """Return a GIF of the first picture alone. Raises BrokenGif."""
    try:
        return _first_picture(raw)
    except IndexError:
        raise BrokenGif("the file ends before the first image is complete") from None


def _first_picture(raw: bytes) -> bytes:
    if not raw.startswith(HEADERS):
        raise BrokenGif("the file is not a GIF")
    at = 13 + _colours(raw[10])  # six bytes of header, seven of the screen
    header = bytearray(raw[:at])
    while raw[at] == EXTENSION:
        behind = _behind_blocks(raw, at + 2)
        if raw[at + 1] == GRAPHIC_CONTROL and behind - at == 8:
            header += raw[at:behind]
        at = behind
    if raw[at] != PICTURE:
        raise BrokenGif("the file contains no image")
    data = at + 10 + _colours(raw[at + 9])
    return bytes(header) + raw[at : _behind_blocks(raw, data + 1)] + END


def _colours(flags: int) -> int:
    """Return bytes of the table of colours that these flags announce."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _behind_blocks(raw: bytes, at: int) -> int:
    """Return the offset after the chain of blocks that begins at `at`.

    Each block gives its length first, and an empty one is the last.
    """
    while length := raw[at]:
        at += 1 + length
    return at + 1
