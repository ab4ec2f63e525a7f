"""Refuse passwords that password crackers try early."""

from django.core.exceptions import ValidationError
from zxcvbn import zxcvbn

MIN_SCORE = 3  # of 0 to 4: "safely unguessable", more than 10^8 guesses (Wheeler, USENIX 2016)
MAX_CHECKED_LENGTH = 72  # characters that are rated; a longer password is not weaker


class HardToGuess:
    """A password validator (AUTH_PASSWORD_VALIDATORS) that estimates the number of guesses."""

    def validate(self, password: str, user: object = None) -> None:
        """Raise ValidationError when the password is easy to guess, with what makes it so."""
        names = ("username", "first_name", "last_name", "email")
        personal = [str(getattr(user, name)) for name in names if getattr(user, name, "")]
        rated = zxcvbn(password[:MAX_CHECKED_LENGTH], user_inputs=personal)
        if rated["score"] >= MIN_SCORE:
            return
        advice = [rated["feedback"]["warning"], *rated["feedback"]["suggestions"]]
        message = " ".join(sentence for sentence in advice if sentence)
        raise ValidationError(f"This password is easy to guess. {message}".strip(), code="too_easy")

    def get_help_text(self) -> str:
        return "Your password must be hard to guess. Four or more unrelated words work well."
