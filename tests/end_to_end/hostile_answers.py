"""Hostile answers to okv, kv-bench and the Python package: see hostile_answers.sh, which runs this.
Usage: hostile_answers.py OKV KV_BENCH LIBRARY_DIRECTORY SCRATCH [PACKAGE]"""
import json
import os
import random
import subprocess
import sys

from shell_terminal import BYTES, check, check_harmless, on_terminal

HANGS_S = 600
URI = "local:///stub"
SESSION = b"2a us\x1b[2Jer ad\xffdr 1 2 da\xc2\x9bta 3 4 5 6 1 8 9 7 lo\x9bcal h\xf0\x9fow\n"

ANSWERS = {
    "control characters": b"items \x1b[2J\x07\nname\x1b]0;x\x07 1\nuptime_ms \xc2\x9b1\x7f\n" + BYTES,
    "no UTF-8": b"items \xff\xfe\n\xff 1\n\x9b\x80 \xc0\x9b\n",
    "largest numbers": b"items 9223372036854775807\nputs 18446744073709551615\ncpu_ms 1e999\n",
    "smallest numbers": b"items -9223372036854775808\nputs -1\nboot_id -\nversion \n",
    "databases": b"default\nother\n\ndefault 9223372036854775807\nitems 9223372036854775807\n",
    "a session": SESSION,
    "a session cut short": SESSION[:-9],
    "a session with endless numbers": b"f" * 99 + b" " + b"9" * 999 + SESSION[2:],
    "nothing": b"",
    "no line": b"items",
    "lines of nothing": b"\n \n  \n\n",
    "a NUL": b"items 1\0items 2\n",
    "a long line": b"n" * 20000,
    "many lines": b"".join(b"n%d %d\n" % (i, i) for i in range(2000)),
}

# Those with --json end with JSON on standard output when they end with 0.
COMMANDS = ("stat", "stat --json", "stat -i 1ms", "stat -i 1ms --json", "stat --all", "stat --all --json",
            "top -n 1 -i 1ms", "top -n 1 -i 1ms --json", "clients", "clients --json", "clients --all --json",
            "admin snapshot", "admin kill 1", "cluster status", "cluster status --json", "doctor", "scan --long", "scan -0", "export", "del k",
            "incr k", "append k v")

PYTHON = """
import okv
with okv.Client() as db:
    list(db.scan()), db.info
    try:
        assert all(isinstance(name, str) and isinstance(value, (int, float, str)) for name, value in db.stat().items())
    except okv.Error as error:
        print(error.name)
"""


def run(what, *command):
    """Ends by itself; an exit status of a program, no signal, no traceback, no sanitizer's report."""
    ended = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=HANGS_S)
    check(0 <= ended.returncode <= 4, f"{what}: {command} ends with {ended.returncode}: {ended.stderr}")
    for sign in (b"runtime error", b"Traceback"):
        check(sign not in ended.stderr, f"{what}: {command}: {ended.stderr}")
    return ended


def okv_commands(okv, what, answer):
    for words in COMMANDS:
        command = (okv, "-s", URI, *words.split())
        ended = run(what, *command)
        if "--json" in words and ended.returncode == 0:
            json.loads(ended.stdout)
        if words == "clients --json" and answer == SESSION:
            check(len(json.loads(ended.stdout)) == 1, f"{what}: {ended.stdout}")
        check_harmless(on_terminal(*command), f"{what}: {words}")


def try_answer(okv, bench, package, path, what, answer):
    with open(path, "wb") as file:
        file.write(answer)
    okv_commands(okv, what, answer)
    command = (bench, "-s", URI, *"--records 2 --operations 2 --threads 1 --connections 1 --rounds 1".split())
    run(what, *command, "--json", "-")
    if what == "control characters":
        check_harmless(on_terminal(*command).replace(b"\r\x1b[K", b""), "kv-bench")
    if package:
        said = run(what, sys.executable, "-W", "error", "-c", PYTHON).stdout
        check(said in (b"", b"OKV_EPROTO\n"), f"{what}: Python says {said}")


def main(okv, bench, library, scratch, package=""):
    path = os.path.join(scratch, "answer")
    seed = int(os.environ.get("OKV_TEST_SEED") or random.randrange(1 << 32))
    print(f"OKV_TEST_SEED={seed}")
    random.seed(seed)
    os.environ.update(OKV_TEST_ANSWER=path, LD_LIBRARY_PATH=library, OKV_LIBRARY=f"{library}/libokv.so.0.3",
                      PYTHONPATH=package, OKV_SERVER=URI)
    answers = dict(ANSWERS)
    for i in range(3):
        lines = [random.choices(b"items 0123456789-.\x1b\x9b\xc2\xff", k=random.randrange(30)) for _ in range(30)]
        answers[f"random lines {i}"] = b"\n".join(map(bytes, lines))
    for what, answer in answers.items():
        try_answer(okv, bench, package, path, what, answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
