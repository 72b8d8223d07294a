"""Bash scripts for a host: install, start, follow, query and stop a run.

All files are in one directory of the home directory:

    albert_tf_run/source/     this repository's files
    albert_tf_run/venv/       Python and the pinned packages
    albert_tf_run/run.sh      the commands: checks of the host, then training
    albert_tf_run/log         their output
    albert_tf_run/process     their process group and boot id
    albert_tf_run/exit_code   the exit code, once they have ended
"""

import dataclasses
import shlex
from collections.abc import Iterable, Mapping, Sequence

RUN_DIR = "albert_tf_run"
# The first word of a line of `status`.
STATUS = "albert_tf_status"
RUNNING = "running"
LOST = "lost"

# The images bring Python 3.10 or 3.12, with or without the venv module. uv, which needs
# neither root nor the package manager that is busy after the first boot, finds or
# fetches the same Python on all of them.
_UV_VERSION = "0.13.9"
_PYTHON_VERSION = "3.12"

# Sets alive to yes or nothing. The boot is compared because another process may have
# the number after a reboot.
_ALIVE = f"""\
cd "$HOME/{RUN_DIR}"
alive=
if [ -f process ]; then
  read -r group boot < process
  if [ "$boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] &&
     kill -0 -- "-$group" 2> /dev/null; then
    alive=yes
  fi
fi
"""


@dataclasses.dataclass(frozen=True)
class Packages:
    """Installation of the pinned packages.

    Attributes:
      arguments: of `pip install`, relative to the source directory.
      prepare: shell lines before that, in the source directory.
    """

    arguments: str
    prepare: str = ""


# Without dependencies, for the reason in the file.
TPU_PACKAGES = Packages("--no-deps -r requirements-tpu.txt")
# The extra brings CUDA and cuDNN; the pin stays that of requirements.txt.
GPU_PACKAGES = Packages(
    "-r requirements-gpu.txt -c constraints.txt",
    'sed "s/^tensorflow==/tensorflow[and-cuda]==/" requirements.txt '
    "> requirements-gpu.txt\n",
)


def install(archive: str, packages: Packages) -> str:
    """Unpacks `archive`, which is in the home directory, and makes the environment.

    May be run again after an interrupted call.
    """
    return f"""\
set -eu
mkdir -p "$HOME/{RUN_DIR}"
cd "$HOME/{RUN_DIR}"
rm -rf source
mkdir source
tar -xzf "$HOME/{archive}" -C source
python3 -m pip install --quiet --upgrade --target=uv uv=={_UV_VERSION}
uv/bin/uv venv --quiet --clear --python={_PYTHON_VERSION} venv
cd source
{packages.prepare}\
../uv/bin/uv pip install --quiet --python=../venv/bin/python {packages.arguments}
"""


def start(
    checks: Sequence[str], arguments: Sequence[str], environment: Mapping[str, str]
) -> str:
    """Starts the training, unless it runs already, and returns at once.

    The host is checked first: if something failed, there is no training, and the exit
    code is that of the checks.

    setsid and nohup take it out of the ssh session, so that it outlives the connection;
    unlike tmux and a unit of systemd they are on every image, need no root, and are the
    same in a test. The shell around the command records its exit code.

    Args:
      checks: arguments of `python -m albert_tf.doctor`.
      arguments: of `python -m albert_tf.pretrain`.
      environment: variables to set.

    Raises:
      ValueError: a value has more than one line.
    """
    # A line of a value could end the file that the script writes.
    check_single_lines((*checks, *arguments, *environment.values()))
    exports = "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in environment.items()
    )
    doctor = shlex.join(["-u", "-m", "albert_tf.doctor", *checks])
    training = shlex.join(["-u", "-m", "albert_tf.pretrain", *arguments])
    return f"""\
set -eu
{_ALIVE}\
if [ -n "$alive" ] && [ ! -f exit_code ]; then
  echo "already running"
  exit 0
fi
rm -f exit_code
cat > run.sh <<"END_OF_RUN_SH"
cd "$HOME/{RUN_DIR}/source"
{exports}\
code=0
../venv/bin/python {doctor} || code=$?
if [ "$code" -eq 0 ]; then
  ../venv/bin/python {training} || code=$?
fi
echo "$code" > ../exit_code.new
mv ../exit_code.new ../exit_code
END_OF_RUN_SH
setsid nohup bash run.sh >> log 2>&1 < /dev/null &
echo "$! $(cat /proc/sys/kernel/random/boot_id)" > process
"""


def check_single_lines(values: Iterable[str]) -> None:
    """Raises a ValueError if a value for a host has more than one line."""
    for value in values:
        if "\n" in value or "\r" in value:
            raise ValueError(
                f"a value for a host must be a single line; received {value!r:.100}"
            )


def follow(first_byte: int, seconds: int) -> str:
    """Prints the log from a byte offset, until the run ends or the time is over.

    Args:
      first_byte: number of bytes of the log to skip.
      seconds: longest time, so that a hanging connection costs no more than that.
    """
    return f"""\
cd "$HOME/{RUN_DIR}" || exit
read -r group boot < process
timeout {seconds} tail --bytes=+{first_byte + 1} --follow --sleep-interval=0.2 \\
  --pid="$group" log || [ $? -eq 124 ]
"""


def status() -> str:
    """Prints one line: STATUS, and RUNNING, LOST or the exit code.

    LOST: it ended without an exit code, as when it was killed or the host rebooted.
    """
    # The process is checked first: one that ends in between has an exit code.
    return f"""\
{_ALIVE}\
if [ -f exit_code ]; then
  echo "{STATUS} $(cat exit_code)"
elif [ -n "$alive" ]; then
  echo "{STATUS} {RUNNING}"
else
  echo "{STATUS} {LOST}"
fi
"""


def stop(seconds: int = 60) -> str:
    """Ends the run by SIGTERM, which lets it save, and after `seconds` by SIGKILL."""
    return f"""\
{_ALIVE}\
if [ -n "$alive" ]; then
  kill -TERM -- "-$group"
  for second in $(seq {seconds}); do
    kill -0 -- "-$group" 2> /dev/null || exit 0
    sleep 1
  done
  # The TPU or GPU is free once the processes have ended.
  for tenth in $(seq 300); do
    kill -KILL -- "-$group" 2> /dev/null || exit 0
    sleep 0.1
  done
fi
"""
