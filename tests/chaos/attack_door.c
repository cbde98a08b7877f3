/* Attacks by who has no key, or not the right one. */
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/format/wire.h"
#include "tests/chaos/attack.h"
#include "tests/support/connect_blocking.h"
#include "tests/support/pace.h"
#include "tests/support/prover.h"

#define SILENT 512
#define PROOFS_EVERY_NS UINT64_C(1000000)
#define PROOFS_LATE_NS UINT64_C(100000000) /* that are made up for */

/* ---- connections that say nothing ---- */

static int connect_path(const char *path, int type)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (sock < 0 || connect(sock, (const struct sockaddr *)&address, sizeof address) == 0)
        return sock;
    close(sock);
    return -1;
}

/* A stranger is on another host than the honest clients: a server that has too many silent
 * connections turns those of one address away first. */
static void leave_honest_address(int sock, const struct sockaddr *server)
{
    const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)server;
    const struct sockaddr_in own = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};

    if (server->sa_family == AF_INET && ntohl(ipv4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET)
        (void)bind(sock, (const struct sockaddr *)&own, sizeof own);
}

/* A TCP connect waits for its end. */
static int connect_tcp(const struct okv_uri *uri)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int sock = -1;

    if (getaddrinfo(uri->host, uri->port, &hints, &found))
        return -1;
    sock = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock >= 0)
        leave_honest_address(sock, found->ai_addr);
    if (sock >= 0 && connect(sock, found->ai_addr, found->ai_addrlen)) {
        close(sock);
        sock = -1;
    }
    freeaddrinfo(found);
    return sock;
}

int attacker_connect(const struct attacker *attacker)
{
    return attacker->uri.scheme == OKV_SCHEME_LOCAL
               ? connect_path(attacker->uri.path, SOCK_SEQPACKET)
               : connect_tcp(&attacker->uri);
}

int attacker_connect_resp(const struct attacker *attacker)
{
    return connect_path(attacker->resp_path, SOCK_STREAM);
}

int attacker_connect_resps(const struct attacker *attacker)
{
    return connect_tcp(&attacker->resps);
}

/* The newest SILENT connections stay open. */
static void hold_silent(struct attacker *attacker, int (*connect_to)(const struct attacker *))
{
    int socks[SILENT];

    for (unsigned i = 0; i < SILENT; i++)
        socks[i] = -1;
    for (unsigned i = 0;; i = (i + 1) % SILENT) {
        if (socks[i] >= 0)
            close(socks[i]);
        socks[i] = connect_to(attacker);
        if (socks[i] < 0)
            attacker_turned_away(attacker);
        else
            attacker_count(attacker, false);
    }
}

void attack_silent(struct attacker *attacker)
{
    hold_silent(attacker, attacker_connect);
}

/* More than --max-silent. */
void attack_resp_silent(struct attacker *attacker)
{
    hold_silent(attacker, attacker_connect_resp);
}

/* ---- hellos ---- */

/* Says hello; `prover` NULL: takes the challenge and leaves. */
static int say_hello(const struct attacker *attacker, struct prover *prover)
{
    struct okv_hello hello = {.slot_size = OKV_SLOT_SIZE_DEFAULT,
                              .credits = 1,
                              .database = okv_database_id(ATTACK_DATABASE)};
    const struct okv_transport_ops *ops = okv_transport_for(attacker->uri.scheme);
    struct okv_wire_hello first;
    struct okv_answer answer;
    struct okv_conn *conn;
    struct okv_diag diag;

    if (getrandom(hello.client_id, sizeof hello.client_id, 0) < 0)
        return OKV_EIO;
    okv_hello_encode(&hello, &first);
    if (prover)
        prover->sent = first;
    const struct okv_connect_params params = {
        .hello = (const uint8_t *)&first,
        .hello_length = sizeof first,
        .next_hello = prover ? prover_next_hello : NULL,
        .user = prover,
        .limits = {.slot_size = OKV_SLOT_SIZE_DEFAULT, .credits = 1},
        .deadline_ns = pace_guard_end(),
    };
    int status = connect_blocking(ops, &attacker->uri, &params, &answer, &conn, &diag);
    if (status == 0)
        ops->conn_destroy(conn);
    return status == OKV_EREFUSED && answer.rejected ? OKV_EDENIED : status;
}

void attack_challenges(struct attacker *attacker)
{
    for (;;) {
        if (say_hello(attacker, NULL) == OKV_EDENIED)
            attacker_count(attacker, false);
        else
            attacker_turned_away(attacker);
    }
}

void attack_proofs(struct attacker *attacker)
{
    uint64_t due = okv_clock_ns();

    for (;;) {
        struct prover prover = {.user = ATTACK_USER, .key = attacker->wrong};
        attacker_count(attacker, say_hello(attacker, &prover) != OKV_EDENIED);
        uint64_t now = okv_clock_ns();
        due += PROOFS_EVERY_NS;
        if (due + PROOFS_LATE_NS < now)
            due = now;
        if (due > now)
            nanosleep(&(struct timespec){0, (long)(due - now)}, NULL);
    }
}
