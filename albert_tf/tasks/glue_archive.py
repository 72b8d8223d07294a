"""The archive of all tasks' predictions that GLUE's site accepts."""

import io
import os
import zipfile
from collections.abc import Sequence

from albert_tf.core import files
from albert_tf.tasks import glue, text_files

_HEADER = b"index\tprediction\n"
# The earliest time of a .zip: the archive depends on the predictions only.
_TIME = (1980, 1, 1, 0, 0, 0)


def pack(folders: Sequence[str], path: str) -> list[str]:
    """Packs the predictions of all tasks; equal predictions give equal bytes.

    Args:
      folders: written by `GlueTask.write_predictions`, local or gs://.
      path: of the archive, .zip.

    Returns:
      The paths of the packed files.

    Raises:
      ValueError: a file is missing, is in several directories, or is not a table of
        predictions.
    """
    found = {
        name: [
            candidate
            for candidate in (text_files.join(folder, name) for folder in folders)
            if files.exists(candidate)
        ]
        for name in glue.SUBMISSION_FILES
    }
    missing = [name for name, paths in found.items() if not paths]
    if missing:
        raise ValueError(
            f"a submission must contain all {len(found)} files; {', '.join(missing)} "
            f"not found in {', '.join(folders)}. Write the predictions of these test "
            "splits first"
        )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, paths in found.items():
            if len(paths) > 1:
                raise ValueError(
                    f"{name} must be in one directory only; received "
                    f"{', '.join(paths)}. Omit one of the runs"
                )
            table = files.read_bytes(paths[0])
            if not table.startswith(_HEADER):
                raise ValueError(
                    f"{paths[0]}:1: the columns must be index and prediction; received "
                    f"{table[:80]!r}. Write the predictions again"
                )
            entry = zipfile.ZipInfo(os.path.basename(name), _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # otherwise it depends on the machine
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, table)
    files.write_bytes(path, content.getvalue())
    return [paths[0] for paths in found.values()]
