#!/usr/bin/env bash
# okv cluster create, set, status and handover: what they refuse, what they change, and that a server that is missing
# is replaced. What okv doctor says of a cluster.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/cluster_set.sh BUILD_DIR

Runs an etcd and three okv-servers of BUILD_DIR with --cluster. Left out without etcd, which is a failure when
OKV_TEST_REQUIRE_TOOLS is 1. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
# shellcheck source=tests/support/cluster.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/cluster.sh"
require_etcd cluster_set

# refused WHAT SENTENCE WORD...: the command at server 1 fails, and says why.
refused() {
    local what=$1 sentence=$2
    shift 2
    cluster 1 "$@" >/dev/null && echo "this was not refused" >>"$scratch/err"
    same "$what" "$(grep -c -- "$sentence" "$scratch/err")" 1
}

# told NAME: a number or a word of the report of server 1.
told() {
    cluster 1 status --json | sed -n "s/^ *\"$1\": \"*\([^\",]*\)\"*,*$/\1/p" | head -n 1
}

# in_sync: the servers in sync but the primary, one in each line.
in_sync() {
    cluster 1 status | awk '/^  in sync/ { print $3 }'
}

# await_copies COUNT: until as many others are in sync.
await_copies() {
    until [ "$(in_sync | wc -l)" = "$1" ]; do sleep 0.1; done
}

start_etcd
start_member 1
processes[1]=${servers[-1]}
await_servers 1 1
refused "settings of no cluster" "there is no cluster yet" set --copies 2 --yes
start_member 2
processes[2]=${servers[-1]}
start_member 3
processes[3]=${servers[-1]}
await_servers 1 3
refused "copies on one host" "give --force" create --copies 2 --yes
refused "fewer copies than writes need" "min-copies" create --copies 2 --min-copies 3 --force --yes
refused "a lease that is too short" "a lease is" create --lease 100ms --force --yes
refused "a change without a terminal" "give --yes" create --force </dev/null
cluster 1 create --copies 2 --min-copies 1 --lease 3s --replace-after 10m --force --yes >"$scratch/out"
same "what create said of the copies" "$(tail -n 1 "$scratch/err")" "default: 2 of 2 copies in sync"
same "copies in sync when create ends" "$(in_sync | wc -l)" 1
same "the cluster that it printed" "$(grep -c '^  primary' "$scratch/out")" 1
refused "a second cluster" "exists" create --force --yes
refused "no setting" "give what is to be set" set --yes
refused "another lease" "is for .create" set --lease 2s --yes
refused "a time that is too short" "from 1s" set --replace-after 10ms --yes
refused "fewer copies than writes need, later" "min-copies" set --min-copies 3 --yes

# Any server takes them, and all follow.
cluster 2 set --copies 3 --min-copies 2 --yes >/dev/null
await_copies 2
same "copies" "$(told copies)" 3
same "copies that writes need" "$(told min_copies)" 2
same "the time to wait, which was not named" "$(told replace_ms)" 600000
cluster 1 set --copies 2 --replace-after 1s --yes >/dev/null
same "others in sync when set ends" "$(in_sync | wc -l)" 1
same "what was not named" "$(told min_copies)" 2

# The one of 2 and 3 that has a copy goes for good, and the other one gets it.
copy=$(in_sync)
missing=${copy##*/s}
"$okv" -s "local://$scratch/s1" put key value
kill -9 "${processes[$missing]}"
wait "${processes[$missing]}" 2>/dev/null || true
until [ "$(in_sync)" = "local://$scratch/s$((5 - missing))" ]; do sleep 0.1; done
"$okv" -s "local://$scratch/s1" put key later # there are two again
cluster 1 handover --to "local://$scratch/s$((5 - missing))"
same "the value at the next primary" "$("$okv" -s "okv://$scratch/s1,$scratch/s$((5 - missing))/test" get key)" later
same "who leads" "$(cluster 1 status | awk '/^  primary/ { print $2 }')" "local://$scratch/s$((5 - missing))"

# Commands that read no items work at a copy, too, in a shell beside others that do not.
copy=$((5 - missing))
[ "$(cluster 1 status | awk '/^  primary/ { print $2 }')" = "local://$scratch/s1" ] || copy=1
same "okv stat at a copy" "$("$okv" -s "local://$scratch/s$copy" stat --json | jq .server.copies_led)" 0
same "okv clients at a copy" "$("$okv" -s "local://$scratch/s$copy" clients --json | jq 'length > 0')" true
printf '%s\n' stat 'get key' | "$okv" -s "local://$scratch/s$copy" shell >"$scratch/shell" 2>"$scratch/err" || true
same "okv get at a copy, after that" "$(grep -c 'the server is a copy' "$scratch/err")" 1

# What okv doctor says of it: the host of all copies, etcd, and the clocks of the two servers that are left.
doctored() {
    same "whether okv doctor says $1" "$(grep -cE -- "$1" "$scratch/doctor")" 1
}
status=0
"$okv" doctor -s "local://$scratch/s1" >"$scratch/doctor" || status=$?
same "problems that okv doctor found" $status 0
doctored '^(ok|note) +etcd +answers in [0-9.]+ ms$'
doctored '^ok +cluster +database default: 2 of 2 copies in sync$'
doctored '^note +cluster +database default: copies on one host are lost together$'
doctored "^(ok|note|problem) +clock +local://$scratch/s1: wall clock [-+][0-9]+ ms, lease clock"
doctored '^note +server +this one does not lead the database'
same "the clocks that were compared" "$(grep -c 'lease clock' "$scratch/doctor")" 2

# Never: nobody takes its place.
cluster 1 set --replace-after never --min-copies 1 --yes >/dev/null
same "the time to wait" "$(told replace_ms)" 0
refused "a server without an address" "has the address or the id" handover --to local:///nowhere
refused "a recovery without a word" "give --accept-loss" recover --yes
refused "a recovery that is not needed" "another server" recover --accept-loss --yes

# The server that has all loses its memory: nobody may lead, until an administrator says so. It has nothing when it comes
# back, and the one that stood still meanwhile may have less than there was.
other=$((5 - missing))
cluster 1 handover --to "local://$scratch/s1"
kill -STOP "${processes[$other]}"
until [ "$(in_sync | wc -l)" = 0 ]; do sleep 0.1; done
"$okv" -s "local://$scratch/s1" put key last
kill -9 "${processes[1]}"
wait "${processes[1]}" 2>/dev/null || true
kill -CONT "${processes[$other]}"
start_member 1
await_servers 1 2
until told read | grep -q true && told epoch | grep -q '^[1-9]'; do sleep 0.1; done
epoch=$(told epoch)
same "who leads" "$(told leads)" false
refused "a recovery by one that has less" "s$other has more: give it this command" recover --accept-loss --yes
until cluster "$other" recover --accept-loss --yes; do sleep 0.1; done
same "what it showed of both" "$(grep -c '^  local://.*: its log ends in epoch' "$scratch/err")" 2
until [ "$(told epoch)" = $((epoch + 1)) ]; do sleep 0.1; done
until cluster "$other" status --json | grep -q '"leads": true'; do sleep 0.1; done
same "the value after a recovery" "$("$okv" -s "local://$scratch/s$other" get key | sed 's/last/later/')" later
same "whether its version was raised by 2^28" "$(($("$okv" -s "local://$scratch/s$other" get --json key | jq .version) > 1 << 28))" 1

# Server 1 loads from it.
"$okv" -s "local://$scratch/s$other" put key newest
until [ "$(in_sync)" = "local://$scratch/s1" ]; do sleep 0.1; done
cluster "$other" handover --to "local://$scratch/s1"
same "the value at the copy that loaded it" "$("$okv" -s "local://$scratch/s1" get key)" newest

kill -9 "${servers[0]}" # etcd
wait "${servers[0]}" 2>/dev/null || true
until [ "$(told etcd_silent_ms)" -gt 5000 ]; do sleep 0.1; done
status=0
"$okv" doctor -s "local://$scratch/s1" >"$scratch/doctor" || status=$?
same "the exit status of okv doctor" $status 1
doctored '^problem +etcd +no answer to this server'
same "what status says of etcd" "$(cluster 1 status | grep -c '^etcd has not answered for')" 1
refused "a handover without etcd" "etcd does not answer" handover
echo "cluster_set: $checks checks, $failures wrong"
[ $failures -eq 0 ]
