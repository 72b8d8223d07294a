"""Presets of KerasHub, fetched from Kaggle by its own client."""

import contextlib
import os
from collections.abc import Iterator

import kagglehub
from kagglehub import cache, clients, config, exceptions
from kagglehub import handle as handles
from kagglesdk.models.types import model_api_service

from albert_tf.core import failures
from albert_tf.interchange import download_plan

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"
# The configuration last: if it is in the cache, so is the rest.
_FILES = (
    *("task.json", "task.weights.h5", "assets/tokenizer/vocabulary.spm", _WEIGHTS),
    _CONFIG,
)
_NUM_LISTED = 100  # more files than presets have
_SCHEME = "kaggle://"


def fetch(name: str, revision: str, say: download_plan.Say) -> str:
    """Fetches configuration, vocabulary and weights of a preset.

    Args:
      name: of the preset, such as albert_base_en_uncased.
      revision: number of a version on Kaggle; empty for the one that KerasHub names.
      say: gets what is fetched, and of which version.

    Returns:
      The directory in the client's cache.

    Raises:
      ValueError: there is no such preset or version, or Kaggle cannot be reached and
        the cache has not all of it.
    """
    handle = _handle(name, revision)
    whence = f"{handle.to_url()}, version {handle.version}"
    found = cache.Cache().load_from_cache(handle, _CONFIG)
    if found is None:
        with _named_errors(name, handle):
            sizes = _sizes(handle)
            download_plan.announce(sizes, whence, say)
            for file in sizes:
                found = kagglehub.model_download(str(handle), file)
    else:
        download_plan.announce({}, whence, say)
    folder = os.path.dirname(str(found))
    say(f"in {folder}")
    return folder


def _handle(name: str, revision: str) -> handles.ModelHandle:
    """Returns what Kaggle calls a preset.

    Raises:
      ValueError: KerasHub has no such preset, or the revision is not a number.
    """
    import keras_hub  # takes seconds, and only a preset needs it

    presets = keras_hub.models.AlbertBackbone.presets
    if name not in presets:
        raise ValueError(
            "the presets of ALBERT that KerasHub has are "
            f"{', '.join(sorted(presets))}; received {name!r}"
        )
    handle = handles.parse_model_handle(
        presets[name]["kaggle_handle"].removeprefix(_SCHEME)
    )
    if not revision:
        return handle
    if not revision.isdecimal():
        raise ValueError(
            "--revision of a preset must be the number of its version on Kaggle; "
            f"received {revision!r}"
        )
    return handle.with_version(int(revision))


def _sizes(handle: handles.ModelHandle) -> dict[str, int]:
    """Returns the bytes of the files to fetch, in their order.

    Raises:
      ValueError: the configuration or the weights are missing.
    """
    request = model_api_service.ApiListModelInstanceVersionFilesRequest()
    request.owner_slug, request.model_slug = handle.owner, handle.model
    request.framework = handle.framework_enum()
    request.instance_slug, request.version_number = handle.variation, handle.version
    request.page_size = _NUM_LISTED
    with clients.build_kaggle_client() as client:
        api = client.models.model_api_client
        answer = exceptions.handle_call(
            lambda: api.list_model_instance_version_files(request), handle
        )
    there = {file.name: file.size for file in answer.files}
    for file in (_CONFIG, _WEIGHTS):
        if file not in there:
            raise ValueError(
                f"{handle.to_url()} must hold {file}, as presets do; it does not. Give "
                "another --revision"
            )
    return {file: there[file] for file in _FILES if file in there}


@contextlib.contextmanager
def _named_errors(name: str, handle: handles.ModelHandle) -> Iterator[None]:
    """Raises the client's errors as a ValueError of one line."""
    try:
        yield
    except exceptions.KaggleApiHTTPError as error:
        raise ValueError(
            f"Kaggle does not give {handle.to_url()}: {failures.one_line(error)}"
        ) from error
    except exceptions.DataCorruptionError as error:
        raise ValueError(
            f"a file of {handle.to_url()} arrived damaged; give the command again"
        ) from error
    except OSError as error:
        if error.errno is not None:  # the disk's; those of the network have none
            raise
        raise ValueError(
            f"Kaggle cannot be reached, and {name} is not in the cache "
            f"{config.get_cache_folder()}. Check the network; or copy "
            f"{handle.to_url()} from where there is one, and pass --from=keras:DIR "
            "without --download"
        ) from error
