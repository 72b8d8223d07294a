"""A fake gcloud, and the hosts that it reaches, in one directory.

`write` makes programs for PATH. `gcloud` records its arguments, tracks the state of one
machine, and runs what is sent by ssh in a local bash whose home is that of the host;
there `python3`, `uv` and the environment's `python` are fakes too. script.json says
beforehand what fails and how trainings end:

    create, delete,  exit codes of the calls to come; then 0
    ssh, state
    states           for each creation the words that the state call prints one after
                     the other; the last one stays
    checks           exit codes of the checks to come; then 0
    trainings        for each start on each host an exit code, "preempted" (the machine
                     is taken away) or "endless"; then 0
"""

import json
import pathlib
import sys

_COMMON = f"""#!{sys.executable} -SE
import fcntl, json, os, pathlib, shutil, signal, subprocess, sys, time
folder = pathlib.Path(os.environ["FAKE_CLOUD"])
script_file = folder / "script.json"


def write(path, value):
    # Atomically: an interrupted call must not damage the file.
    unfinished = path.with_suffix(f".{{os.getpid()}}")
    unfinished.write_text(json.dumps(value))
    os.replace(unfinished, path)


def pop(key, default):
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        script = json.loads(script_file.read_text())
        values = script.get(key, [])
        value = values.pop(0) if values else default
        write(script_file, script)
    return value


def append(path, value):
    with open(path, "a") as file:
        file.write(json.dumps(value) + "\\n")


def words(new=None):
    path = folder / "words.json"
    if new is not None:
        write(path, new)
    return json.loads(path.read_text()) if path.exists() else []
"""

_GCLOUD = """
argv = sys.argv[1:]
append(folder / "calls.jsonl", argv)
flags = dict(a[2:].partition("=")[::2] for a in argv if a.startswith("--"))
num_hosts = int(os.environ["FAKE_HOSTS"])
usable = words()[:1] in (["READY"], ["ACTIVE"], ["RUNNING"])


def home(number):
    path = folder / f"host-{number}"
    path.mkdir(exist_ok=True)
    return path


def hosts(name):
    if "worker" in flags:
        return range(num_hosts) if flags["worker"] == "all" else [int(flags["worker"])]
    return [int(name.rpartition("-")[2])]


def take_away():
    for number in range(num_hosts):
        process = home(number) / "albert_tf_run" / "process"
        if process.exists():
            try:
                os.killpg(int(process.read_text().split()[0]), signal.SIGKILL)
            except ProcessLookupError:
                pass
        # A script that outlived its ssh may still be writing there.
        while (folder / f"host-{number}").exists():
            shutil.rmtree(folder / f"host-{number}", ignore_errors=True)


if "create" in argv:
    code = pop("create", 0)
    if code:
        sys.exit("ERROR: (gcloud) There is no more capacity in the zone")
    ready = {"instances": "RUNNING", "queued-resources": "ACTIVE"}
    words(pop("states", [next((v for k, v in ready.items() if k in argv), "READY")]))
elif "describe" in argv or "list" in argv:
    if pop("state", 0):
        sys.exit("ERROR: (gcloud) There was a problem with the network")
    now = words()
    if not now and "describe" in argv:
        sys.exit("ERROR: (gcloud) NOT_FOUND: Resource was not found.")
    if len(now) > 1:
        words(now[1:])
    print("\\n".join(now[:1] * (num_hosts if "list" in argv else 1)))
elif "delete" in argv:
    print("Delete request issued", flush=True)
    code = pop("delete", 0)
    if code:
        sys.exit("ERROR: (gcloud) INTERNAL: try again later")
    if not words():
        sys.exit("ERROR: (gcloud) NOT_FOUND: Resource was not found.")
    words([])
    take_away()
elif not usable:
    take_away()
    sys.exit(255)
elif "scp" in argv:
    where = argv.index("scp")
    name, _, target = argv[where + 2].partition(":")
    for number in hosts(name):
        shutil.copy(argv[where + 1], home(number) / target)
elif "ssh" in argv:
    name = argv[argv.index("ssh") + 1]
    code = pop("ssh", 0)
    if code:
        sys.exit(code)
    codes = [
        subprocess.run(
            ["bash", "-c", flags["command"]],
            env={**os.environ, "HOME": str(home(number))},
        ).returncode
        for number in hosts(name)
    ]
    sys.exit(max(codes))
"""

# Both `python3 -m pip install --target=uv uv==...` and the uv that it installs.
_INSTALLER = """
home = pathlib.Path(os.environ["HOME"])
argv = sys.argv[1:]
if argv[:3] == ["-m", "pip", "install"]:
    (home / "albert_tf_run" / "uv" / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(__file__, home / "albert_tf_run" / "uv" / "bin" / "uv")
elif argv[0] == "venv":
    (home / "albert_tf_run" / "venv" / "bin").mkdir(parents=True, exist_ok=True)
    training = pathlib.Path(shutil.which("python3")).with_name("training")
    shutil.copy(training, home / "albert_tf_run" / "venv" / "bin" / "python")
append(home / "installed.jsonl", argv)
"""

_TRAINING = """
home = pathlib.Path(os.environ["HOME"])
if sys.argv[3] == "albert_tf.doctor":
    append(folder / "checks.jsonl", [home.name, sys.argv[1:]])
    end = pop("checks", 0)
    print(f"checks, which end with {end}", flush=True)
    sys.exit(end)
seen = {name: os.environ.get(name) for name in ("TF_CONFIG", "TPU_LOAD_LIBRARY")}
record = [home.name, sys.argv[1:], seen, os.path.relpath(os.getcwd(), home)]
append(folder / "trainings.jsonl", record)
end = pop("trainings", 0)
print(f"training, which ends with {end}", flush=True)
if end == "preempted":
    words(["PREEMPTED"])
if end in ("endless", "preempted"):
    time.sleep(120)
sys.exit(end)
"""


def write(folder: pathlib.Path, script: dict) -> pathlib.Path:
    """Makes the fakes in `folder` and returns the directory for PATH."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name, body in (
        ("gcloud", _GCLOUD),
        ("python3", _INSTALLER),
        ("training", _TRAINING),
    ):
        (programs / name).write_text(_COMMON + body)
        (programs / name).chmod(0o755)
    (folder / "script.json").write_text(json.dumps(script))
    return programs


def read_lines(path: pathlib.Path) -> list:
    """The values of a file of JSON lines; none if there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]
