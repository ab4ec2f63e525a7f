"""A folder sent to a repository of the Hugging Face Hub, in one commit.

Large files go over the Hub's LFS endpoints, as file objects that count what is read of them:
huggingface_hub sends nothing by Xet then, whose progress nobody could ask for. The token is told to
huggingface_hub alone, and taken out of every message.
"""

import io
from collections.abc import Callable
from pathlib import Path

import httpx2
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

from workers.exporting.destination import Destination, NotPushed, Progress

REASONS = {
    401: "token: rejected by the Hub (401)",
    403: "token: has no write access to {repository} (403)",
    404: "repository: {repository} does not exist, or the token has no access (404)",
    409: "repository: the name {repository} is already used on the Hub (409)",
    413: "repository: a file is too large for the Hub (413)",
    429: "network: the Hub's rate limit is reached; try again later (429)",
}


class CountingFile(io.BufferedReader):
    """File that reports how many of its bytes were read."""

    def __init__(self, path: Path, tell: Callable[[int], None]) -> None:
        super().__init__(io.FileIO(path))
        self.tell_read = tell

    def read(self, size: int | None = -1, /) -> bytes:
        """Read from the file, and report the number of bytes."""
        data = super().read(size)
        self.tell_read(len(data))
        return data


def push_to_hub(folder: Path, to: Destination, message: str, progress: Progress) -> str:
    """Commit the folder's files to the repository, made where it is not there; returns its address.

    Raises NotPushed.
    """
    api = HfApi(endpoint=to.endpoint or None, token=to.token, library_name="rftweb")
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    opened = [CountingFile(path, progress.add) for path in files]
    try:
        _prepare(api, to)
        added = [
            CommitOperationAdd(path.name, file) for path, file in zip(files, opened, strict=True)
        ]
        return api.create_commit(to.repository, added, commit_message=message).commit_url
    except Exception as error:
        raise NotPushed(_reason(error, to)) from None
    finally:
        for file in opened:
            file.close()


def _prepare(api: HfApi, to: Destination) -> None:
    """Create the repository, if it does not exist. Refuse a public one for private content.

    Raises NotPushed, and what huggingface_hub raises.
    """
    try:
        model = api.model_info(to.repository)
    except RepositoryNotFoundError:
        api.create_repo(to.repository, private=to.is_private)
        return
    if to.is_private and not model.private:
        raise NotPushed(
            f"repository: {to.repository} is already public; confirm that the version may be public"
        )


def _reason(error: BaseException, to: Destination) -> str:
    """Describe the error, without the token."""
    if isinstance(error, NotPushed):
        return str(error)
    cause = error
    while cause.__cause__ is not None and not isinstance(cause, httpx2.HTTPError):
        cause = cause.__cause__
    if isinstance(cause, HfHubHTTPError) and cause.response is not None:
        reason = _explain_answer(cause, to)
    elif isinstance(cause, httpx2.HTTPError | OSError):
        place = to.endpoint or "huggingface.co"
        reason = f"network: the Hub at {place} cannot be reached: {type(cause).__name__}"
    else:
        reason = f"{type(cause).__name__}: {cause}"
    return reason.replace(to.token, "…") if to.token else reason


def _explain_answer(error: HfHubHTTPError, to: Destination) -> str:
    status = error.response.status_code
    reason = REASONS.get(status, "network: the Hub responded with status {status}")
    server_message = f": {error.server_message}" if error.server_message else ""
    return reason.format(repository=to.repository, status=status) + server_message[:300]
