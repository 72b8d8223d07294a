"""The folder that a run's records end in, local or remote.

Files appear in it when all of them are whole, the manifest last.
"""

import glob
import os

from albert_tf import files, schema


class OutputFolder:
    """See the module."""

    def __init__(self, path: str, vocabulary: bytes, overwrite: bool):
        """Takes note of a folder; nothing is written yet.

        Args:
          path: the folder, made if need be.
          vocabulary: the bytes of the vocabulary, which is copied beside the records.
          overwrite: whether records that are there already give way to the new ones.
        """
        self.path = path
        self._vocabulary = vocabulary
        self._overwrite = overwrite

    def prepare(self) -> None:
        """Makes the folder and looks whether it may be filled.

        Raises:
          ValueError: it cannot be written, or holds records already.
        """
        try:
            files.make_folder(self.path)
        except OSError as error:
            raise ValueError(
                f"--output_dir must be a folder that can be written; {self.path} "
                f"cannot: {error.strerror}"
            ) from error
        existing = self._existing()
        if existing and not self._overwrite:
            raise ValueError(
                f"--output_dir must not hold records yet; {self.path} has "
                f"{os.path.basename(existing[0])}. Remove it, choose another folder, "
                "or pass --overwrite"
            )

    def publish(self, work_path: str, manifest: schema.Manifest) -> None:
        """Gives the files their final place, the manifest last.

        What is no longer in the work folder was moved before a run was killed, so that
        this can be called again.

        Args:
          work_path: the local folder in which the shards lie.
          manifest: names them.
        """
        names = [s.name for split in manifest.splits.values() for s in split.shards]
        names += [schema.VOCAB_FILE, schema.MANIFEST_FILE]
        text = manifest.to_json().encode()
        for name, data in zip(names[-2:], (self._vocabulary, text), strict=True):
            files.write_bytes(os.path.join(work_path, name), data)
        if self._overwrite:
            for path in self._existing():  # the manifest goes first
                in_work = os.path.join(work_path, os.path.basename(path))
                if os.path.basename(path) not in names or os.path.exists(in_work):
                    files.remove(path)
        for name in names:
            for path in files.glob(f"{glob.escape(self._join(name))}.tmp*"):
                files.remove(path)  # what a kill left of a copy
        for name in names[:-1]:
            self._move(work_path, name)
        self._check_sizes(manifest)
        self._move(work_path, names[-1])

    def _move(self, work_path: str, name: str) -> None:
        source = os.path.join(work_path, name)
        if os.path.exists(source):
            files.move(source, self._join(name))

    def _check_sizes(self, manifest: schema.Manifest) -> None:
        """Raises a ValueError unless all shards are here."""
        for split in manifest.splits.values():
            for shard in split.shards:
                path = self._join(shard.name)
                if not files.exists(path) or files.size(path) != shard.num_bytes:
                    raise ValueError(
                        f"{path} is not what was moved there; somebody changed the "
                        "folder meanwhile. Remove it, and give the same command with "
                        "--overwrite"
                    )

    def _existing(self) -> list[str]:
        """What lies in the folder under names that a run gives, the manifest first."""
        patterns = [schema.MANIFEST_FILE] + [
            f"{split}-?????-of-?????.tfrecord*" for split in schema.SPLITS
        ]
        paths = [
            path
            for pattern in patterns
            for path in files.glob(os.path.join(glob.escape(self.path), pattern))
        ]
        vocabulary = self._join(schema.VOCAB_FILE)
        # The same vocabulary may lie there: it may be the one that is used.
        if (
            files.exists(vocabulary)
            and files.read_bytes(vocabulary) != self._vocabulary
        ):
            paths.append(vocabulary)
        return paths

    def _join(self, name: str) -> str:
        return os.path.join(self.path, name)
