"""The directories of records that the stages of a run read, with their manifests.

Free of TensorFlow, so that a run's records are checked before it is imported.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence

from albert_tf.core import config as config_lib
from albert_tf.core import files
from albert_tf.core import stages as stages_lib
from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema


@dataclasses.dataclass(frozen=True)
class Source:
    """A directory of records.

    Attributes:
      name: as `train.records` names it; empty for --data_dir itself.
      data_dir: its path.
      manifest: of the records.
      weight: its share of a batch, relative to that of other sources.
    """

    name: str
    data_dir: str
    manifest: schema.Manifest
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class StageRecords:
    """A stage of a run, and the sources of its records, by name."""

    stage: stages_lib.Stage
    sources: tuple[Source, ...]

    @property
    def unigram_entropy(self) -> float | None:
        """The mean of the manifests' `heldout_unigram_entropy` over held-out records.

        It is None if nothing was held out.
        """
        total, num_records = 0.0, 0
        for source in self.held_out():
            entropy = source.manifest.heldout_unigram_entropy
            if entropy is None:
                return None
            count = source.manifest.splits[schema.HELDOUT].num_records
            total, num_records = total + entropy * count, num_records + count
        return total / num_records if num_records else None

    @property
    def manifest(self) -> schema.Manifest:
        """The manifest of the only source, or one with the sums of all.

        It has the records for training and the entropy of all of them; the rest is
        that of the first source.
        """
        first = self.sources[0].manifest
        if len(self.sources) == 1:
            return first
        train = [source.manifest.splits[schema.TRAIN] for source in self.sources]
        num_records = sum(split.num_records for split in train)
        joined = dataclasses.replace(train[0], num_records=num_records)
        return dataclasses.replace(
            first,
            splits={**first.splits, schema.TRAIN: joined},
            heldout_unigram_entropy=self.unigram_entropy,
        )

    def held_out(self) -> list[Source]:
        """Returns the sources that have held-out records."""
        return [s for s in self.sources if schema.HELDOUT in s.manifest.splits]


def of_directory(
    data_dir: str, manifest: schema.Manifest, config: config_lib.Config
) -> StageRecords:
    """Returns the records of a run that reads one directory, in one stage."""
    stage = stages_lib.Stage(1, 0, config.train.num_steps, config)
    return StageRecords(stage, (Source("", data_dir, manifest),))


def of_manifests(
    manifests: Mapping[str, schema.Manifest], config: config_lib.Config
) -> tuple[StageRecords, ...]:
    """Returns the records of a run by what its directory keeps of them.

    Args:
      manifests: by the names of the records, "" for those of --data_dir itself.
      config: of the run.

    Raises:
      ValueError: a manifest is missing.
    """
    found = []
    for stage in stages_lib.split(config):
        weights = _weights(stage)
        if missing := sorted(weights.keys() - manifests.keys()):
            raise ValueError(
                f"each of train.records must have a manifest; {missing[0]!r} has none"
            )
        sources = (
            Source(name, "", manifests[name], weights[name]) for name in sorted(weights)
        )
        found.append(StageRecords(stage, tuple(sources)))
    return tuple(found)


def read(data_dir: str, config: config_lib.Config) -> tuple[StageRecords, ...]:
    """Reads the manifests of all records of a run, and checks them.

    Args:
      data_dir: where the directories of `train.records` are, if their paths are
        relative; without any, the only directory.
      config: the recipe.

    Raises:
      ValueError: records are missing, or do not fit the recipe or each other; names
        directory, value and fix.
    """
    found = [
        StageRecords(stage, tuple(_read_stage(data_dir, stage, config)))
        for stage in stages_lib.split(config)
    ]
    _check_vocabularies(distinct(found))
    return tuple(found)


def _read_stage(
    data_dir: str, stage: stages_lib.Stage, config: config_lib.Config
) -> Iterator[Source]:
    """Reads and checks the sources of a stage, in the order of their names."""
    names = [f"data.{name}" for name in stages_lib.OF_DATA]
    keys, setting = {name: stage.key(name) for name in names}, "train.records"
    settings = config.train.stages
    if settings and settings[stage.number - 1].records:
        setting = f"{stage.prefix}.records"
    for name, weight in sorted(_weights(stage).items()):
        path = os.path.join(data_dir, name) if name else data_dir
        if path.startswith(data_dir) and not files.is_folder(data_dir):
            raise ValueError(f"--data_dir: there is no directory {data_dir}")
        manifest = manifest_lib.read_manifest(path, setting if name else "--data_dir")
        manifest_lib.check_manifest(path, manifest, stage.config, keys)
        yield Source(name, path, manifest, weight)


def _weights(stage: stages_lib.Stage) -> dict[str, float]:
    """Returns the weights of a stage's sources; without any, of --data_dir itself."""
    return stage.config.train.records or {"": 1.0}


def distinct(run: Sequence[StageRecords]) -> list[Source]:
    """Returns the sources of all stages, each directory once."""
    return list({s.data_dir: s for records in run for s in records.sources}.values())


def mask_notes(run: Sequence[StageRecords]) -> list[str]:
    """Returns `manifest.mask_notes` of all records."""
    notes = [
        note
        for records in run
        for source in records.sources
        for note in manifest_lib.mask_notes(
            source.data_dir, source.manifest, records.stage.config
        )
    ]
    return list(dict.fromkeys(notes))


def damaged_shards(run: Sequence[StageRecords]) -> list[str]:
    """Returns the paths of all shards that are not those of their manifests."""
    return [
        path
        for source in distinct(run)
        for path in manifest_lib.damaged_shards(source.data_dir, source.manifest)
    ]


def _check_vocabularies(sources: Sequence[Source]) -> None:
    first = sources[0]
    for source in sources[1:]:
        if source.manifest.vocab_sha256 != first.manifest.vocab_sha256:
            raise ValueError(
                "all records of a run must have the same vocabulary; that of "
                f"{source.data_dir} differs from that of {first.data_dir}. Make the "
                "records again with the same --vocab_model"
            )
