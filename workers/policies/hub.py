"""Download of a model's files from the Hugging Face Hub, with its progress in bytes."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import httpx2
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import ModelInfo

from apps.policies.folder import KNOWN_FILES, MANIFEST
from workers.policies.progress import Advance, stage

FILES = [*sorted(KNOWN_FILES - {MANIFEST}), "*.safetensors"]
NOTES = ".cache"  # the downloader's folder, which also holds unfinished files
LOOK_S = 0.5


class NotDownloaded(Exception):
    """Raised when the Hub does not give the model; the message says why."""


def download_model(name: str, revision: str, folder: Path) -> str:
    """Write the model's weights, configuration and tokenizer to `folder`; return the commit.

    Raises NotDownloaded, OSError.
    """
    with _one_sentence(name, revision):
        info = HfApi().model_info(name, revision=revision, files_metadata=True)
        size = _size(info)
        _require_room(folder.parent, size)
        with stage(f"{name}: downloading", size) as advance, _watched(folder, advance):
            snapshot_download(
                name,
                revision=info.sha,
                local_dir=folder,
                allow_patterns=FILES,
                ignore_patterns=["*/*"],
            )
    shutil.rmtree(folder / NOTES, ignore_errors=True)
    assert info.sha is not None  # the Hub names the commit of every model
    return info.sha


def _size(info: ModelInfo) -> int:
    """Return the bytes of the files that are downloaded. Raises NotDownloaded without weights."""
    files = [file for file in info.siblings or () if _is_wanted(file.rfilename)]
    if not any(file.rfilename.endswith(".safetensors") for file in files):
        raise NotDownloaded("the repository has no safetensors files, and no others are loaded")
    return sum(file.size or 0 for file in files)


def _is_wanted(path: str) -> bool:
    return "/" not in path and any(fnmatchcase(path, pattern) for pattern in FILES)


def _require_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size:
        raise NotDownloaded(
            f"it has {size / 1e9:.1f} GB, and the disk of the weights has {free / 1e9:.1f} GB left"
        )


@contextmanager
def _watched(folder: Path, advance: Advance) -> Iterator[None]:
    """Report the bytes that arrive in the folder: the downloader itself reports to terminals."""
    ended = threading.Event()

    def watch() -> None:
        reported = 0
        while not ended.wait(LOOK_S):
            size = _bytes_in(folder)
            advance(size - reported)
            reported = size

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # renamed since it was listed
            continue
    return total


@contextmanager
def _one_sentence(name: str, revision: str) -> Iterator[None]:
    """Turn what the library raises into one sentence. Raises NotDownloaded."""
    try:
        yield
    except RevisionNotFoundError:
        raise NotDownloaded(f"the repository has no revision {revision!r}") from None
    except GatedRepoError:
        raise NotDownloaded(
            "its owner asks you to accept terms on its Hub page, and the worker needs HF_TOKEN"
        ) from None
    except RepositoryNotFoundError:
        raise NotDownloaded(f"the Hub has no model {name!r}, or it is private") from None
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "an error"
        raise NotDownloaded(f"the Hub answered {status}") from None
    except OfflineModeIsEnabled:
        raise NotDownloaded("HF_HUB_OFFLINE is set, so nothing is downloaded") from None
    except (httpx2.HTTPError, ConnectionError, TimeoutError) as error:
        raise NotDownloaded(f"the Hub cannot be reached: {type(error).__name__}") from None
