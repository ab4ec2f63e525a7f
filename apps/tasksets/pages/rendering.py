"""Renderer of pages: WeasyPrint lays out one sheet of the window's size, PDFium draws it.

WeasyPrint needs Pango's shared libraries and a font of the system. Nothing is ever fetched: it is
given no address, and a fetcher that refuses all.
"""

import contextlib
import io
import signal
import threading
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any, NoReturn

from PIL import Image, ImageFile

from apps.tasksets.pages.cleaning import cleaned
from apps.tasksets.pages.refusals import NoPage, NoRenderer

WIDTH = 224
HEIGHT = 168  # pixels of the window, unless told
MIN_SIDE = 32
MAX_SIDE = 1024
CPU_S = 4.0  # of processor time for a page: a hundred times what an ordinary one takes
# of processor time later it is told again: Python swallows what is raised where it clears something
# up
AGAIN_S = 0.5
POINTS = 0.75  # in a pixel
ONE_AT_A_TIME = threading.Lock()  # neither Pango's fonts nor PDFium stand two threads at once
PACKAGES = (
    "libpango-1.0-0",
    "libpangoft2-1.0-0",
    "libharfbuzz-subset0",
    "fonts-dejavu-core",
)  # Debian's, or others like them
# The body is laid out in one piece, however long: what is below the window's end is cut, and makes
# no further sheets. Buttons and fields are as wide as browsers make them.
WINDOW = """
@page {{ size: {width}px {height}px; margin: 0 }}
html {{ position: static !important; float: none !important; display: block !important }}
body {{
  position: absolute !important; float: none !important;
  top: 0 !important; right: 0 !important; bottom: auto !important; left: 0 !important;
}}
button {{ width: auto; height: auto; padding: 1px 6px }}
input:is([type=button i], [type=submit i], [type=reset i]) {{
  width: auto; height: auto; padding: 1px 6px }}
input, select, textarea {{ width: 10em }}
input:is([type=checkbox i], [type=radio i]) {{ width: .7em }}
"""


class _TooLong(BaseException):
    """Raised when the processor time of a page is used up.

    It is no Exception, which the renderer might take for one of its own.
    """


def require_renderer() -> None:
    """Raise NoRenderer where pages are not rendered, saying what is missing."""
    _fonts()


def render_page(html: str, width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    """Render the page as a window of this size (pixels) shows it, in RGB.

    Raises NoPage for a page that cannot be laid out, NoRenderer without the renderer.
    """
    page = cleaned(html)
    fonts = _fonts()
    try:
        with ONE_AT_A_TIME, _processor_time_limit(CPU_S):
            return _picture(_sheet(page, width, height, fonts), width, height)
    except _TooLong:
        raise NoPage(f"takes longer than {CPU_S:g} s to lay out") from None
    # the renderer raises whatever it stumbles over; a page that it cannot lay out is at fault
    except Exception as error:
        raise NoPage(f"cannot be laid out: {type(error).__name__}: {str(error)[:100]}") from None


def _sheet(page: str, width: int, height: int, fonts: Any) -> bytes:
    """Return the PDF of the first sheet."""
    from weasyprint import CSS, HTML
    from weasyprint.urls import URLFetcher

    refuses_all = URLFetcher(allowed_protocols=())
    window = CSS(
        string=WINDOW.format(width=width, height=height), font_config=fonts, url_fetcher=refuses_all
    )
    whole = HTML(string=page, media_type="screen", url_fetcher=refuses_all).render(
        font_config=fonts, stylesheets=[window]
    )
    return whole.copy(whole.pages[:1]).write_pdf()


def _picture(pdf: bytes, width: int, height: int) -> Image.Image:
    from pypdfium2 import PdfDocument

    with contextlib.closing(PdfDocument(pdf)) as document:
        picture = document[0].render(scale=1 / POINTS).to_pil().convert("RGB")
    return picture.crop((0, 0, width, height))


@cache
def _fonts() -> Any:
    """Return the fonts of the system, read once. Raises NoRenderer."""
    try:
        # Where a library is missing the import prints a page of advice; doctors and programs print
        # answers of their own there.
        with (
            _restored_pillow(),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter(
                "error", UserWarning
            )  # of a machine without fonts, where Pango would crash
            from weasyprint.text.fonts import FontConfiguration
    except UserWarning:
        raise NoRenderer("pages cannot be rendered on this machine: no font is installed") from None
    except (ImportError, OSError) as missing:
        raise NoRenderer(
            f"pages cannot be rendered on this machine: {str(missing).partition(': ')[0][:150]}"
        ) from None
    return FontConfiguration()


@contextlib.contextmanager
def _restored_pillow() -> Iterator[None]:
    """Restore Pillow's refusal of damaged pictures after the import of WeasyPrint.

    WeasyPrint makes Pillow accept them in the whole process when it is imported.
    """
    before = ImageFile.LOAD_TRUNCATED_IMAGES
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


@contextlib.contextmanager
def _processor_time_limit(seconds: float) -> Iterator[None]:
    """Raise _TooLong inside when this much processor time is used.

    Only the main thread can be told so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPROF, _raise_too_long)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _raise_too_long(*_: object) -> NoReturn:
    raise _TooLong
