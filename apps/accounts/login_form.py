"""The form of the login page."""

from allauth.account.forms import LoginForm as AllauthLoginForm


class LoginForm(AllauthLoginForm):
    """User name and password.

    The link to the page of a forgotten password stands below the form, not between the two fields,
    where Tab would stop at it.
    """

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self.fields["password"].help_text = ""
