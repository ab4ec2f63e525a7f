"""Dialogs that confirm an action."""

from django import template
from django.template import Context
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_block_tag(takes_context=True)
def confirm_dialog(
    context: Context,
    content: SafeString,
    name: str,
    title: str,
    *subjects: object,
    action: str,
    submit: str,
    key: object = "",
    is_danger: bool = False,
) -> SafeString:
    """Return a dialog with the content in a form that posts to the URL `action`.

    Each `{}` in the title is replaced by a subject. `submit` labels the button that sends the form.
    The dialog's id is the name, and the key of its row if a page has several.
    """
    values = {
        "content": content,
        "dialog_id": f"{name}-{key}" if key else name,
        "title": format_html(title, *subjects) if subjects else title,
        "action": action,
        "submit": submit,
        "is_danger": is_danger,
        "csrf_token": context.get("csrf_token"),
    }
    # Without the white space around it, which would separate the button before from what follows.
    return SafeString(render_to_string("dashboard/_confirm_dialog.html", values).strip())
