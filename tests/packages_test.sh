#!/usr/bin/env bash
# Builds the Debian packages, has lintian look at them, and installs, uses and removes them in a fresh system.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/packages_test.sh

As root. Exit status: 0 all is well, 1 something is not, 77 it cannot be tried here (and a line says why).
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
    '') ;;
    *) usage >&2; exit 2 ;;
esac

# shellcheck source=tests/support/system.sh
. "$(dirname "${BASH_SOURCE[0]}")/support/system.sh"

[ "$(id -u)" -eq 0 ] || skip "a system of its own takes root"
needs dpkg-buildpackage dh lintian mmdebstrap curl jq prometheus promtool
git -C "$root" rev-parse --git-dir >/dev/null 2>&1 || skip "the packages are made of what git knows of the tree"

system=$scratch/system

inside() {
    chroot "$system" "$@"
}

# as USER GROUP COMMAND...
as() {
    chroot --userspec="$1:$1" --groups="$2" "$system" "${@:3}"
}

# ---- build ----
logged "$root/packaging/build" "$scratch/packages"
for package in okv-server okv-tools libokv0.3 libokv-dev python3-okv; do
    [ -f "$(echo "$scratch/packages/${package}_"*.deb)" ] || fail "there is no package $package"
done
# Whoever builds them for others says who that is.
lintian --allow-root --fail-on error --suppress-tags \
    bogus-mail-host,bogus-mail-host-in-debian-changelog,root-in-contact "$scratch/packages/"*.deb ||
    fail "lintian found errors"

# ---- install ----
# shellcheck source=/dev/null
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
logged mmdebstrap --variant=minbase --include=systemd-sysv,ibverbs-providers,curl "$codename" "$system"
printf '#!/bin/sh\nexit 101\n' >"$system/usr/sbin/policy-rc.d" # nothing is started by itself
chmod +x "$system/usr/sbin/policy-rc.d"
mkdir "$system/packages"
cp "$scratch/packages/"*.deb "$system/packages/"
logged inside apt-get update
logged inside sh -c 'DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /packages/*.deb'
inside getent passwd okv >/dev/null || fail "there is no user okv"
inside okv --version >/dev/null || fail "okv does not run"
inside test -L /etc/systemd/system/multi-user.target.wants/okv-server.service || fail "the service is not enabled"
[ -z "$(find "$system/usr/share" -name '*.whl')" ] || fail "a package has the wheel, and python3-okv what is in it"
inside systemd-analyze verify --man=no okv-server.service || fail "systemd does not understand the service"

# ---- the documentation and the examples ----
grep -q '^Recommends:.*okv-tools' <(dpkg-deb --field "$scratch/packages/okv-server_"*.deb) || fail "okv-server does not recommend okv-tools"
documents=$system/usr/share/doc/okv-server
"$root/packaging/documents" "$scratch/documents" # tests/check_documents looks at their links
diff -r "$scratch/documents/docs" "$documents/docs" || fail "the package has other documents"
cmp "$scratch/documents/README.md" "$documents/README.md" || fail "the package has another README.md"
for file in docs/prometheus/alerts.yml docs/prometheus/cluster-alerts.yml docs/prometheus/dashboard.json; do
    cmp "$root/$file" "$documents/$file" || fail "$file is not in the package as it is"
done
cmp "$root/packaging/debian/okv-server.conf" "$documents/examples/okv-server.conf" || fail "the configuration is no example"
mount_proc "$system"
inside okv-server --config /usr/share/doc/okv-server/examples/okv-server.conf --print-config >/dev/null ||
    fail "okv-server refuses the example of its configuration"
# shellcheck disable=SC2016 # for awk
inside sh -c 'umask 077; awk "/^key = KEY/ { \"okv keygen\" | getline key; close(\"okv keygen\"); \$0 = \"key = \" key } 1" \
    /usr/share/doc/okv-server/examples/users >/etc/okv/users && chown okv:okv /etc/okv/users'
serve chroot --userspec=okv:okv "$system" okv-server --listen local:///tmp/users.sock --users /etc/okv/users --memory 16M
stop
rm "$system/etc/okv/users"

# ---- serve, as the service does, with its file ----
command=$(sed -n 's/^ExecStart=//p' "$system/lib/systemd/system/okv-server.service")
inside install -d -o okv -g okv -m 0755 /run/okv
port=$((20000 + RANDOM % 10000))
# shellcheck disable=SC2086 # words of a command
OKV_METRICS=127.0.0.1:$port serve chroot --userspec=okv:okv "$system" $command
inside okv put key value || fail "a put of root failed"
inside useradd member && inside useradd stranger
[ "$(as member okv okv get key)" = value ] || fail "a get of a member of the group okv failed"
! as stranger stranger okv get key 2>"$scratch/refused" || fail "a stranger is let in"
grep -q 'no permission.*mode=0660' "$scratch/refused" || fail "a stranger is told: $(cat "$scratch/refused")"
as member okv env OKV_SERVER=local:///run/okv/okv.sock python3 -c 'import okv; assert okv.Client().get("key") == b"value"' ||
    fail "a get of Python failed"
curl -sf "http://127.0.0.1:$port/metrics" >"$scratch/metrics"
grep -q '^okv_items{database="default"} 1$' "$scratch/metrics" || fail "its metrics lack the item"

# ---- scrape, with the alerts that docs has ----
logged promtool check metrics <"$scratch/metrics"
logged promtool check rules "$documents/docs/prometheus/alerts.yml" "$documents/docs/prometheus/cluster-alerts.yml"
cat >"$scratch/prometheus.yml" <<TEXT
rule_files: ["$documents/docs/prometheus/alerts.yml"]
scrape_configs:
  - job_name: okv
    scrape_interval: 1s
    static_configs: [{ targets: ["127.0.0.1:$port"] }]
TEXT
setpriv --pdeathsig KILL prometheus --config.file "$scratch/prometheus.yml" --storage.tsdb.path "$scratch/tsdb" \
    --web.listen-address "127.0.0.1:$((port + 1))" >"$scratch/prometheus" 2>&1 &
prometheus_pid=$! scraped=
for _ in $(seq 1200); do
    scraped=$(curl -sf "http://127.0.0.1:$((port + 1))/api/v1/query?query=okv_items" | jq -r '.data.result[0].value[1]' || true)
    [ "$scraped" != 1 ] || break
    kill -0 $prometheus_pid 2>/dev/null || break
    sleep 0.1
done
kill $prometheus_pid
[ "$scraped" = 1 ] || fail "Prometheus saw no item: $scraped"

stop

# ---- as a service: systemd starts it in its sandbox, beside soft-RoCE, and starts it again ----
# Without the guest the rest is tried all the same.
unmount_proc
printf '%s\n' 'listen = rdma://10.9.9.1' 'open = yes' 'data = /var/lib/okv' 'metrics = 127.0.0.1:9469' \
    >>"$system/etc/okv/okv-server.conf"
if [ -n "${OKV_TEST_REQUIRE_TOOLS:-}" ] || command -v qemu-system-x86_64 >/dev/null; then
    "$root/tests/guest/run" --memory 3G --time 3000 -- \
        "$root/tests/guest/systemd" "$system" "$root/tests/support/service_check" || fail "the service does not work"
else
    echo "$test: the service was not tried under systemd: no QEMU (tests/support/packages.sh guest)"
fi
mount_proc "$system"

# ---- remove ----
logged inside sh -c 'DEBIAN_FRONTEND=noninteractive apt-get purge -y okv-server okv-tools libokv0.3 libokv-dev python3-okv'
left=$(find "$system/etc" "$system/usr" "$system/lib" \( -name '*okv*' -o -name kv-bench \) ! -name 'okv*packages*')
[ -z "$left" ] || fail "this stayed: $left"
echo "packages_test: all is well"
