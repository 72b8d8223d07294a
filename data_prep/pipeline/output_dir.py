"""The output directory of a run, local or remote.

Files appear in it when all of them are complete, the manifest last.
"""

import glob
import hashlib
import os

from albert_tf.core import files
from albert_tf.data import schema


def digest_of(manifest: schema.Manifest) -> str:
    """Returns the SHA-256 of a manifest's file."""
    return hashlib.sha256(manifest.to_json().encode()).hexdigest()


class OutputDir:
    """The directory of the finished records."""

    def __init__(self, path: str, vocabulary: bytes, overwrite: bool):
        """Writes nothing yet.

        Args:
          path: the directory, created if necessary.
          vocabulary: the bytes of the vocabulary, which is written next to the records.
          overwrite: whether existing records are replaced.
        """
        self.path = path
        self._vocabulary = vocabulary
        self._overwrite = overwrite

    def prepare(self) -> None:
        """Creates the directory and checks that it may be written to.

        Raises:
          ValueError: it cannot be written, or holds records already.
        """
        try:
            files.make_folder(self.path)
        except OSError as error:
            raise ValueError(
                f"--output_dir must be a writable directory; {self.path} is not: "
                f"{error.strerror}"
            ) from error
        existing = self._existing()
        if existing and not self._overwrite:
            raise ValueError(
                f"--output_dir must not hold records yet; {self.path} has "
                f"{os.path.basename(existing[0])}. Remove it, choose another "
                "directory, or pass --overwrite"
            )

    def manifest_digest(self) -> str:
        """Returns the SHA-256 of the manifest; empty if there is none."""
        path = self._join(schema.MANIFEST_FILE)
        return files.sha256(path) if files.exists(path) else ""

    def has_shard(self, shard: schema.Shard) -> bool:
        """Returns whether a shard was moved here.

        A remote file is compared by its size only, since it is slow to read.
        """
        path = self._join(shard.name)
        if not files.exists(path) or files.size(path) != shard.num_bytes:
            return False
        return files.is_remote(path) or files.sha256(path) == shard.sha256

    def publish(self, work_path: str, manifest: schema.Manifest) -> None:
        """Moves the files to their final place, the manifest last.

        After a kill this can be called again: files that are no longer in the work
        directory were moved before.

        Args:
          work_path: the local directory that holds the shards.
          manifest: names the shards.
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
        for name in files.names(self.path):
            own, is_part, _ = name.partition(".tmp")
            if is_part and own in names:
                files.remove(self._join(name))  # of a copy that was killed
        for name in names[:-1]:
            self._move(work_path, name)
        self._check_sizes(manifest)
        self._move(work_path, names[-1])

    def _move(self, work_path: str, name: str) -> None:
        source = os.path.join(work_path, name)
        if os.path.exists(source):
            files.move(source, self._join(name))

    def _check_sizes(self, manifest: schema.Manifest) -> None:
        """Raises a ValueError unless all shards are in the directory."""
        for split in manifest.splits.values():
            for shard in split.shards:
                path = self._join(shard.name)
                if not files.exists(path) or files.size(path) != shard.num_bytes:
                    raise ValueError(
                        f"{path} is not the file that was moved there: the directory "
                        "was changed during the run. Remove it, and give the same "
                        "command with --overwrite"
                    )

    def _existing(self) -> list[str]:
        """Files in the directory with names of a run's files, the manifest first."""
        patterns = [schema.MANIFEST_FILE] + [
            f"{split}-?????-of-?????.tfrecord*" for split in schema.SPLITS
        ]
        paths = [
            path
            for pattern in patterns
            for path in files.glob(os.path.join(glob.escape(self.path), pattern))
        ]
        vocabulary = self._join(schema.VOCAB_FILE)
        # An equal vocabulary may stay: it may be the one in use.
        if (
            files.exists(vocabulary)
            and files.read_bytes(vocabulary) != self._vocabulary
        ):
            paths.append(vocabulary)
        return paths

    def _join(self, name: str) -> str:
        return os.path.join(self.path, name)
