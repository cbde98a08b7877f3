"""okv on a terminal: ^C, signals, history, encoding and completion of its shell; control characters.
Usage: shell_terminal.py OKV SCRATCH SERVER"""
import fcntl
import glob
import os
import pty
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import time

HANGS_S = 600
PROMPT = b"okv.sock> "
GOES_ON = b"\n> "


class Shell:
    def __init__(self, okv, state, *arguments, locale="C.UTF-8"):
        self.text = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.environ.update(TERM="xterm", XDG_STATE_HOME=state, HOME=state, LC_ALL=locale)
            os.execv(okv, [okv, "-t", "120s", "shell", *arguments])
        self.read(PROMPT)

    def more(self):
        try:
            more = os.read(self.fd, 4096)
        except OSError:
            more = b""
        self.text += more
        return more

    def read(self, until):
        """Returns what comes up to `until`, and takes it."""
        while until not in self.text:
            if not select.select([self.fd], [], [], HANGS_S)[0]:
                sys.exit(f"shell: waits in vain for {until}: {self.text}")
            if not self.more():
                sys.exit(f"shell: ended before {until}: {self.text}")
        seen, self.text = self.text.split(until, 1)
        while until in (PROMPT, GOES_ON) and not self.is_editing():  # keys before that are the terminal's to edit
            time.sleep(0.01)
        return seen

    def type(self, keys, until=PROMPT):
        os.write(self.fd, keys)
        return self.read(until)

    def is_editing(self):
        return not termios.tcgetattr(self.fd)[3] & termios.ICANON

    def state(self):
        with open(f"/proc/{self.pid}/stat", "rb") as file:
            return file.read().rsplit(b") ", 1)[1][:1]

    def start(self, line, reads=False):
        """Types a command, and returns when the terminal is its own, and it waits for what it reads: what comes before
        is the editor's."""
        self.type(line, b"\r\n")
        while self.is_editing() or (reads and self.state() != b"S"):
            time.sleep(0.01)

    def interrupt(self):
        """^C, once."""
        return self.type(b"\x03")

    def end(self, keys, status=0):
        os.write(self.fd, keys)
        self.ended(status)

    def ended(self, status):
        while self.more():
            pass
        check(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == status, "the exit status")


def check(right, what):
    if not right:
        sys.exit(f"shell: wrong: {what}")


def interrupts(okv, state):
    shell = Shell(okv, state)
    shell.type(b"put watched first\n")
    shell.type(b"watch watched\n", b"first")
    shell.interrupt()
    shell.start(b"ping -c 1000000\n")
    shell.interrupt()
    shell.start(b"import\n")
    shell.type(b"typed\tvalue\n", b"value\r\n")
    check(b"imported 1 item" in shell.type(b"\x04"), "an import that ^D ends")
    shell.start(b"put typed -\n", reads=True)
    check(b"interrupted: nothing was changed" in shell.interrupt(), "a put that ^C ends")
    check(b"value" in shell.type(b"get typed\n"), "a put that ^C ends changes nothing")
    shell.type(b"flush\n", b"[y/N] ")
    while shell.state() != b"S":
        time.sleep(0.01)
    check(b"nothing was removed" in shell.interrupt(), "a flush that ^C answers")
    shell.type(b"put open 'qu\n", GOES_ON)
    shell.interrupt()
    check(b"first" in shell.type(b"get watched\n"), "a command after a quote that ^C ends")
    check(b"give a KEY" in shell.type(b"get\n"), "a usage error")
    shell.end(b"exit\n")


def second_interrupt(okv, state, server):
    """While the server stands still and a put waits for it."""
    shell = Shell(okv, state, "--no-history")
    os.kill(server, signal.SIGSTOP)
    for path in glob.glob(f"/proc/{server}/task/*/stat"):
        while not any(stopped in open(path, "rb").read() for stopped in (b") T ", b") Z ")):
            time.sleep(0.01)
    shell.start(b"put k v\n")
    # Two that come at once are one.
    while not select.select([shell.fd], [], [], 0.1)[0] or shell.more():
        check(PROMPT not in shell.text, "a command that several ^C do not end")
        os.write(shell.fd, b"\x03")
    os.kill(server, signal.SIGCONT)
    shell.ended(-signal.SIGINT)


def input_of_commands(okv, state):
    shell = Shell(okv, state, "--no-history")
    shell.start(b"put typed -\n")
    shell.type(b"one\n", b"one\r\n")
    shell.type(b"\x04")
    check(b"\r\none\r\n" in shell.type(b"get typed\n"), "a value that one ^D ends")
    shell.type(b"flush\n", b"[y/N] ")
    shell.type(b"no, and this answer is long\n", b"long\r\n")
    check(b"nothing was removed" in shell.read(PROMPT), "a flush that is answered at length")
    shell.start(b"put typed -\n")
    shell.type(b"two\n", b"two\r\n")
    shell.type(b"\x04")
    check(b"get typed\r\ntwo\r\n" in shell.type(b"get typed\n"), "a value after an answer")
    shell.end(b"quit\n")


def signals(okv, state):
    shell = Shell(okv, state, "--no-history")
    line = b"put long " + 120 * b"x"
    shell.type(line, b"x")
    fcntl.ioctl(shell.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    while line not in shell.text:  # in one row
        os.write(shell.fd, b"\x0c")
        if select.select([shell.fd], [], [], 0.1)[0] and not shell.more():
            sys.exit("shell: ended when the terminal was resized")
    shell.type(b"\nget one two\n", b"give one KEY")  # behind all prompts so far
    shell.read(PROMPT)
    check(120 * b"x" in shell.type(b"get long\n"), "a line that was resized")

    os.kill(shell.pid, signal.SIGSTOP)
    while shell.state() != b"T":
        time.sleep(0.01)
    mode = termios.tcgetattr(shell.fd)
    mode[3] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(shell.fd, termios.TCSANOW, mode)
    os.kill(shell.pid, signal.SIGCONT)
    while not shell.is_editing():
        time.sleep(0.01)
    os.kill(shell.pid, signal.SIGTERM)
    shell.ended(-signal.SIGTERM)
    check(not shell.is_editing(), "the terminal after SIGTERM")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def history(okv, state):
    path = os.path.join(state, "okv", "history")
    check(stat.S_IMODE(os.stat(path).st_mode) == 0o600, "the mode of the history")
    os.chmod(path, 0o644)
    shell = Shell(okv, state)
    shell.type(b" put secret 'x\n", GOES_ON)
    shell.type(b"hidden'\n")
    shell.type(b"put kept 'a\n", GOES_ON)
    shell.type(b" b\n", GOES_ON)
    shell.type(b"\n", GOES_ON)
    shell.type(b"c'\n")
    check(b"first" in shell.type(4 * b"\x1b[A" + b"\n"), "a line of the session before")
    check(b" b\r\n\r\nc\r\n" in shell.type(b"get kept\n"), "a value of several lines")
    check(stat.S_IMODE(os.stat(path).st_mode) == 0o600, "the mode of a history that was open")
    beside = Shell(okv, state)
    beside.type(b"put beside x\n")
    os.kill(beside.pid, signal.SIGHUP)
    beside.ended(-signal.SIGHUP)
    shell.end(b"\x04")
    lines = read(path)
    check(b"secret" not in lines and b"hidden" not in lines, f"secrets in the history {lines}")
    check(b"\nput kept 'a\\n b\\n\\nc'\n" in lines, f"a command of several lines in the history {lines}")
    check(b"\nput watched first\n" in lines and b"\nput beside x\n" in lines, f"the history {lines}")
    shell = Shell(okv, state, "--no-history")
    shell.type(b"put other x\n")
    shell.end(b"\x04")
    check(read(path) == lines, "a shell without history writes it")

    head = lines.split(b"\n", 1)[0] + b"\n"
    with open(path, "wb") as file:
        file.write(head + b"".join(b"incr n %d\n" % i for i in range(2500)))
    shell = Shell(okv, state)
    shell.type(b"incr m\n")
    shell.end(b"exit\n")
    expected = head + b"".join(b"incr n %d\n" % i for i in range(1500, 2500)) + b"incr m\nexit\n"
    check(read(path) == expected, "a history that is cut")
    check(os.listdir(os.path.dirname(path)) == ["history"], "what cutting leaves")


def no_history(okv, state):
    """Files that are no history stay as they are, and nothing is said."""
    path = os.path.join(state, "okv", "history")
    for target in ("/dev/null", "other"):
        os.unlink(path)
        os.symlink(target, path)
        with open(os.path.join(state, "okv", "other"), "wb") as file:
            file.write(b"of another program\n")
        shell = Shell(okv, state)
        shell.type(b"put a b\n")
        os.write(shell.fd, b"exit\n")
        shell.ended(0)
        check(b"history" not in shell.text, f"what is said of a history that is no file: {shell.text}")
    os.unlink(path)
    os.rename(os.path.join(state, "okv", "other"), path)
    shell = Shell(okv, state)
    shell.type(b"put a b\n")
    shell.end(b"exit\n")
    check(read(path) == b"of another program\n", "a file that is no history")


def encoding(okv, state):
    for locale in ("C", "C.UTF-8"):
        shell = Shell(okv, state, "--no-history", locale=locale)
        shell.type(b"put name 'Zo\xc3\xab'\n")
        check(b"\nZo\xc3\xab\r\n" in shell.type(b"get name\n"), f"a value in {locale}")
        check(b"no characters in UTF-8" in shell.type(b"put name 'Zo\xeb'\n"), "a line that loses bytes")
        shell.type(b"put name 'Zo\n", GOES_ON)
        check(b"no characters" in shell.type(b"\xc3\n"), "a line that goes on and loses bytes")
        check(b"\nZo\xc3\xab\r\n" in shell.type(b"get name\n"), f"a value that such a line left in {locale}")
        shell.end(b"exit\n")


def completion(okv, state):
    shell = Shell(okv, state, "--no-history")
    check(b"first" in shell.type(b"ge\twatched\n"), "completion of a command")
    check(b"scan  stat  " in shell.type(b"s\t", b"shell  \r\n"), "completion of several")
    # What was there before is no part of the line.
    shell.type(b"\x15help \x15\t", b"help  exit  quit  \r\n")
    shell.type(b"\x15help exis\t\n", b"Usage: okv exists")
    shell.read(PROMPT)
    shell.type(b"put x y --if-\t", b"--if-absent  --if-version=  \r\n")
    shell.type(b"a\t\n", b"bsent \r\n")
    shell.read(PROMPT)
    check(b"\r\ny\r\n" in shell.type(b"get x --of\t0 --len\t1\n"), "completion of options")
    shell.type(b"get x --\t", b"--server=  ")
    shell.type(b"\x15exit --\tnope\x15nope --\t\x15get x\n", b"\r\ny\r\n")
    shell.read(PROMPT)
    shell.end(b"exit\n")


# Each single byte but NUL, U+0080 to U+009F in UTF-8, and characters that have such bytes.
BYTES = bytes(range(1, 256)) + "".join(map(chr, range(0x80, 0xa0))).encode() + "\u202eě€😀".encode()


def on_terminal(*command):
    """What it prints there: standard output and standard error."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    text = b""
    try:
        while more := os.read(fd, 4096):
            text += more
    except OSError:
        pass
    os.waitpid(pid, 0)
    os.close(fd)
    return text.replace(b"\r\n", b"\n")


def check_harmless(text, what):
    """No byte of it commands a terminal."""
    controls = {*range(0x20), *range(0x7f, 0xa0), 0x202e} - {ord("\n"), ord("\t")}
    shown = text.decode(errors="surrogateescape")  # of single bytes
    wrong = [byte for byte in shown if ord(byte) in controls or "\udc80" <= byte <= "\udcff"]
    check(not wrong, f"{what} on a terminal: {wrong} in {text}")


def check_shown(text, what):
    check_harmless(text, what)
    for byte in (0x01, 0x1b, 0x7f, 0x80, 0x9b, 0xff):
        check(b"\\x%02x" % byte in text, f"{byte} in {what}: {text}")
    check(b"\\xc2\\x9b" in text and "ě€😀".encode() in text, f"UTF-8 in {what}: {text}")
    check(b"\\xe2\\x80\\xae" in text, f"a mark of the direction in {what}: {text}")


def control_characters(okv, state):
    key, escaped = b"bytes" + BYTES, BYTES
    for byte, letter in ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\r", b"\\r")):
        escaped = escaped.replace(byte, letter)
    line = b"bytes" + escaped + b"\t" + escaped + b"\n"
    run = lambda *command, **more: subprocess.run(command, capture_output=True, check=True, **more).stdout
    run(okv, "import", input=line)
    for command, raw in ((("get", key), BYTES), (("mget", key), line), (("export",), line),
                         (("scan", "--prefix", "bytes"), b"bytes" + escaped + b"\n"),
                         (("scan", "-0", "--prefix", "bytes"), key + b"\0"),
                         (("watch", "-n", "1", key), escaped + b"\n")):
        check(raw in run(okv, *command), f"{command} in a pipe")
        check_shown(on_terminal(okv, *command), command)
    failed = on_terminal(okv, "del", BYTES[-40:])
    check(b"\\xc2\\x9f" in failed and "ě€😀".encode() in failed, f"a failure: {failed}")
    shell = Shell(okv, state, "--no-history")
    check_shown(shell.type(b"scan --prefix bytes\n").split(b"\r\n", 1)[1].split(b"\r\n", 1)[0], "scan in a shell")
    shell.end(b"exit\n")


if __name__ == "__main__":
    OKV, STATE = sys.argv[1], os.path.join(sys.argv[2], "state")
    interrupts(OKV, STATE)
    second_interrupt(OKV, STATE, int(sys.argv[3]))
    input_of_commands(OKV, STATE)
    signals(OKV, STATE)
    history(OKV, STATE)
    no_history(OKV, STATE)
    encoding(OKV, STATE)
    completion(OKV, STATE)
    control_characters(OKV, STATE)
