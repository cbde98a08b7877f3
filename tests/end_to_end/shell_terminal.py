"""okv shell on a terminal: history, completion and ^C. Usage: shell_terminal.py OKV SCRATCH_DIR"""
import os
import pty
import select
import signal
import stat
import sys
import termios
import time

HANGS_S = 600
PROMPT = b"okv.sock> "


class Shell:
    def __init__(self, okv, state, *arguments):
        self.text = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.environ.update(TERM="xterm", XDG_STATE_HOME=state, HOME=state)
            os.execv(okv, [okv, "-t", "120s", "shell", *arguments])
        self.read(PROMPT)

    def read(self, until):
        """Returns what comes up to `until`, and takes it."""
        while until not in self.text:
            if not select.select([self.fd], [], [], HANGS_S)[0]:
                sys.exit(f"shell: waits in vain for {until}: {self.text}")
            try:
                more = os.read(self.fd, 4096)
            except OSError:
                more = b""
            if not more:
                sys.exit(f"shell: ended before {until}: {self.text}")
            self.text += more
        seen, self.text = self.text.split(until, 1)
        return seen

    def type(self, keys, until=PROMPT):
        os.write(self.fd, keys)
        return self.read(until)

    def start(self, line):
        """Types a command, and returns when the terminal is its own: what comes before is the editor's."""
        self.type(line, b"\r\n")
        while not termios.tcgetattr(self.fd)[3] & termios.ICANON:
            time.sleep(0.01)

    def interrupt(self):
        """^C, and again while there is no prompt: one may come before the command waits for something."""
        while PROMPT not in self.text:
            os.write(self.fd, b"\x03")
            while PROMPT not in self.text and select.select([self.fd], [], [], 1)[0]:
                self.text += os.read(self.fd, 4096)
        seen = self.read(PROMPT)
        self.type(b"get mark\n", b"'mark'")
        self.read(PROMPT)
        return seen

    def end(self, keys):
        os.write(self.fd, keys)
        try:
            while os.read(self.fd, 4096):
                pass
        except OSError:
            pass
        check(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0, "the exit status")


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
    check(b"imported 1 items" in shell.type(b"\x04"), "an import that ^D ends")
    shell.start(b"put typed -\n")
    shell.interrupt()
    check(b"value" in shell.type(b"get typed\n"), "a put that ^C ends changes nothing")
    shell.type(b"flush\n", b"[y/N] ")
    check(b"nothing was removed" in shell.interrupt(), "a flush that ^C answers")
    shell.type(b"put open 'qu\n", b"\n> ")
    shell.interrupt()
    check(b"first" in shell.type(b"get watched\n"), "a command after a quote that ^C ends")
    check(b"give a KEY" in shell.type(b"get\n"), "a usage error")
    shell.end(b"exit\n")


def history(okv, state):
    path = os.path.join(state, "okv", "history")
    check(stat.S_IMODE(os.stat(path).st_mode) == 0o600, "the mode of the history")
    os.chmod(path, 0o644)
    shell = Shell(okv, state)
    shell.type(b" put secret x\n")
    check(b"first" in shell.type(b"\x1b[A\x1b[A\x1b[A\n"), "a line of the session before")
    shell.end(b"\x04")
    check(stat.S_IMODE(os.stat(path).st_mode) == 0o600, "the mode of a history that was open")
    with open(path, "rb") as file:
        lines = file.read()
    check(b"watched" in lines and b"secret" not in lines, f"the history {lines}")
    shell = Shell(okv, state, "--no-history")
    shell.type(b"put other x\n")
    shell.end(b"\x04")
    with open(path, "rb") as file:
        check(file.read() == lines, "a shell without history writes it")


def completion(okv, state):
    shell = Shell(okv, state, "--no-history")
    check(b"first" in shell.type(b"ge\twatched\n"), "completion of a command")
    check(b"scan  stat  " in shell.type(b"s\t", b"shell  \r\n"), "completion of several")
    shell.type(b"\x15help exis\t\n", b"Usage: okv exists")
    shell.end(b"exit\n")


if __name__ == "__main__":
    OKV, STATE = sys.argv[1], os.path.join(sys.argv[2], "state")
    interrupts(OKV, STATE)
    history(OKV, STATE)
    completion(OKV, STATE)
