"""Models of the Hugging Face Hub, fetched by its own client, without pickles."""

import contextlib
import fnmatch
import os
from collections.abc import Iterator, Mapping

import httpx2
import huggingface_hub
from huggingface_hub import constants, errors

from albert_tf.core import failures
from albert_tf.interchange import download_plan, hugging_face_files

# This project sends no figures of its use, and its clients are to send none.
constants.HF_HUB_DISABLE_TELEMETRY = True
_DESCRIPTIONS = (
    hugging_face_files.CONFIG,
    hugging_face_files.VOCAB,
    hugging_face_files.TOKENIZER,
)
_UNREACHABLE = (
    errors.IncompleteSnapshotError,
    errors.LocalEntryNotFoundError,
    errors.OfflineModeIsEnabled,
    errors.RevisionResolutionError,
    httpx2.TransportError,
)


def fetch(name: str, revision: str, say: download_plan.Say) -> str:
    """Fetches configuration, vocabulary and safetensors of a model.

    Args:
      name: OWNER/MODEL.
      revision: a branch, tag or commit; empty for the default branch.
      say: gets what is fetched, and of which commit.

    Returns:
      The directory in the client's cache.

    Raises:
      ValueError: there is no such model or revision, it has no safetensors, or the Hub
        cannot be reached and the cache has not all of it.
    """
    with _named_errors(name, revision):
        resolved = huggingface_hub.HfApi().resolve_revision(
            name, revision=revision or None
        )
        commit = resolved.resolved
        sizes = _sizes(name, commit)
        whence = f"{constants.ENDPOINT}/{name} at commit {commit}"
        wanted = _wanted(sizes, whence)
        cached = [_cached(name, file, commit) for file in wanted]
        missing = [file for file, path in zip(wanted, cached, strict=True) if not path]
        download_plan.announce({file: sizes[file] for file in missing}, whence, say)
        folder = os.path.dirname(cached[0])
        if missing:
            folder = huggingface_hub.snapshot_download(
                name, revision=resolved, allow_patterns=wanted
            )
    say(f"in {folder}")
    return folder


def _sizes(name: str, commit: str) -> dict[str, int]:
    """Returns the bytes of each file of a commit, which the cache may know."""
    try:
        tree = huggingface_hub.get_cached_repo_tree(name, revision=commit)
        return {file.path: file.size for file in tree}
    except errors.CachedRepoTreeNotFoundError:
        info = huggingface_hub.HfApi().model_info(
            name, revision=commit, files_metadata=True
        )
        return {file.rfilename: file.size or 0 for file in info.siblings or []}


def _wanted(sizes: Mapping[str, int], whence: str) -> list[str]:
    """Returns the names of the files to fetch.

    Raises:
      ValueError: the configuration or the weights are missing.
    """
    if hugging_face_files.CONFIG not in sizes:
        raise ValueError(
            f"{whence} must hold {hugging_face_files.CONFIG}, as models of "
            "transformers do; it does not. Give another model"
        )
    if hugging_face_files.INDEX in sizes:
        parts = fnmatch.filter(sizes, hugging_face_files.PART)
        weights = [hugging_face_files.INDEX, *sorted(parts)]
    elif hugging_face_files.WEIGHTS in sizes:
        weights = [hugging_face_files.WEIGHTS]
    else:
        raise ValueError(
            f"{whence} must hold {hugging_face_files.WEIGHTS}, and nothing was "
            f"fetched. {hugging_face_files.remedy(sizes)}"
        )
    return [*(file for file in _DESCRIPTIONS if file in sizes), *weights]


def _cached(name: str, file: str, commit: str) -> str:
    """Returns the path of a file in the cache; empty if it is not there."""
    found = huggingface_hub.try_to_load_from_cache(name, file, revision=commit)
    return found if isinstance(found, str) else ""


@contextlib.contextmanager
def _named_errors(name: str, revision: str) -> Iterator[None]:
    """Raises the client's errors as a ValueError of one line."""
    hub = constants.ENDPOINT
    try:
        yield
    except errors.HFValidationError as error:
        raise ValueError(
            "with --download, --from=hf: must give OWNER/MODEL, such as "
            f"albert/albert-base-v2; received {name!r}"
        ) from error
    except errors.GatedRepoError as error:
        raise ValueError(
            f"{name} is for those who accept its terms: do so at {hub}/{name}, and log "
            "in by `hf auth login`"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ValueError(
            f"there is no model {name} at {hub}, or it is private. Names are "
            "OWNER/MODEL, such as albert/albert-base-v2; for a private one log in by "
            "`hf auth login`"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ValueError(
            f"--revision must be a branch, tag or commit of {name}; received "
            f"{revision!r}. They are at {hub}/{name}/commits"
        ) from error
    except _UNREACHABLE as error:
        raise ValueError(
            f"{hub} cannot be reached, and not all of {name} is in the cache "
            f"{constants.HF_HUB_CACHE}. Check the network; or fetch it where there is "
            f"one, by `hf download {name} --local-dir=DIR`, and pass --from=hf:DIR "
            "without --download"
        ) from error
    except errors.HfHubHTTPError as error:
        raise ValueError(
            f"{hub} does not give {name}: {failures.one_line(error)}"
        ) from error
