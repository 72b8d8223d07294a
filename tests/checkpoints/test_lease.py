"""Leases: of processes that start together one wins, and a gone one keeps none."""

import dataclasses
import itertools
import os
import queue
import shutil
import threading
import types

import pytest
import tensorflow as tf

from albert_tf.checkpoints import lease as lease_lib
from albert_tf.core import files, locks

RENEW = 20.0


class _Clock(lease_lib.Clock):
    """Time passes only in `sleep`, which calls `while_asleep`."""

    def __init__(self, while_asleep=lambda: None):
        self.seconds = 0.0
        self.ahead = 0.0
        self._while_asleep = while_asleep

    def now(self):
        return 1_800_000_000.0 + self.seconds + self.ahead

    def elapsed(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds
        self._while_asleep()


def _lease(folder, clock=None, **here):
    """A lease of this process, or of a process that is described otherwise."""
    lease = lease_lib.Lease(str(folder), RENEW, clock or _Clock())
    lease._here = dataclasses.replace(lease._here, **here)
    return lease


def _claims(folder):
    return [name for name in os.listdir(folder) if name.startswith("run.lease-")]


ELSEWHERE = {"machine": "another boot", "host": "other"}


# ---- One holder ----


def test_a_second_one_is_refused_at_once_and_nothing_is_left(tmp_path):
    first, clock = _lease(tmp_path), _Clock()
    first.acquire(pytest.fail)
    with pytest.raises(locks.HeldError, match=f"process {os.getpid()} on"):
        _lease(tmp_path, clock).acquire(pytest.fail)
    assert clock.seconds == 0.0 and first.check()
    first.release()
    assert os.listdir(tmp_path) == []
    _lease(tmp_path).acquire(pytest.fail)


class _Turns:
    """Lets two threads do one operation each in a given order.

    When the order ends, they take turns. A thread that has ended is passed over.
    """

    def __init__(self, order):
        self._order = itertools.chain(order, itertools.cycle((0, 1)))
        self._go = [threading.Semaphore(0), threading.Semaphore(0)]
        self._reports = queue.Queue()

    def wait(self):
        """Called before an operation."""
        self._reports.put(None)
        self._go[int(threading.current_thread().name)].acquire()

    def run(self, functions):
        """Runs the functions in threads; returns what they returned."""
        outcomes = {}

        def run_one(number):
            outcomes[number] = functions[number]()
            self._reports.put(number)

        for number in range(2):
            threading.Thread(
                target=run_one, args=(number,), name=str(number), daemon=True
            ).start()
            self._reports.get()
        for number in itertools.islice(self._order, 1000):
            if len(outcomes) == 2:
                break
            if number not in outcomes:
                self._go[number].release()
                self._reports.get()
        assert len(outcomes) == 2, "both wait for each other"
        return [outcomes[0], outcomes[1]]


def _contend(folder, monkeypatch, order, tokens):
    """Two processes take a lease, one storage operation at a time."""
    turns = _Turns(order)

    def gated(function):
        def operate(*arguments):
            turns.wait()
            return function(*arguments)

        return operate

    gates = {
        name: gated(getattr(files, name))
        for name in ("names", "read_bytes", "write_bytes", "remove")
    }
    monkeypatch.setattr(lease_lib, "files", types.SimpleNamespace(**gates))
    monkeypatch.setattr(
        lease_lib.secrets,
        "token_hex",
        lambda size: tokens[int(threading.current_thread().name)] * 2 * size,
    )

    def take():
        try:
            lease = _lease(folder, _Clock(turns.wait))
            lease.acquire(pytest.fail)
        except locks.HeldError:
            return None
        return lease

    leases = turns.run([take, take])
    monkeypatch.undo()
    return leases


def test_in_every_order_of_operations_with_two_switches_one_of_two_wins(
    tmp_path, monkeypatch
):
    """An operation is a listing, a read, a write or a removal; no one does 12."""
    winners = [0, 0]
    for number, (before, between, tokens) in enumerate(
        itertools.product(range(12), range(12), ("ab", "ba"))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        order = [0] * before + [1] * between + [0] * 12
        leases = _contend(folder, monkeypatch, order, tokens)
        won = [place for place, lease in enumerate(leases) if lease is not None]
        assert len(won) == 1, (before, between, tokens)
        assert len(_claims(folder)) == 1
        assert leases[won[0]].check()
        winners[won[0]] += 1
    assert min(winners) > 20, winners


def test_of_threads_that_race_one_wins_each_time(tmp_path):
    class Impatient(lease_lib.Clock):
        def sleep(self, seconds):
            super().sleep(seconds / 5000)

    for number in range(60):
        folder = tmp_path / str(number)
        folder.mkdir()
        start, won = threading.Barrier(3), []

        def take(folder=folder, start=start, won=won):
            lease = _lease(folder, Impatient())
            start.wait()
            try:
                lease.acquire(pytest.fail)
            except locks.HeldError:
                return
            won.append(lease)

        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1 and won[0].check()
        assert len(os.listdir(folder)) == 1


# ---- A holder that is gone ----


def test_the_claim_of_a_process_of_this_machine_that_ended_is_taken_at_once(tmp_path):
    # No process has this start, so the number is that of another one.
    _lease(tmp_path, started=1).acquire(pytest.fail)
    clock = _Clock()
    _lease(tmp_path, clock).acquire(pytest.fail)
    assert clock.seconds == 0.0 and len(_claims(tmp_path)) == 1


@pytest.mark.parametrize(
    ("age", "ahead", "waited"),
    [
        (0.0, 0.0, 300.0),
        (200.0, 0.0, 100.0),
        (3600.0, 0.0, 60.0),
        (0.0, 3600.0, 60.0),  # the holder's clock is behind
        (0.0, -3600.0, 300.0),
    ],
)
def test_a_claim_of_another_machine_that_is_not_renewed_ends_by_its_age(
    tmp_path, age, ahead, waited
):
    gone = _lease(tmp_path, **ELSEWHERE)
    gone.acquire(pytest.fail)
    clock, said = _Clock(), []
    clock.ahead = age + ahead
    _lease(tmp_path, clock).acquire(said.append)
    assert clock.seconds == waited
    assert len(said) == 1 and "on other, since" in said[0]
    assert len(_claims(tmp_path)) == 1


@pytest.mark.parametrize("ahead", [0.0, 3600.0, -3600.0])
def test_a_claim_of_another_machine_that_is_renewed_stays_whatever_clocks_say(
    tmp_path, ahead
):
    holder_clock = _Clock()
    holder = _lease(tmp_path, holder_clock, **ELSEWHERE)
    holder.acquire(pytest.fail)

    def renew():
        holder_clock.seconds = clock.seconds
        if clock.seconds % RENEW == 0:
            assert holder.check()

    clock = _Clock(renew)
    clock.ahead = ahead
    with pytest.raises(locks.HeldError, match="on other, since"):
        _lease(tmp_path, clock).acquire(lambda line: None)
    assert clock.seconds == RENEW and holder.check()


def test_a_holder_that_was_suspended_finds_that_it_lost_the_lease(tmp_path):
    suspended = _lease(tmp_path, **ELSEWHERE)
    suspended.acquire(pytest.fail)
    following = _lease(tmp_path)
    following.acquire(lambda line: None)
    with pytest.raises(locks.LostError, match=f"process {os.getpid()} on"):
        suspended.check()
    suspended.release()
    assert following.check() and len(_claims(tmp_path)) == 1


def test_a_holder_that_renews_a_removed_claim_yields_to_the_later_number(tmp_path):
    suspended = _lease(tmp_path, **ELSEWHERE)
    suspended.acquire(pytest.fail)
    following = _lease(tmp_path)
    following.acquire(lambda line: None)
    suspended._write("holds")  # it was about to do that when it was suspended
    assert following.check()
    with pytest.raises(locks.LostError, match=f"process {os.getpid()} on"):
        suspended.check()
    assert following.check() and len(_claims(tmp_path)) == 1


def test_a_process_that_was_suspended_before_it_held_the_lease_is_refused(tmp_path):
    slow = _lease(tmp_path, _Clock(lambda: None), **ELSEWHERE)
    write, following = slow._write, _lease(tmp_path)

    def write_and_be_suspended(state):
        write(state)
        if state == "waits":
            following.acquire(lambda line: None)

    slow._write = write_and_be_suspended
    with pytest.raises(locks.HeldError, match=f"process {os.getpid()} on"):
        slow.acquire(pytest.fail)
    assert following.check() and len(_claims(tmp_path)) == 1


def test_a_claim_that_is_not_whole_ends_by_its_age_too(tmp_path):
    name = f"run.lease-000009-{'a' * 16}"
    (tmp_path / name).write_bytes(b'{"state": "ho')
    (tmp_path / "run.lease-notes").write_text("the user's")
    clock, said = _Clock(), []
    lease = _lease(tmp_path, clock)
    lease.acquire(said.append)
    assert clock.seconds == 300.0 and "(by a process)" in said[0]
    assert name not in os.listdir(tmp_path)
    assert lease._name.startswith("run.lease-000010-")
    assert (tmp_path / "run.lease-notes").exists()


def test_a_copy_of_a_directory_in_use_is_free_once_nothing_renews_its_claim(tmp_path):
    holder = _lease(tmp_path / "run")
    (tmp_path / "run").mkdir()
    holder.acquire(pytest.fail)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    clock = _Clock()
    _lease(tmp_path / "copy", clock).acquire(lambda line: None)
    assert clock.seconds == 300.0 and holder.check()


# ---- Storage that is away ----


@pytest.mark.parametrize(
    "error", [OSError("away"), tf.errors.UnavailableError(None, None, "away")]
)
def test_a_lease_that_cannot_be_renewed_is_neither_confirmed_nor_lost(
    tmp_path, monkeypatch, error
):
    lease = _lease(tmp_path)
    lease.acquire(pytest.fail)

    def away(*_):
        raise error

    with monkeypatch.context() as patch:
        for name in ("names", "remove"):
            patch.setattr(lease_lib.files, name, away)
        assert lease.check() is False
        lease.release()
        with pytest.raises(type(error)):
            _lease(tmp_path).acquire(pytest.fail)
    assert lease.check() is True
