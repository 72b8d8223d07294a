"""Runs a plan: creates, follows, restarts after a loss, and deletes in any case."""

import contextlib
import dataclasses
import enum
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf.cluster import host_scripts, plans

# The training's exit codes: os.EX_TEMPFAIL means that the same command resumes, and
# 143 that the host was shut down before it could save.
_DONE = "0"
_RESUMABLE = frozenset([str(os.EX_TEMPFAIL), "143", host_scripts.LOST])
_USER_ERROR = "1"

_CALL_SECONDS = 45 * 60
_ANSWER_SECONDS = 5 * 60
_HANGING_SECONDS = 3 * 60
_CREATE_HOURS = 1
_UNREACHABLE_SECONDS = 30 * 60
_FIRST_CONTACT_SECONDS = 10 * 60
_DELETE_ATTEMPTS = 3
_STATE_ATTEMPTS = 20
_LONGEST_PAUSE_SECONDS = 10 * 60
_END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class CloudError(OSError):
    """A call failed, or a machine did not do what it should."""


class Verdict(enum.Enum):
    """State of a run, from what all hosts report."""

    RUNNING = "running"
    DONE = "done"
    RESUMABLE = "resumable"  # it ended early, and the same command resumes it


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of a run.

    Attributes:
      max_restarts: most restarts of a run.
      keep: do not delete the machines at the end.
      queue_hours: longest wait for capacity.
      poll_seconds: time between two polls of a machine or of all hosts.
    """

    max_restarts: int
    keep: bool
    queue_hours: float
    poll_seconds: float


def execute(plan: plans.Plan, options: Options) -> None:
    """Creates the machines, runs the training to its end, and deletes the machines.

    Unless `keep` is set, they are also deleted when anything fails and when this
    process is interrupted (Ctrl-C, SIGTERM, a closed terminal).

    Raises:
      CloudError: a machine could not be created, the training failed, or it was lost
        more often than `max_restarts`.
    """
    if _condition(plan.machines) is not plans.Condition.ABSENT:
        raise CloudError(
            "a machine of that name exists already and is not touched. Give another "
            "--name, or delete it with --delete_only --execute"
        )
    # A closed terminal and SIGTERM end this process as Ctrl-C does: it cleans up.
    with _signals(_interrupt, *_END_SIGNALS):
        try:
            _create(plan.machines, options)
            _prepare_hosts(plan, options)
            _run_to_the_end(plan, options)
        finally:
            if options.keep:
                _say(
                    "not deleted, because of --keep. It costs money until you run\n"
                    + plan.machines.delete.shell()
                )
            else:
                delete(plan.machines, options.poll_seconds)


def delete(machines: plans.Machines, poll_seconds: float) -> None:
    """Deletes the machines; Ctrl-C does not interrupt it.

    Raises:
      CloudError: they still exist.
    """
    # gcloud inherits the ignored signals.
    with _signals(signal.SIG_IGN, signal.SIGINT, *_END_SIGNALS):
        for attempt in range(_DELETE_ATTEMPTS):
            if attempt:
                time.sleep(poll_seconds)
            if _succeed([machines.delete]):
                _say("deleted; it costs nothing more")
                return
            with contextlib.suppress(CloudError):
                if _condition(machines) is plans.Condition.ABSENT:
                    _say("there is no such machine")
                    return
    raise CloudError(
        f"NOT DELETED, and costing money: the call failed {_DELETE_ATTEMPTS} times "
        f"(see above). Delete by hand: {shlex.join(machines.delete.argv)}"
    )


# ---- Up ----


def _create(machines: plans.Machines, options: Options) -> None:
    """Creates the machines and waits until they are ready."""
    if not _succeed([machines.create]):
        raise CloudError(
            f"could not {machines.create.purpose}; gcloud's message is above. If "
            "capacity is missing, try another --zone or --queued; quota is raised in "
            "Google Cloud's console"
        )
    hours = options.queue_hours if machines.queued else _CREATE_HOURS
    _wait_until_ready(machines, hours, options.poll_seconds)


def _wait_until_ready(
    machines: plans.Machines, hours: float, poll_seconds: float
) -> None:
    started = time.monotonic()
    while True:
        words = _state(machines, poll_seconds)
        condition = machines.condition(words)
        if condition is plans.Condition.READY:
            return
        said = " ".join(words) or "absent"
        if condition is not plans.Condition.WAITING:
            raise CloudError(f"the machine will not become ready: it is {said}")
        waited = time.monotonic() - started
        if waited > hours * 3600:
            raise CloudError(f"after {hours:g} hours the machine is still {said}")
        _say(f"waiting for it: {said}, {waited / 60:.0f} of {hours * 60:g} minutes")
        time.sleep(poll_seconds)


def _prepare_hosts(plan: plans.Plan, options: Options) -> None:
    # ssh answers only some time after the machine is called ready.
    started = time.monotonic()
    while not _succeed(plan.copy):
        if time.monotonic() - started > _FIRST_CONTACT_SECONDS:
            raise CloudError("the hosts could not be reached; ssh's message is above")
        time.sleep(options.poll_seconds)
    for calls in (plan.install, plan.start):
        # Both may be repeated if the connection dropped.
        if not _succeed(calls) and not _succeed(calls):
            raise CloudError(f"could not {calls[0].purpose}; its message is above")


# ---- Run ----


def _run_to_the_end(plan: plans.Plan, options: Options) -> None:
    restarts = 0
    log = _Log(plan, options.poll_seconds)
    while _needs_restart(plan, log, options):
        if restarts == options.max_restarts:
            raise CloudError(
                f"the run was lost once more after {restarts} restarts; the same "
                "command resumes from its last checkpoint"
            )
        restarts += 1
        _say(f"restart {restarts} of at most {options.max_restarts}")
        condition = _condition(plan.machines, options.poll_seconds)
        if condition is plans.Condition.WAITING:
            _wait_until_ready(plan.machines, _CREATE_HOURS, options.poll_seconds)
            condition = plans.Condition.READY
        if condition is plans.Condition.READY:
            # The storage may be away: then it ends at once, again and again.
            time.sleep(min(restarts * options.poll_seconds, _LONGEST_PAUSE_SECONDS))
            _succeed(plan.stop)
            if not _succeed(plan.start):
                raise CloudError("could not start it again; its message is above")
        else:
            _recreate(plan.machines, options)
            _prepare_hosts(plan, options)
            log = _Log(plan, options.poll_seconds)
    _say("the training has reached its last step")


def _recreate(machines: plans.Machines, options: Options) -> None:
    """Replaces preempted machines, as soon as there is capacity."""
    deadline = time.monotonic() + options.queue_hours * 3600
    while True:
        delete(machines, options.poll_seconds)
        try:
            _create(machines, options)
            return
        except CloudError as error:
            # After a preemption there is often no capacity for a while.
            if time.monotonic() > deadline:
                raise
            _say(f"{error}. Trying again")
            time.sleep(options.poll_seconds)


def _needs_restart(plan: plans.Plan, log: "_Log", options: Options) -> bool:
    """Shows the log until the run is over (False) or was lost (True).

    Raises:
      CloudError: it has failed, or the hosts cannot be reached for long.
    """
    unreachable_since = None
    while True:
        log.show()
        states = _host_states(plan)
        if states is None:
            condition = _condition(plan.machines, options.poll_seconds)
            if condition is not plans.Condition.READY:
                _say("the machine was preempted")
                return True
            unreachable_since = unreachable_since or time.monotonic()
            if time.monotonic() - unreachable_since > _UNREACHABLE_SECONDS:
                raise CloudError("the hosts exist, but ssh does not reach them")
            time.sleep(options.poll_seconds)
            continue
        unreachable_since = None
        verdict = judge(states, plan.first_host_decides)
        if verdict is not Verdict.RUNNING:
            log.show()
            _say(f"the hosts report: {', '.join(states)}")
            return verdict is Verdict.RESUMABLE


def judge(states: Sequence[str], first_host_decides: bool) -> Verdict:
    """The state of a run from the words of all hosts.

    Args:
      states: exit codes, `running` or `lost`; at least one.
      first_host_decides: one host with exit code 0 is enough.

    Raises:
      CloudError: a host has failed in a way that a restart does not fix.
    """
    if _DONE in states and (first_host_decides or set(states) == {_DONE}):
        return Verdict.DONE
    failed = set(states) - _RESUMABLE - {_DONE, host_scripts.RUNNING}
    if failed:
        hint = ": see its line `error:` above" if failed == {_USER_ERROR} else ""
        raise CloudError(
            f"the training failed with exit code {', '.join(sorted(failed))}{hint}"
        )
    return Verdict.RESUMABLE if _RESUMABLE.intersection(states) else Verdict.RUNNING


def _host_states(plan: plans.Plan) -> list[str] | None:
    """One word from each host, or None where one could not be reached."""
    outputs = [_answer(command) for command in plan.status]
    states = [
        line.split()[1]
        for code, output, _ in outputs
        for line in output.splitlines()
        if line.startswith(f"{host_scripts.STATUS} ")
    ]
    reached = states and not any(code for code, _, _ in outputs)
    return states if reached else None


class _Log:
    """The first host's log, of which each byte is shown once."""

    def __init__(self, plan: plans.Plan, seconds: float):
        self._plan = plan
        self._seconds = max(1, round(seconds))
        self._num_bytes = 0

    def show(self) -> None:
        """Shows what is new for some seconds, or until the run ends."""
        command = self._plan.follow(self._num_bytes, self._seconds)
        process = subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        # The call ends by itself; this is for a connection that hangs.
        watchdog = threading.Timer(self._seconds + _HANGING_SECONDS, process.kill)
        # A daemon, so that Ctrl-C before `try` does not wait for it.
        watchdog.daemon = True
        try:
            watchdog.start()
            with process.stdout as pipe:  # type: ignore[union-attr]
                while data := os.read(pipe.fileno(), 65536):
                    self._num_bytes += len(data)
                    sys.stdout.buffer.write(data)
                    sys.stdout.flush()
        finally:
            watchdog.cancel()
            process.terminate()
            process.wait()


# ---- Calls ----


def _state(machines: plans.Machines, retry_seconds: float = 0.0) -> list[str]:
    """The states that gcloud prints of the machines; none if there are none.

    Args:
      machines: the machines to ask for.
      retry_seconds: time between attempts; with 0 there is only one.
    """
    for attempt in range(_STATE_ATTEMPTS if retry_seconds else 1):
        if attempt:
            time.sleep(retry_seconds)
        code, output, errors = _answer(machines.state)
        if code == 0:
            return output.split()
        if "NOT_FOUND" in errors or "not found" in errors:
            return []
    raise CloudError(f"could not {machines.state.purpose}: {errors.strip()}")


def _condition(machines: plans.Machines, retry_seconds: float = 0.0) -> plans.Condition:
    return machines.condition(_state(machines, retry_seconds))


def _answer(command: plans.Command) -> tuple[int, str, str]:
    """Makes a call; returns its exit code, standard output and standard error."""
    try:
        done = subprocess.run(
            command.argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_SECONDS,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return 1, "", f"no answer within {_ANSWER_SECONDS} seconds"
    return done.returncode, done.stdout, done.stderr


def _succeed(commands: Sequence[plans.Command]) -> bool:
    """Makes calls in parallel, their output shown; returns whether all succeeded."""
    deadline = time.monotonic() + _CALL_SECONDS
    processes: list[subprocess.Popen] = []
    try:
        for command in commands:
            _say(command.purpose)
            processes.append(subprocess.Popen(command.argv, stdin=subprocess.DEVNULL))
        for process in processes:
            process.wait(max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        _say(f"no end after {_CALL_SECONDS // 60} minutes")
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
                process.wait()
    return all(process.returncode == 0 for process in processes)


def _say(text: str) -> None:
    try:
        print(f"# {time.strftime('%H:%M:%S')} {text}", flush=True)
    except OSError:
        # The terminal is closed. The machine must still be deleted, so gcloud must not
        # fail to print either.
        null = os.open(os.devnull, os.O_WRONLY)
        for standard in (1, 2):
            os.dup2(null, standard)


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _signals(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """Replaces signal handlers within the context."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
