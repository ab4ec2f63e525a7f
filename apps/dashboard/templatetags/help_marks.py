"""Explanations of terms beside the words, from docs/glossary.md."""

from django import template
from django.template.context import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.dashboard.help.glossary import terms
from apps.dashboard.help.rendering import GLOSSARY, term_anchor

register = template.Library()


@register.simple_tag(takes_context=True)
def term(context: Context, name: str) -> SafeString | str:
    """Return a mark that explains a term on hover and focus and links to the glossary.

    A page has one mark per term: a second one is left out. Raises KeyError if the glossary lacks
    the term.
    """
    meaning = terms()[name]
    request = context["request"]
    explained = request.__dict__.setdefault("terms_explained", set())
    if name in explained:
        return ""
    explained.add(name)
    anchor = term_anchor(name)
    return format_html(
        '<span class="term"><a href="{}#{}" aria-label="What is {}?" aria-describedby="tip-{}">'
        '?</a><span role="tooltip" id="tip-{}"><b>{}</b> {}</span></span>',
        reverse("help-page", args=[GLOSSARY]),
        anchor,
        name,
        anchor,
        anchor,
        name,
        meaning,
    )
