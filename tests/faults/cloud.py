"""gs:// while requests fail, and while the storage is away."""

import dataclasses
import functools
import random
import shutil
import time
from collections.abc import Callable

from tests.faults import bench as bench_lib
from tests.faults import commands, experiment
from tests.support import gcs_cloud, gcs_server, small_run
from tests.support import training_processes as processes

_RATE = 0.2
# "cut" is a truncated body, "stall" an answer that comes after the client's time limit.
_KINDS = (*gcs_server.FAULTS, "500", gcs_server.HALF, gcs_server.STALL)
_IMPATIENT = {"GCS_REQUEST_IDLE_TIMEOUT_SECS": "1"}
_SETTINGS = ("data.masking=dynamic", "data.dupe_factor=1", "model.num_layers=1")
_MAX_STARTS = 12
# An outage of ten minutes; and one that is scaled, with the limits of a run alike.
LONG_SECONDS = 600.0
AWAY_SECONDS = 20.0
_SCALED = ("train.save_retry_seconds=60",)
# The client's own pauses between attempts, which are set to zero elsewhere.
_PATIENT = {"GCS_RETRY_CONFIG_INIT_DELAY_TIME_US": "1000000"}
# Ten minutes, a restart that waits for the lease of the run before, and the run.
_LONG_TIMEOUT = 1500
_STALE = {"match": r"GET .*/o\?.*", "every": 4, "times": 10**6, "fault": "stale"}


def _flags(*more: str) -> list[str]:
    settings = (*small_run.OVERRIDES, *_SETTINGS, *more)
    return [f"--set={setting}" for setting in settings]


def _prepare(work) -> list[str]:
    return [
        *("-m", "data_prep.create_pretraining_data", *_flags()),
        "--input=gs://bucket/*.txt",
        f"--vocab_model=gs://bucket/{small_run.VOCAB.name}",
        *("--output_dir=gs://bucket/records", f"--work_dir={work}"),
    ]


def _pretrain(*more: str) -> list[str]:
    return [
        *("-m", "albert_tf.pretrain", *_flags(*more)),
        *("--data_dir=gs://bucket/records", "--model_dir=gs://bucket/run"),
    ]


class _Site:
    """A certificate, and the results without a fault."""

    def __init__(self, bench: bench_lib.Bench):
        self.folder = bench.new_path("cloud")
        self.folder.mkdir()
        self.certificate = gcs_server.make_certificate(self.folder)
        records = small_run.write_records(self.folder, *_SETTINGS)
        self.records_folder = records
        self.records = commands.of_files(records)
        output = bench.new_path("cloud-run")
        ended = bench.run(processes.command(records, output, _SETTINGS)[2:])
        if ended.code:
            raise RuntimeError(f"pre-training without a fault: {ended}")
        self.run = commands.of_training(output)

    def new_cloud(self, bench: bench_lib.Bench) -> gcs_cloud.Cloud:
        """Buckets that hold the texts and the vocabulary."""
        cloud = gcs_cloud.Cloud(bench.new_path("bucket"), self.certificate)
        shutil.copy(self.folder / "corpus.txt", cloud.bucket)
        shutil.copy(small_run.VOCAB, cloud.bucket)
        return cloud


def _site(bench: bench_lib.Bench) -> _Site:
    if not hasattr(bench, "site"):
        bench.site = _Site(bench)
    return bench.site


def _until_done(cloud, words, tally, codes, environment, **plan) -> bool:
    """Gives a command until it ends well; returns whether it did.

    Args:
      cloud: where gs:// leads to.
      words: the command.
      tally: counts the faults.
      codes: with which of them it may end before, in one line.
      environment: of the command.
      **plan: of the faults.
    """
    lines = tally.notes
    for attempt in range(_MAX_STARTS):
        started = time.monotonic()
        outcome = cloud.run(
            *words, environment=environment, timeout_seconds=_LONG_TIMEOUT, **plan
        )
        tally.num_runs += 1
        tally.num_faults += sum(outcome.faults.values())
        lines.append(
            f"{words[1]}: {sum(outcome.faults.values())} of "
            f"{sum(outcome.requests.values())} requests, code {outcome.code} after "
            f"{time.monotonic() - started:.0f} s"
        )
        if outcome.code == 0:
            return True
        last = outcome.output.rstrip().splitlines()[-1]
        if outcome.code not in codes or not last.startswith("error: "):
            tally.fail(f"{words[1]} ended with {outcome.code}: {outcome.output[-600:]}")
            return False
        plan = {**plan, "seed": plan.get("seed", 1) + attempt + 1}
        plan["rules"] = outcome.outages  # what other rules do is over
    tally.fail(f"{words[1]} did not end within {_MAX_STARTS} starts: {lines[-1]}")
    return False


@dataclasses.dataclass(frozen=True)
class _Way:
    """Data preparation and pre-training in the cloud, until so many faults were met.

    Attributes:
      plans: draws the plans of faults of both.
      more: settings of pre-training.
      codes: with which of them a command may end before it succeeds.
      environment: of both commands.
      stages: which of the two are run; records that are not prepared are copied.
    """

    plans: Callable[[random.Random], tuple[dict, dict]]
    more: tuple[str, ...] = ()
    codes: tuple[int, ...] = (75,)
    environment: dict[str, str] = dataclasses.field(
        default_factory=lambda: dict(_IMPATIENT)
    )
    stages: tuple[str, ...] = ("prepare", "pretrain")

    def __call__(self, bench, num_faults, rng) -> experiment.Tally:
        tally = experiment.Tally()
        if reason := gcs_cloud.why_not():
            tally.notes.append(f"skipped: {reason}")
            return tally
        while tally.num_faults < num_faults and not tally.failures:
            before = tally.num_faults
            if not self._is_same(bench, rng, tally):
                break
            tally.add(experiment.SAME, tally.num_faults - before)
        return tally

    def _is_same(self, bench, rng, tally) -> bool:
        """Goes the way once; a result that differs is counted as a failure."""
        site = _site(bench)
        cloud, work = site.new_cloud(bench), bench.new_path("work")
        of_preparation, of_training = self.plans(rng)
        if "prepare" in self.stages:
            if not self._is_done(cloud, _prepare(work), tally, of_preparation):
                return False
            found = commands.of_files(cloud.bucket / "records")
            if differing := bench_lib.differing(site.records, found):
                tally.fail(f"records of the cloud differ: {differing}")
                return False
        else:
            shutil.copytree(site.records_folder, cloud.bucket / "records")
        if "pretrain" in self.stages:
            if not self._is_done(cloud, _pretrain(*self.more), tally, of_training):
                return False
            found = commands.of_training(cloud.bucket / "run")
            if differing := bench_lib.differing(site.run, found):
                tally.fail(f"the run of the cloud differs: {differing[:5]}")
                return False
        return True

    def _is_done(self, cloud, words, tally, plan) -> bool:
        return _until_done(cloud, words, tally, self.codes, self.environment, **plan)


def _failing(rng: random.Random) -> tuple[dict, dict]:
    plan = {"rate": _RATE, "kinds": _KINDS, "rules": []}
    return {**plan, "seed": rng.randrange(10**6)}, {
        **plan,
        "seed": rng.randrange(10**6),
    }


def _away(rng: random.Random, seconds: float = AWAY_SECONDS) -> tuple[dict, dict]:
    """An outage that begins at a random request of each command."""

    def plan(places: tuple[str, ...]) -> dict:
        rule = {"match": rng.choice(places), "seconds": seconds, "fault": "503"}
        return {"rules": [rule]}

    return (
        plan(("corpus.txt", "spm_small", "POST .*records")),
        plan(("records/train", r"POST .*ckpt-6", r"POST .*ckpt-12", "metrics.jsonl")),
    )


def _stale(_: random.Random) -> tuple[dict, dict]:
    return {"rules": [dict(_STALE)]}, {"rules": [dict(_STALE)]}


EXPERIMENTS = (
    experiment.Experiment(
        "gs-failing",
        "data preparation and pre-training, all of it in gs://",
        f"{_RATE:.0%} of the requests fail: 429, 500, 503, reset before or after it "
        "was done, body cut off, half an upload kept, slow, no answer within the time "
        "limit",
        "the same bytes and weights, by the same command again after exit code 75",
        300,
        0,
        _Way(_failing),
    ),
    experiment.Experiment(
        "gs-stale",
        "data preparation and pre-training, all of it in gs://",
        "every fourth listing lacks the last change, which Cloud Storage excludes",
        "the same bytes and weights, by the same command again after a refusal",
        20,
        0,
        # A run whose own lease is not listed takes it for another's, and ends with 1.
        _Way(_stale, codes=(1, 75)),
    ),
    experiment.Experiment(
        "gs-away",
        "data preparation and pre-training, all of it in gs://",
        f"every request fails for {AWAY_SECONDS:.0f} s, from a random place on",
        "the run waits, or ends with code 75; the same command ends with the same "
        "bytes",
        100,
        0,
        _Way(_away, _SCALED),
    ),
    *(
        experiment.Experiment(
            f"gs-away-long-{stage}",
            f"{subject}, all of it in gs://",
            f"every request fails for {LONG_SECONDS / 60:.0f} minutes, from a random "
            "place on; pauses of the client and limits of a run are the defaults",
            "the run waits, or ends with code 75; the same command, given at once, "
            "ends with the same bytes",
            10,
            0,
            _Way(
                functools.partial(_away, seconds=LONG_SECONDS),
                environment=_PATIENT,
                stages=(stage,),
            ),
        )
        for stage, subject in (
            ("prepare", "data preparation"),
            ("pretrain", "pre-training"),
        )
    ),
)
