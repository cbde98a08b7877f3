#!/usr/bin/env bash
# Does what packaging/Containerfile says, with directories for images, and uses the result.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/container_test.sh

As root, on the release of Debian that the Containerfile begins with. Exit status: 0 all is well, 1 something is not, 77
it cannot be tried here (and a line says why).
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
    '') ;;
    *) usage >&2; exit 2 ;;
esac

# shellcheck source=tests/support/system.sh
. "$(dirname "${BASH_SOURCE[0]}")/support/system.sh"

# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "${ID:-}:${VERSION_CODENAME:-}-slim")
grep -q "^FROM $release" "$root/packaging/Containerfile" || skip "the Containerfile is not for $release"
[ "$(id -u)" -eq 0 ] || skip "a system of its own takes root"
git -C "$root" rev-parse --git-dir >/dev/null 2>&1 || skip "an image gets what git knows of the tree"
needs mmdebstrap curl jq
image='' stages=0

# bare COMMAND...: in the environment that a build of an image has.
bare() {
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@"
}

# ---- build; image: the directory of the stage ----
step() {
    local word=${1%% *} rest=${1#* }
    echo "$1"
    case $word in
        FROM)
            stages=$((stages + 1))
            image=$scratch/stage$stages
            cp -a "$scratch/base" "$image"
            case $rest in *' AS '*) ln -s "$image" "$scratch/${rest##* }" ;; esac ;;
        RUN) logged bare chroot "$image" sh -c "export DEBIAN_FRONTEND=noninteractive; $rest" ;;
        COPY)
            case $rest in
                '. '*) mkdir -p "$image${rest#* }"
                       git -C "$root" ls-files -z | (cd "$root" && xargs -0 cp --parents -t "$image${rest#* }") ;;
                --from=*) local from=${rest#--from=} to=${rest##* }
                          from=${from%% *}
                          rest=${rest#* }
                          cp -a "$scratch/$from${rest% *}/." "$image$to" ;;
            esac ;;
        ENTRYPOINT) mapfile -t entry < <(jq -r '.[]' <<<"$rest") ;;
        USER) user=$rest ;;
        VOLUME | EXPOSE) ;;
        *) fail "what is $word?" ;;
    esac
}

codename=${release#*:}
logged mmdebstrap --variant=minbase "${codename%-slim}" "$scratch/base"
while read -r line; do
    step "$line"
done < <(sed -e '/^#/d' -e '/^$/d' -e ':a' -e '/\\$/{N; s/\\\n *//; ba' -e '}' "$root/packaging/Containerfile")

# ---- run, twice: the volume has what was put, and any user of the host is served ----
[ "$(chroot "$image" stat -c %u:%g /run/okv /var/lib/okv | xargs)" = "7471:7471 7471:7471" ] || fail "the user has other numbers"
mount_proc "$image"
port=$((20000 + RANDOM % 10000))
# Other tests use the same ports.
sed -i -e "s/0.0.0.0:9469/127.0.0.1:$port/" -e "s,tcp://\*,tcp://127.7.4.71," -e "s,tcps://\*,tcps://127.7.4.71," "$image/usr/bin/okv-entry"
command=(chroot --userspec="$user:$user" "$image" "${entry[@]}")

okv() {
    chroot --userspec=nobody:nogroup "$image" okv -s local:///run/okv/okv.sock "$@"
}

# mounted MODE FILE NAME: as Kubernetes mounts a secret for a pod with fsGroup.
mounted() {
    install -o 0 -g 7471 -m "$1" "$2" "$image/etc/okv/$3"
}

# alice URI COMMAND...: a client elsewhere, a user of the mounted file.
alice() {
    local uri=$1
    shift
    chroot "$image" okv -s "$uri" --user alice --key-file /alice.key "$@"
}

serve "${command[@]}"
okv put key value || fail "a put failed"
curl -sf "http://127.0.0.1:$port/metrics" >"$scratch/metrics"
grep -q '^okv_items{database="default"} 1$' "$scratch/metrics" || fail "its metrics lack the item"
curl -sf "http://127.0.0.1:$port/readyz" >/dev/null || fail "it is not ready"
stop
serve "${command[@]}"
[ "$(okv get key)" = value ] || fail "the item is gone"
chroot "$image" kv-bench --version >/dev/null || fail "kv-bench does not run"
stop

# ---- with users by TCP, with a certificate by TLS ----
chroot "$image" okv keygen /alice.key
printf '[alice]\nkey = %s\ndefault = read\n' "$(cat "$image/alice.key")" >"$scratch/users"
mounted 0440 "$scratch/users" users
serve "${command[@]}"
[ "$(alice tcp://127.7.4.71 get key)" = value ] || fail "a user is not served by tcp"
! okv get key 2>/dev/null || fail "a stranger is served"
stop
"$root/tests/support/certificates.sh" "$scratch/tls"
mounted 0440 "$scratch/tls/server.pem" tls.crt
mounted 0440 "$scratch/tls/server.key" tls.key
cp "$scratch/tls/ca.pem" "$image/ca.pem"
serve "${command[@]}"
[ "$(alice 'tcps://127.7.4.71?ca=/ca.pem&server-name=okv.test' get key)" = value ] || fail "a user is not served by tcps"
! alice tcp://127.7.4.71 get key 2>/dev/null || fail "it serves by tcp beside tcps"
stop
rm "$image/etc/okv/users"
sed -i "s,tcps://127.7.4.71,tcps://*," "$image/usr/bin/okv-entry" # a loopback address serves this host alone
! timeout 60 "${command[@]}" 2>"$scratch/open" || fail "it serves anyone"
grep -q -- --open "$scratch/open" || fail "it does not say what is missing"
echo "container_test: all is well"
