"""Pages rendered as pictures: what is rendered and what is refused; nothing is fetched or written,
and layout time is limited.
"""

import contextlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import tinyhtml5
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from apps.tasksets.pages import NoPage, cleaned, render_page, rendering
from apps.tasksets.pages.cleaning import ATTRIBUTES, ELEMENTS, SPANS

RED = (255, 0, 0)
WHITE = (255, 255, 255)
PIECES = (
    "<style>",
    "</style>",
    "<p style='",
    "'>",
    "<script>",
    "<img src=a>",
    "<a href='b' onclick=c>",
    "<!--",
    "-->",
    "<table>",
    "<td colspan=2>",
    "content:'\\3c/style>\\3cimg src=a>';",
    "color:red;",
    "url(",
    "@import 'a';",
    "{",
    "}",
    "(",
    ")",
    '"',
    "'",
    "/*",
    "*/",
    "\\",
    "&lt;",
    "p",
    "<textarea>",
    "<title>",
    "<svg>",
    "<math>",
    "<b>",
    "</b>",
    "<noscript>",
    "<select>",
    "<template>",
    "<plaintext>",
    "<body a=b>",
    "\0",
    "<",
)
BOX = "<div style='width: 50px; height: 50px; background: red'></div>"


def pixel(html: str, x: int, y: int) -> tuple[int, ...]:
    return render_page(html).getpixel((x, y))


def nested(opened: str, closed: str, times: int, inside: str = "x") -> str:
    return opened * times + inside + closed * times


def test_page_is_rendered_from_its_top_in_the_requested_size():
    page = f"<style>body {{ margin: 0 }}</style>{BOX}<div style='height: 3000px'></div><p>below</p>"
    for size in ((224, 168), (333, 97), (1024, 1024), (32, 32)):
        picture = render_page(page, *size)
        assert picture.size == size and picture.mode == "RGB" and picture.getpixel((5, 5)) == RED
    assert pixel(page, 60, 60) == WHITE


def test_rendering_a_page_twice_gives_the_same_picture():
    page = f"<h1>Lamps</h1><ul><li>one<li>two</ul>{BOX}<button>Buy</button>"
    other = render_page(page)
    render_page("<p style='font: bold 40px serif'>between</p>")
    assert render_page(page).tobytes() == other.tobytes()


def test_styles_are_applied_as_in_a_browser():
    page = (
        "<style>/* red */ .a > p {{ background: red; cursor: pointer; nonsense }} {} p {{ margin:"
        " 0; height: 40px }}</style>"
    )
    assert pixel(page.format("") + "<div class=a><p>", 100, 20) == RED
    assert (
        pixel(
            page.format("@media print { .a > p { background: white } }") + "<div class=a><p>",
            100,
            20,
        )
        == RED
    )
    assert (
        pixel(
            page.format("@media screen { .a > p { background: white } }") + "<div class=a><p>",
            100,
            20,
        )
        == WHITE
    )
    assert pixel("<body style='margin: 0; min-height: 100vh; background: red'>", 220, 160) == RED


def test_page_styles_cannot_make_the_picture_longer_than_one_window():
    escape = (
        "html, body { position: static !important; height: auto !important; break-before: page }"
    )
    assert (
        pixel(
            f"<style>{escape} body {{ margin: 0 }}</style>{BOX}"
            + "<p style='font-size: 300px'>"
            + "ab " * 5_000,
            5,
            5,
        )
        == RED
    )


@pytest.mark.parametrize(
    ("html", "told"),
    [
        ("<script>alert(1)</script>", "<script>"),
        ("<body onload=a()><noscript>", "<noscript>"),
        ("<img src='file:///etc/passwd'>", "<img>"),
        ("<img src='data:image/png;base64,'>", "<img>"),
        ("<link rel=stylesheet href='http://127.0.0.1/a.css'>", "<link>"),
        ("<base href='file:///'>", "<base>"),
        ("<iframe src='file:///etc/passwd'>", "<iframe>"),
        ("<object data=a>", "<object>"),
        ("<embed src=a>", "<embed>"),
        ("<svg><image href='file:///etc/passwd'/></svg>", "<svg>"),
        ("<math><mi>x</mi></math>", "<math>"),
        ("<video src=a>", "<video>"),
        ("<picture>", "<picture>"),
        ("<template><p>", "<template>"),
        ("<frameset>", "<frameset>"),
        ("<style>@import 'http://127.0.0.1/a.css';</style>", "@import"),
        ("<style>@font-face{src:url(a)}</style>", "@font-face"),
        ("<style>@page{size:1e6px}</style>", "@page"),
        ("<style>@counter-style a{symbols:a}</style>", "@counter-style"),
        ("<style>body{background:url(file:///etc/passwd)}</style>", "url()"),
        ("<p style='background:u\\72l(a)'>", "url()"),
        ("<p style='background:URL( \"http://127.0.0.1/\")'>", "url()"),
        ("<p style='background:url(a\"b'>", "url()"),
        ("<p style='background:image-set(\"a.png\" 1x)'>", "image-set()"),
        ("<p style='width:var(--a)'>", "var()"),
        ("<style>p::before{content:counter(a)counter(a)}</style>", "counter()"),
        ("<p style='content:attr(x)'>", "attr()"),
        (
            "<p style='background:repeating-linear-gradient(red,blue 1e-9px)'>",
            "repeating-linear-gr",
        ),
        ("<div style='width:1000000000px'>", "too large"),
        ("<p style='font-size:1e9px'>", "too large"),
        ("<p style='font-size:51em'>", "too large"),
        ("<p style='width:1e999px'>", "too large"),
        ("<div style='grid-template-columns:repeat(1000000,1px)'>", "tracks"),
        ("<table><td colspan=1000000000>", "colspan"),
        ("<table><td rowspan=51>", "rowspan"),
        ("<table><col span=" + "9" * 5_000 + ">", "span"),
        ("<p style='width:" + "calc(" * 900 + "'>", "brackets"),
        ("<style>" + ":is(" * 900 + ")" * 900 + "{}</style>", "brackets"),
        ("<style>" + "p{}" * 201 + "</style>", "200 style rules"),
        ("<style>" + "a " * 200 + "{}</style>", "200 characters"),
        ("x" * 20_001, "20000 characters"),
        ("<" * 2_001, "tags"),
        ("<br>" * 501, "500 elements"),
        ("<p>" * 501, "500 elements"),
        (nested("<div>", "</div>", 40), "deeper"),
        (nested("<table><tr><td>", "</table>", 20), "deeper"),
    ],
)
def test_page_that_fetches_or_may_cost_too_much_is_refused_with_a_reason(html, told):
    with pytest.raises(NoPage, match=re.escape(told)):
        render_page(html)


@pytest.mark.parametrize(
    "html",
    [
        nested("<div style='display:flex'>", "</div>", 28),
        nested("<div style='display:grid'>", "</div>", 28),
        nested("<i style='display:inline-block'>a", "</i>", 28),
        "<div style='display:grid'>"
        + "<p style='grid-column:span 10000;grid-row:span 10000'>a" * 50,
    ],
)
def test_page_with_endless_layout_is_stopped(html, monkeypatch):
    monkeypatch.setattr(rendering, "CPU_S", 0.3)
    with pytest.raises(NoPage, match=r"longer than 0\.3 s"):
        render_page(html)


def test_time_limit_that_was_suppressed_is_raised_again(monkeypatch):
    def busy(seconds: float) -> None:
        ends = time.process_time() + seconds
        while time.process_time() < ends:
            pass

    monkeypatch.setattr(rendering, "AGAIN_S", 0.1)
    with pytest.raises(rendering._TooLong), rendering._processor_time_limit(0.1):
        with contextlib.suppress(rendering._TooLong):  # as Python suppresses errors in a finalizer
            busy(5)
        busy(5)
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


@pytest.mark.parametrize(
    "html",
    [
        "<p>" + "ab " * 6_000,
        "<p>" + "漢" * 19_000,
        "<p style='font-size:10000px'>" + "ab " * 6_000,
        "<pre>" + "\n" * 19_000,
        "<div style='border:1px dotted red;height:10000px;width:10000px'></div>" * 100,
        "<!--" * 400,
        "&" * 9_000,
        "\ud800\udfff\0<p>\0",
        "<ol start=" + "9" * 30 + " style='list-style-type:upper-roman'><li>a",
        "<li value=" + "9" * 4_000 + ">a",
        "",
        "<table>" + "<tr><td colspan=50 rowspan=50>x" * 100,
        "<b>" * 20 + "<p>" * 20,
        "</p>" * 900,
        "<table><p><table><b><td>x",
        "<style>"
        + "* * * * * * .z{color:red}" * 100
        + "</style>"
        + nested("<div>", "</div>", 28) * 6,
    ],
)
def test_unusual_but_bounded_page_is_rendered(html):
    assert render_page(html).size == (rendering.WIDTH, rendering.HEIGHT)


@pytest.mark.parametrize(
    "css",
    [
        "p::before { content: '\\3c/style>\\3cscript>' }",
        "[a='\\3c/style>\\3cimg src=a>'] { top: 0 }",
        "/*</*/p { top: 0 }",
    ],
)
def test_css_cannot_close_its_style_element(css):
    page = cleaned(f"<style>{css}</style><p>x")
    assert re.findall(r"<[^>]*>", page) == [
        "<!doctype html>",
        "<html>",
        "<head>",
        "<style>",
        "</style>",
        "</head>",
        "<body>",
        "<p>",
        "</p>",
        "</body>",
        "</html>",
    ]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join))
def test_cleaned_page_contains_only_allowed_elements_and_attributes(text):
    with contextlib.suppress(NoPage):
        left = list(
            tinyhtml5.parse(io.StringIO(cleaned(text)), namespace_html_elements=False).iter()
        )
        assert {element.tag for element in left} <= {*ELEMENTS, "head", "style"}
        assert {name for element in left for name in element.attrib} <= {
            *ATTRIBUTES,
            *SPANS,
            "style",
            "href",
        }


def test_event_handlers_and_active_attributes_are_removed():
    page = cleaned(
        "<body onload=a()><a href='http://127.0.0.1/' onclick=b() style='color:red;"
        " behavior:c'>x</a>"
    )
    assert page.endswith('<body><a href="#" style="color:red">x</a></body></html>')


def test_renderer_fetches_no_address_even_without_cleaning(tmp_path, monkeypatch):
    picture = tmp_path / "red.png"
    Image.new("RGB", (50, 50), RED).save(picture)
    opened = []
    monkeypatch.setattr(socket, "socket", lambda *_, **__: opened.append("socket"))
    monkeypatch.setattr(rendering, "cleaned", lambda html: html)
    passed = f"<link rel=stylesheet href='http://127.0.0.1:9/a.css'><img src='{picture.as_uri()}'>"
    assert (
        render_page(passed).getcolors() == [(rendering.WIDTH * rendering.HEIGHT, WHITE)]
        and opened == []
    )


def test_threads_render_the_same_pictures_as_one_thread():
    pages = [f"<p>{word}{BOX}" for word in ("one", "two", "three", "four") * 3]
    with ThreadPoolExecutor(4) as threads:
        said = [picture.tobytes() for picture in threads.map(render_page, pages)]
    assert said == [render_page(page).tobytes() for page in pages]


def test_rendering_a_page_leaves_truncated_images_refused():
    asks = (
        "from PIL import ImageFile\n"
        "from apps.tasksets.pages.rendering import render_page\n"
        "render_page('<p>one')\n"
        "import weasyprint.images\n"
        "print(ImageFile.LOAD_TRUNCATED_IMAGES)"
    )
    done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


ASKS = (
    "from apps.tasksets.pages import NoRenderer, require_renderer\n"
    "try:\n    require_renderer()\nexcept NoRenderer as"
    " why:\n    print(why)"
)


def test_missing_pango_gives_a_one_line_message():
    missing = (
        "import cffi\ndef dlopen(*_):\n    raise OSError('cannot load library"
        " pango')\ncffi.FFI.dlopen = dlopen\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", missing + ASKS], capture_output=True, text=True, check=True
    )
    assert done.stdout == "pages cannot be rendered on this machine: cannot load library pango\n"


def test_missing_fonts_give_a_clear_message(tmp_path):
    empty = tmp_path / "fonts.conf"
    empty.write_text(f'<?xml version="1.0"?><fontconfig><dir>{tmp_path}</dir></fontconfig>')
    environment = {**os.environ, "FONTCONFIG_FILE": str(empty)}
    done = subprocess.run(
        [sys.executable, "-c", ASKS], env=environment, capture_output=True, text=True, check=True
    )
    assert "no font is installed" in done.stdout
