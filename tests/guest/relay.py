#!/usr/bin/env python3
"""Copies the guest's two output streams to stdout and stderr as they come.

usage: relay.py STDOUT_FIFO STDERR_FIFO END_MARK SECONDS

Each stream ends with END_MARK, a random string, which is not copied. Without it nobody could tell when
the last byte has come: the streams are open as long as the guest lives.
Exit status: 0 both streams are complete, 1 the guest went away before, 2 SECONDS are over,
141 nobody reads the output any more.
"""
import os
import select
import signal
import sys
import time

COMPLETE, CUT_SHORT, TOO_LATE, NO_READER = 0, 1, 2, 141


class Stream:
    def __init__(self, fifo, target, mark):
        self.source = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.target = target
        self.mark = mark
        self.held = b""
        self.complete = False

    def forward(self):
        """Copies what has arrived; returns False at the end of the stream."""
        data = os.read(self.source, 1 << 16)
        if not data:
            write_all(self.target, self.held)
            return False
        data = self.held + data
        self.complete = data.endswith(self.mark)
        kept = len(self.mark) if self.complete else held_length(data, self.mark)
        self.held = data[len(data) - kept:]
        write_all(self.target, data[:len(data) - kept])
        return not self.complete


def held_length(data, mark):
    """The length of the longest end of data that could be the beginning of the mark."""
    for length in range(min(len(data), len(mark) - 1), 0, -1):
        if data.endswith(mark[:length]):
            return length
    return 0


def write_all(target, data):
    view = memoryview(data)
    while view:
        view = view[os.write(target, view):]


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    out, err, mark, seconds = sys.argv[1:]
    deadline = time.monotonic() + float(seconds)
    streams = [Stream(out, 1, mark.encode()), Stream(err, 2, mark.encode())]
    poll = select.poll()
    running = {}
    for stream in streams:
        poll.register(stream.source, select.POLLIN)
        running[stream.source] = stream
    while running:
        left = deadline - time.monotonic()
        if left <= 0:
            return TOO_LATE
        for source, _ in poll.poll(left * 1000):
            if not running[source].forward():
                poll.unregister(source)
                del running[source]
    return COMPLETE if all(stream.complete for stream in streams) else CUT_SHORT


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(NO_READER)
