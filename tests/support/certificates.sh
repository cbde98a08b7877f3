#!/usr/bin/env bash
# Makes the certificates of tests over TLS; see --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/support/certificates.sh DIRECTORY

Makes with openssl, in DIRECTORY:

  ca.pem, ca.key           an authority
  server.pem, server.key   a server's, signed by it, for the name okv.test
  expired.pem              the same one, valid until yesterday
  nameless.pem             the same one without that name: its CN is okv.test
  client.pem, client.key   a client's, signed by it
  member.pem, member.key   a member's of etcd and its client's, signed by it, for 127.0.0.1, without a CN
  other.pem, other.key     a certificate that nobody signed but itself, for okv.test
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
    '') usage >&2; exit 2 ;;
esac
mkdir -p "$1"
cd "$1"
curve=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
name='subjectAltName=DNS:okv.test'

# signed NAME SUBJECT DAYS: NAME.pem for the key of NAME.csr.
signed() {
    openssl x509 -req -in "$2.csr" -CA ca.pem -CAkey ca.key -set_serial "$RANDOM" -days "$3" -out "$1.pem" \
        -extfile <(echo "$name")
}

{
    openssl req -x509 "${curve[@]}" -keyout ca.key -out ca.pem -subj /CN=okv-test-authority -days 30000
    openssl req "${curve[@]}" -keyout server.key -out server.csr -subj /CN=server
    openssl req "${curve[@]}" -keyout client.key -out client.csr -subj /CN=client
    signed server server 30000
    signed expired server -1
    openssl req -new -key server.key -out nameless.csr -subj /CN=okv.test
    openssl x509 -req -in nameless.csr -CA ca.pem -CAkey ca.key -set_serial 7 -days 30000 -out nameless.pem
    signed client client 30000
    openssl req "${curve[@]}" -keyout member.key -out member.csr -subj /O=okv
    name='subjectAltName=IP:127.0.0.1'
    signed member member 30000
    name='subjectAltName=DNS:okv.test'
    openssl req -x509 "${curve[@]}" -keyout other.key -out other.pem -subj /CN=other -addext "$name" -days 30000
    rm ./*.csr
    chmod 600 ./*.key
} >openssl.log 2>&1 || { cat openssl.log >&2; exit 1; }
