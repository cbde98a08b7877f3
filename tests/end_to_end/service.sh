#!/usr/bin/env bash
# What okv-server tells a service manager, which this is: sd_notify(3).
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/service.sh BUILD_DIR

Starts the okv-server of BUILD_DIR as a service manager would, and reads what it says. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

uri=local://$scratch/okv.sock
# manage ADDRESS OPTION...: serves until the server is ready and has said three times that it goes on, then ends it.
manage() {
    python3 - "$1" "$build/server/okv-server" --listen "$uri" --memory 8M "${@:2}" <<'PYTHON'
import os, signal, socket, subprocess, sys

address = sys.argv[1]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(address.replace("@", "\0", 1))
listener.settimeout(100)
server = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env=dict(os.environ, NOTIFY_SOCKET=address, WATCHDOG_USEC="40000"))
said = []
while said.count("WATCHDOG=1") < 3:
    said += listener.recv(4096).decode().split("\n")
server.send_signal(signal.SIGTERM)
while "STOPPING=1" not in said:
    said += listener.recv(4096).decode().split("\n")
if server.wait(100) != 0:
    sys.exit("it ended with %d" % server.returncode)
if said[0] != "READY=1" or said.count("READY=1") != 1:
    sys.exit("it was ready at another time: %s" % said)
PYTHON
}

manage "$scratch/notify"
manage "@okv-service-test-$$" --workers 2
# Nobody to tell: a socket that is not there, and what is no address.
for nobody in "$scratch/none" nowhere ''; do
    export NOTIFY_SOCKET=$nobody WATCHDOG_USEC=1000
    start_server "$uri"
    end_server TERM
done
echo "service: all is well"
