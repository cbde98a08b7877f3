#!/usr/bin/env bash
# Clients of Redis, as applications have them, on a server with users; and both worlds on one database.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/resp/clients.sh BUILD_DIR

Runs redis-cli, redis-benchmark, hiredis, redis-py, ioredis and node-redis against the okv-server of BUILD_DIR, and
libraries that build on them with scripts: locks, rate limiters, caches, sessions of PHP. Those for Node.js are installed
by npm to BUILD_DIR/resp-clients the first time. Exit status: 0 all is well, 1 something is not, 77 a client is not there;
the others ran then.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
absent=()

# has WHAT COMMAND...: whether the command works; if not, WHAT is left out.
has() {
    local what=$1
    shift
    "$@" >"$scratch/err" 2>&1 && return
    echo "clients: without $what: $(tail -n 1 "$scratch/err")"
    absent+=("$what")
    return 1
}

# passes WHAT COMMAND...
passes() {
    local what=$1 status=0
    shift
    "$@" >"$scratch/err" 2>&1 || status=$?
    same "$what" "$status" 0
}

# cli [ARGUMENT...]: redis-cli as the user, in the RESP of $protocol.
cli() {
    redis-cli -p "$port" --user app -a "$password" --no-auth-warning "-$protocol" "$@" 2>&1
}

# Of both protocols.
commands_of_cli() {
    same "SET" "$(cli SET "cli:a" 1)" OK
    same "GET" "$(cli GET cli:a)" 1
    same "INCR" "$(cli INCR cli:a)" 2
    same "MGET" "$(cli --json MGET cli:a cli:none)" '["2",null]'
    same "EXPIRE" "$(cli EXPIRE cli:a 100)" 1
    same "TTL" "$(($(cli TTL cli:a) > 90))" 1
    same "SCAN" "$(cli --scan --pattern 'cli:*')" cli:a
    same "WATCH" "$(printf '%s\n' 'WATCH cli:a' MULTI 'INCR cli:a' 'GET cli:a' EXEC | cli | tr '\n' ' ')" \
        'OK OK QUEUED QUEUED 3 3 '
    same "a watched key that changed" "$(printf '%s\n' 'WATCH cli:a' 'SET cli:a 4' MULTI PING EXEC | cli --no-raw |
        tail -n 1)" '(nil)'
    same "a binary key" "$(printf '%s\n' 'SET "\x00\xff\r\n" "\x01"' 'GET "\x00\xff\r\n"' | cli --no-raw | tail -n 1)" \
        '"\x01"'
    same "a large value" "$(cli -x SET cli:large <"$scratch/large" && cli GET cli:large | head -c 1048576 | md5sum)" \
        "OK"$'\n'"$(md5sum <"$scratch/large")"
    cli DEL cli:a cli:large >"$scratch/err"
}

redis_cli() {
    has redis-cli command -v redis-cli || return 0
    same "a stranger" "$(redis-cli -p "$port" GET a 2>&1)" 'NOAUTH Authentication required.'
    for protocol in 2 3; do commands_of_cli; done
    for ((i = 0; i < 5000; i++)); do echo "SET piped:$i $i"; done >"$scratch/pipe"
    passes "redis-cli --pipe" cli --pipe <"$scratch/pipe"
    same "the keys of a pipe" "$(cli GET piped:4999)" 4999
    has redis-benchmark command -v redis-benchmark || return 0
    passes "redis-benchmark" redis-benchmark -p "$port" --user app -a "$password" -n 2000 -c 10 -P 16 -d 100 -r 1000 \
        -t ping,set,get,incr,mset
    same "no errors in redis-benchmark" "$(grep -ciE 'error|WARNING' "$scratch/err" || true)" 0
    both_worlds
}

as_app() {
    "$okv" -s "$socket" --user app --key-file "$scratch/app.key" "$@"
}

ttl_of() {
    as_app exists -v "$1" | sed -n 's/^ttl //p'
}

# Users of Redis' clients in okv clients.
users_of_redis() {
    as_app clients --json | jq -r '.[] | select(.transport == "resp") | .user'
}

seen_by_okv() {
    mkfifo "$scratch/hold"
    cli <"$scratch/hold" >"$scratch/err" &
    local client=$!
    exec 9>"$scratch/hold"
    echo PING >&9
    until [ -n "$(users_of_redis)" ]; do sleep 0.01; done
    same "redis-cli in okv clients" "$(users_of_redis)" app
    exec 9>&-
    wait $client
}

# What one writes the other reads.
both_worlds() {
    cli SET from:redis hello PX 600000 >"$scratch/err"
    same "okv reads what redis-cli wrote" "$(as_app get from:redis)" hello
    same "and when it expires" "$(($(ttl_of from:redis) > 500000 && $(ttl_of from:redis) <= 600100))" 1
    cli PERSIST from:redis >"$scratch/err"
    same "and that it does not any more" "$(ttl_of from:redis)" none
    as_app put from:okv there --ttl 10m
    same "redis-cli reads what okv wrote" "$(cli GET from:okv)" there
    same "and when it expires, too" "$(($(cli PTTL from:okv) > 500000 && $(cli PTTL from:okv) <= 600100))" 1
    as_app touch from:okv none
    same "and that it stays" "$(cli TTL from:okv)" -1
    cli SET both 41 >"$scratch/err"
    same "okv counts on" "$(as_app incr both)" 42
    same "redis-cli counts on" "$(cli INCR both)" 43
    seen_by_okv
    same "the listener in okv stat" "$(as_app stat | sed -n 's/^listener_2 //p')" \
        "resp://127.0.0.1:$port for clients of Redis"
    same "clients of Redis in okv top" "$(as_app top --json -n 1 -i 10ms | jq 'has("redis_commands_per_s")')" true
    as_app put large - <"$scratch/large"
    same "a large value of okv" "$(cli GET large | head -c 1048576 | md5sum)" "$(md5sum <"$scratch/large")"
    same "a change by okv of a watched key" "$(
        { printf 'WATCH both\nGET both\n'; until grep -q 43 "$scratch/seen" 2>/dev/null; do sleep 0.01; done
            as_app put both 50; printf 'MULTI\nPING\nEXEC\n'; } | cli --no-raw | tee "$scratch/seen" | tail -n 1)" '(nil)'
}

hiredis() {
    has hiredis test -x "$build/tests/hiredis_client" || return 0
    passes hiredis "$build/tests/hiredis_client" "$port" app "$password"
}

redis_py() {
    local python=python3 name
    "$python" -c 'import redis' 2>/dev/null || python=/usr/bin/python3 # the one that Debian's package is for
    has redis-py "$python" -c 'import redis' || return 0
    passes redis-py "$python" "$here/python_client.py" "$port" app "$password"
    for name in redis django-redis dogpile.cache limits; do
        has "$name" "$python" -c "import ${name/-/_}" || continue
        passes "scripts of $name" timeout 300 "$python" "$here/python_scripts.py" $name "$port" app "$password"
    done
}

php_sessions() {
    has php php -r 'exit(!extension_loaded("redis"));' || return 0
    passes "sessions of PHP" timeout 300 php "$here/php_session.php" "$port" app "$password"
}

node_clients() {
    local name
    has node command -v node || return 0
    if [ ! -d "$build/resp-clients/node_modules/rate-limit-redis" ]; then
        has npm npm install --prefix "$build/resp-clients" --no-audit --no-fund ioredis@5 redis@5 redlock@4 \
            redis-semaphore@5 rate-limiter-flexible@5 rate-limit-redis@4 express-rate-limit@7 fastify@4 \
            @fastify/rate-limit@9 || return 0
    fi
    export NODE_PATH=$build/resp-clients/node_modules
    passes ioredis timeout 300 node "$here/node_client.js" ioredis "$port" app "$password" 2
    for protocol in 2 3; do
        passes "node-redis, RESP$protocol" timeout 300 node "$here/node_client.js" redis "$port" app "$password" $protocol
    done
    for name in ioredis redis redlock redis-semaphore rate-limiter-flexible rate-limit-redis @fastify/rate-limit; do
        passes "scripts of $name" timeout 300 node "$here/node_scripts.js" $name "$port" app "$password"
    done
}

# Warnings of the server that any user of this host may do everything at its address.
warnings() {
    grep -c "resp://127.0.0.1:$port: every user of this host can .* --users, .*resp:///PATH" "$scratch/log" || true
}

# Many connections with pipelines, each value checked.
load() {
    has kv-bench test -x "$build/bench/kv-bench" || return 0
    end_server TERM
    start_resp_server --memory 64M --workers 2
    same "a warning without users" "$(warnings)" 1
    passes "a load of many connections" "$build/bench/kv-bench" -s "redis://127.0.0.1:$port" --records 5K \
        --value-size trace:100K --mix get=70,put=20,insert=5,delete=5 --threads 2 --connections 20 --depth 8 \
        --operations 60K --warmup 0
    same "whose server kv-bench says it is" "$(grep -c ' of okv over ' "$scratch/err")" 1
}

# TLS, where the server was built with it.
tls() {
    local status=0
    has openssl command -v openssl || return 0
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$scratch/tls.key" -out "$scratch/tls.pem" -days 2 \
        -subj /CN=localhost 2>/dev/null
    end_server TERM
    scheme=resps start_resp_server --tls-cert "$scratch/tls.pem" --tls-key "$scratch/tls.key" --memory 64M
    secure() { redis-cli --tls --cacert "$scratch/tls.pem" --sni localhost -p "$port" "$@"; }
    same "SET over TLS" "$(secure -x SET large <"$scratch/large")" OK
    same "GET over TLS" "$(secure GET large | head -c 1048576 | md5sum)" "$(md5sum <"$scratch/large")"
    redis-cli -p "$port" PING >/dev/null 2>&1 || status=$?
    same "PING without TLS fails" "$((status != 0))" 1
    same "the server goes on" "$(secure PING)" PONG
    end_server TERM
    client_certificates
}

# A session is taken up again with its certificate.
client_certificates() {
    local shown=(-cert "$scratch/tls.pem" -key "$scratch/tls.key")
    scheme=resps start_resp_server --tls-cert "$scratch/tls.pem" --tls-key "$scratch/tls.key" \
        --tls-ca "$scratch/tls.pem" --memory 64M
    same "SET with a certificate" "$(secure --cert "$scratch/tls.pem" --key "$scratch/tls.key" SET a 1)" OK
    same "without one" "$(secure GET a 2>/dev/null)" ''
    same "a session again" "$(openssl s_client -connect "127.0.0.1:$port" -tls1_2 -reconnect "${shown[@]}" </dev/null 2>&1 |
        grep -c '^Reused')" 5
}

umask 077
"$okv" keygen "$scratch/app.key"
password=$("$okv" keygen --password "$scratch/app.key")
printf '[app]\nkey = %s\ndefault = read, write, admin\n' "$(cat "$scratch/app.key")" >"$scratch/users"
head -c 786432 /dev/urandom | base64 -w 0 >"$scratch/large" # 1 MiB, which ends with no newline
start_resp_server --users "$scratch/users" --memory 64M
same "no warning with users" "$(warnings)" 0
redis_cli
hiredis
redis_py
php_sessions
node_clients
load
tls
echo "clients: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
[ ${#absent[@]} -eq 0 ] || exit $((${OKV_TEST_REQUIRE_TOOLS:-0} ? 1 : 77))
