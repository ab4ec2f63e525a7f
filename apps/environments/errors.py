"""The error for moves that an episode does not allow, with a message for its player."""


class CannotPlay(Exception):
    """Raised for a move that is not possible; the message says what is right.

    `code` is closed, not_your_move, changed, bad_observation, bad_reward or used_key.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)
