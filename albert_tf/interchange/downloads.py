"""Fetches models by their names, and says what is fetched and whence before it is.

The files stay in the cache of the client that fetched them; a model that is there is
not fetched again, and needs no network.
"""

from albert_tf.interchange import (
    archive_download,
    download_plan,
    formats,
    hub_download,
    kaggle_download,
)

_FETCH = {
    "hf": hub_download.fetch,
    "keras": kaggle_download.fetch,
    "tf1": archive_download.fetch,
}


def fetch(
    found: formats.Location, revision: str, say: download_plan.Say
) -> formats.Location:
    """Fetches a model, unless it was fetched before.

    Args:
      found: a format of `formats.DOWNLOADED`, and the name of a model.
      revision: of the model: a branch, tag or commit on the Hugging Face Hub, the
        number of a version of a preset, the SHA-256 of an archive; empty for the usual
        one.
      say: gets lines that say what is fetched, whence, and where to.

    Returns:
      The directory of the model.

    Raises:
      ValueError: there is no such model or revision, it has no weights that are read
        here, or it cannot be reached.
    """
    return found._replace(path=_FETCH[found.format](found.path, revision, say))
