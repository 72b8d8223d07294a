"""Plans: gcloud commands as values. Nothing is called here."""

import dataclasses
import enum
import shlex
from collections.abc import Sequence

from albert_tf.cluster import host_scripts

# Enough for gs://; the roles of the machine's service account decide the rest.
SCOPES = "--scopes=https://www.googleapis.com/auth/cloud-platform"
# Ends a connection to a lost host within two minutes.
KEEP_ALIVE = (
    "--ssh-flag=-oServerAliveInterval=30",
    "--ssh-flag=-oServerAliveCountMax=4",
)


class Condition(enum.Enum):
    """State of the machines of a run."""

    ABSENT = "absent"  # none of that name exists
    WAITING = "waiting"  # it will become ready by itself
    READY = "ready"
    UNUSABLE = "unusable"  # still listed, but lost


@dataclasses.dataclass(frozen=True)
class Command:
    """One command line.

    Attributes:
      purpose: its purpose in a few words.
      argv: the program and its arguments.
    """

    purpose: str
    argv: tuple[str, ...]

    def shell(self) -> str:
        """The command for a shell, with one flag a line."""
        lines: list[list[str]] = [[]]
        for argument in self.argv:
            if argument.startswith("--"):
                lines.append([])
            lines[-1].append(_quoted(argument))
        return " \\\n    ".join(" ".join(line) for line in lines)


def _quoted(argument: str) -> str:
    # Quotes around the value alone read better than around the flag too.
    name, separator, value = argument.partition("=")
    if argument.startswith("--") and separator:
        return f"{name}={shlex.quote(value)}"
    return shlex.quote(argument)


def check_remote(flag: str, value: str) -> None:
    """Raises a ValueError unless a directory is on gs://, where all machines see it.

    Nor may its bucket be a placeholder of the documentation, such as BUCKET.
    """
    if not value.startswith("gs://"):
        raise ValueError(
            f"--{flag} must begin with gs://, because the machines share no disk and "
            f"are deleted at the end; received {value!r}"
        )
    check_replaced(flag, value.removeprefix("gs://").partition("/")[0])


def check_replaced(flag: str, name: str) -> None:
    """Raises a ValueError if a name is a placeholder in capital letters.

    Google Cloud's names of buckets, projects and zones have none.
    """
    if name != name.lower():
        raise ValueError(
            f"--{flag} has {name!r}, and such names of Google Cloud have no capital "
            "letters: replace it with yours"
        )


@dataclasses.dataclass(frozen=True)
class Training:
    """The training to run on the machines.

    Attributes:
      config: recipe in the archive, or "" for the defaults.
      overrides: `key.sub=value` strings.
      data_dir: records, on gs://.
      model_dir: checkpoints and metrics, on gs://.
      archive: local path of the code.
    """

    config: str
    overrides: tuple[str, ...]
    data_dir: str
    model_dir: str
    archive: str

    @property
    def archive_name(self) -> str:
        """Name of the archive in the home directory of each host."""
        return self.archive.rpartition("/")[2]

    def arguments(self, *more: str) -> list[str]:
        """The flags of albert_tf.pretrain, and more."""
        config = [f"--config={self.config}"] if self.config else []
        return [
            *config,
            *(f"--set={override}" for override in self.overrides),
            *self._directories(),
            *more,
        ]

    def checks(self, *more: str) -> list[str]:
        """The flags of albert_tf.doctor, and more."""
        return [*self._directories(), *more]

    def _directories(self) -> tuple[str, str]:
        return f"--data_dir={self.data_dir}", f"--model_dir={self.model_dir}"


@dataclasses.dataclass(frozen=True)
class Machines:
    """Calls that create, poll and delete the machines of a run.

    Attributes:
      description: the machines in words.
      create, state, delete: the calls; `state` prints one word for each machine.
      ready_states, waiting_states: such words; any other means that it is lost.
      num_words: number of words if no machine is missing.
      queued: the create call only requests them, and the wait may take days.
    """

    description: str
    create: Command
    state: Command
    delete: Command
    ready_states: frozenset[str]
    waiting_states: frozenset[str]
    num_words: int = 1
    queued: bool = False

    def condition(self, words: Sequence[str]) -> Condition:
        """The condition, from the words that `state` printed."""
        if not words:
            return Condition.ABSENT
        known = set(words) <= self.ready_states | self.waiting_states
        if not known or len(words) < self.num_words:
            return Condition.UNUSABLE
        ready = set(words) <= self.ready_states
        return Condition.READY if ready else Condition.WAITING


@dataclasses.dataclass(frozen=True)
class Plan:
    """All calls of one run.

    Calls in one tuple may be made at the same time.

    Attributes:
      machines: what it runs on.
      copy, install, start, stop, status: on every host.
      log_ssh: the call, without its script, that reaches the host whose log is shown.
      first_host_decides: the run is over when one host has exit code 0; otherwise,
        when all have.
    """

    machines: Machines
    copy: tuple[Command, ...]
    install: tuple[Command, ...]
    start: tuple[Command, ...]
    stop: tuple[Command, ...]
    status: tuple[Command, ...]
    log_ssh: tuple[str, ...]
    first_host_decides: bool

    def follow(self, first_byte: int, seconds: int) -> Command:
        """The call that shows the log from a byte offset, for some seconds."""
        script = host_scripts.follow(first_byte, seconds)
        return Command(
            "show what the first host prints", (*self.log_ssh, f"--command={script}")
        )


def place(zone: str, project: str) -> tuple[str, ...]:
    """The flags of nearly every call; `project` "" is gcloud's default."""
    return (f"--zone={zone}", *in_project(project))


def in_project(project: str) -> tuple[str, ...]:
    """The flags of a call that takes no --zone."""
    # --quiet: no prompts.
    return (*((f"--project={project}",) if project else ()), "--quiet")
