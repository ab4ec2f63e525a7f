"""The form of the login page."""

from allauth.account.forms import LoginForm as AllauthLoginForm


class LoginForm(AllauthLoginForm):
    """User name and password.

    The link for a forgotten password is below the form instead of between the two fields, where the
    Tab key would stop at it.
    """

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self.fields["password"].help_text = ""
        if "remember" in self.fields:  # a setting of allauth can leave it out
            self.fields["remember"].label = "Remember me"
