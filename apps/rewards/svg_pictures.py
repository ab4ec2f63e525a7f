"""Pictures out of markup that a policy wrote, and how like each other two pictures are.

Markup is hostile: only elements that draw by themselves are taken, nothing that refers to files or
addresses, repeats others, or costs more than it says. What is left is drawn by resvg, without
fonts, on white.
"""

import io
import re
from xml.etree import ElementTree

import numpy
from PIL import Image

MAX_MARKUP_LENGTH = 20_000  # characters of markup
MAX_ELEMENTS = 500
DEEPEST = 32
SIDE = 128  # pixels of the longer side on which pictures are compared
WINDOW = 7  # pixels; Wang et al. 2004 take 8 or a Gaussian of 11
ELEMENTS = frozenset(
    {
        "svg",
        "g",
        "path",
        "rect",
        "circle",
        "ellipse",
        "line",
        "polyline",
        "polygon",
        "defs",
        "linearGradient",
        "radialGradient",
        "stop",
        "title",
        "desc",
        "clipPath",
    }
)
REFUSED = re.compile(
    r"<!|<\?(?!xml\s)|href|dasharray|@import|url\s*\(\s*(?!#|&#|['\"]?#)", re.IGNORECASE
)
_NUMBER = re.compile(r"\s*+(\d{1,5}+(?:\.\d{1,6}+)?+)(?:px)?+\s*+")


class NoDrawing(ValueError):
    """Markup that is not rendered; the message says why."""


def svg_in(text: str) -> str:
    """Return the last whole <svg> element of a reply. Raises NoDrawing."""
    start = max(text.rfind("<svg>"), text.rfind("<svg "), text.rfind("<svg\n"))
    end = text.find("</svg>", start)
    if start < 0 or end < 0:
        raise NoDrawing("no whole <svg> element")
    return text[start : end + len("</svg>")]


def draw_svg(svg: str) -> Image.Image:
    """Render the markup in RGB in its own proportions, the longer side at most SIDE pixels.

    Raises NoDrawing.
    """
    import resvg_py

    width, height = _size(_parse_svg(svg))
    scale = SIDE / max(width, height)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    # As an element of the dialect; who leaves the namespace out means it.
    whole = (
        svg
        if "xmlns=" in svg
        else svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    )
    try:
        png = resvg_py.svg_to_bytes(
            svg_string=whole,
            skip_system_fonts=True,
            background="#ffffff",
            width=size[0],
            height=size[1],
        )
    except ValueError as error:
        raise NoDrawing(str(error)[:200]) from None
    return Image.open(io.BytesIO(png)).convert("RGB")


def _parse_svg(svg: str) -> ElementTree.Element:
    if len(svg) > MAX_MARKUP_LENGTH:
        raise NoDrawing(f"longer than {MAX_MARKUP_LENGTH} characters")
    if refused := REFUSED.search(svg):
        raise NoDrawing(f"{refused.group().strip()[:20]!r} is not supported")
    try:
        root = ElementTree.fromstring(svg)
    except (ElementTree.ParseError, UnicodeError) as error:
        raise NoDrawing(f"not well-formed markup: {error}") from None
    for count, (element, depth) in enumerate(_walk_elements(root), start=1):
        name = element.tag.rpartition("}")[2]
        if name not in ELEMENTS:
            raise NoDrawing(f"<{name[:30]}> is not supported")
        if count > MAX_ELEMENTS or depth > DEEPEST:
            raise NoDrawing(f"more than {MAX_ELEMENTS} elements, or nested deeper than {DEEPEST}")
    return root


def _walk_elements(root: ElementTree.Element):
    pending = [(root, 1)]
    while pending:
        element, depth = pending.pop()
        yield element, depth
        pending += [(child, depth + 1) for child in element]


def _size(root: ElementTree.Element) -> tuple[float, float]:
    """Return the picture's width and height; 100 if it gives none. Raises NoDrawing."""
    box = root.get("viewBox", "").replace(",", " ").split()
    size = box[2:] if len(box) == 4 else (root.get("width", "100"), root.get("height", "100"))
    numbers = [number for side in size if (number := _NUMBER.fullmatch(side))]
    if len(numbers) < len(size) or not all(float(side[1]) > 0 for side in numbers):
        raise NoDrawing("width and height must be positive numbers")
    width, height = (float(side[1]) for side in numbers)
    if max(width, height) > 100 * min(width, height):
        raise NoDrawing("far longer than wide")
    return width, height


def likeness(expected: Image.Image, reply: Image.Image) -> float:
    """Return the likeness of two pictures from 0 to 1, beyond that of one even colour.

    It is the mean of two parts. One is structural similarity (SSIM, over all windows; Wang, Bovik,
    Sheikh, Simoncelli 2004), the other is 1 − the mean difference of colour. Each part is measured
    from its value for the even sheet upwards. `reply` is stretched to the size of `expected`.
    """
    expected_array = numpy.asarray(expected, dtype=numpy.float64)
    reply_array = numpy.asarray(
        reply.resize(expected.size, Image.Resampling.BILINEAR), dtype=numpy.float64
    )
    even = numpy.broadcast_to(numpy.median(expected_array, axis=(0, 1)), expected_array.shape)
    return (
        _rescale_likeness(ssim(expected_array, even), ssim(expected_array, reply_array))
        + _rescale_likeness(
            _colour_similarity(expected_array, even),
            _colour_similarity(expected_array, reply_array),
        )
    ) / 2


def _colour_similarity(first: numpy.ndarray, second: numpy.ndarray) -> float:
    return 1 - float(abs(first - second).mean()) / 255


def _rescale_likeness(plain: float, likeness: float) -> float:
    """Rescale a likeness so that the even sheet's likeness (`plain`) becomes 0 and 1 stays 1.

    If the expected picture is an even sheet itself, return the likeness unchanged.
    """
    return min(1.0, max(0.0, likeness if plain > 1 - 1e-9 else (likeness - plain) / (1 - plain)))


def ssim(first: numpy.ndarray, second: numpy.ndarray) -> float:
    """Return the mean structural similarity of two arrays (height, width, colours), in [−1, 1].

    Their values are 0 … 255.
    """
    near = (0.01 * 255) ** 2
    far = (0.03 * 255) ** 2
    mean_1 = _windows(first)
    mean_2 = _windows(second)
    spread_1 = _windows(first * first) - mean_1**2
    spread_2 = _windows(second * second) - mean_2**2
    shared = _windows(first * second) - mean_1 * mean_2
    top = (2 * mean_1 * mean_2 + near) * (2 * shared + far)
    return float((top / ((mean_1**2 + mean_2**2 + near) * (spread_1 + spread_2 + far))).mean())


def _windows(values: numpy.ndarray) -> numpy.ndarray:
    """Return the mean of each window, by sums of sums."""
    size = min(WINDOW, *values.shape[:2])
    sums = numpy.pad(values.cumsum(0).cumsum(1), ((1, 0), (1, 0), (0, 0)))
    return (
        sums[size:, size:] - sums[:-size, size:] - sums[size:, :-size] + sums[:-size, :-size]
    ) / size**2
