"""Why something cannot be done in an episode, in words for whoever plays it."""


class CannotPlay(Exception):
    """`code`: closed | not_your_move | changed | bad_observation | bad_reward | used_key; the message says what is right."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)
