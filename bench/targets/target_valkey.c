/*
 * valkey-server over RDMA: Redis's protocol, carried by libvalkey.
 *
 * Both sides WRITE with immediate data into the receiver's buffer. libvalkey sends without waiting
 * for a completion. It learns of received data by the completion channel, behind an epoll
 * descriptor that peer_wait() polls like a socket. Its read functions block, so this file calls
 * them only when data has come and an answer is under way. Bytes are parsed in place.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valkey/rdma.h>
#include <valkey/valkey.h>

#include "bench/targets/peer_connect.h"
#include "bench/targets/target_redis.h"

#define CONNECT_TIMEOUT_S 3

/* ---- bytes to and from the server ------------------------------------------ */

static void register_rdma(void)
{
    valkeyInitiateRdma();
}

/* libvalkey may report error 0 without a connection. */
static int complain(const struct peer *peer, const valkeyContext *context, char *why,
                    size_t why_size)
{
    if (context->err == VALKEY_ERR_OOM) {
        snprintf(why, why_size, "%s", okv_strerror(OKV_ENOMEM));
        return OKV_ENOMEM;
    }
    if (context->err != 0) {
        snprintf(why, why_size,
                 "cannot connect to %s: %s: see that both hosts have an RDMA device with an "
                 "address and that this one is right",
                 peer->path, context->errstr);
        return OKV_EADDRESS;
    }
    snprintf(why, why_size,
             "no valkey-server listens over RDMA at %s: start one there with --loadmodule "
             "valkey-rdma.so bind=ADDRESS port=PORT",
             peer->path);
    return OKV_EREFUSED;
}

static int connect_rdma(struct peer *peer, const char *host, const char *port, char *why,
                        size_t why_size)
{
    static pthread_once_t registered = PTHREAD_ONCE_INIT;
    const struct timeval connect_timeout = {.tv_sec = CONNECT_TIMEOUT_S};
    const struct timeval timeout = {.tv_sec = (time_t)(peer->timeout_ns / 1000000000u),
                                    .tv_usec =
                                        (suseconds_t)(peer->timeout_ns % 1000000000u / 1000u)};
    valkeyOptions options = {.connect_timeout = &connect_timeout, .command_timeout = &timeout};

    pthread_once(&registered, register_rdma);
    VALKEY_OPTIONS_SET_RDMA(&options, host, (int)strtol(port, NULL, 10));
    valkeyContext *context = valkeyConnectWithOptions(&options);
    if (!context) {
        snprintf(why, why_size, "%s", okv_strerror(OKV_ENOMEM));
        return OKV_ENOMEM;
    }
    if (context->err != 0 || !(context->flags & VALKEY_CONNECTED)) {
        int rc = complain(peer, context, why, why_size);
        valkeyFree(context);
        return rc;
    }
    peer->line = context;
    peer->fd = context->fd;
    return OKV_OK;
}

static int open_rdma(struct peer *peer, const char *uri, char *why, size_t why_size)
{
    const char *rest = strstr(uri, "://") + 3;
    const char *host = NULL;
    const char *port = peer->protocol->port;
    char text[256];

    if ((size_t)snprintf(text, sizeof text, "%s", rest) >= sizeof text || strpbrk(text, "/?") ||
        peer_split_host(text, &host, &port) != OKV_OK) {
        snprintf(why, why_size, "\"%.200s\" names no server: give %s://HOST[:PORT]", uri,
                 peer->protocol->scheme);
        return OKV_EURI;
    }
    snprintf(peer->path, sizeof peer->path, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    return connect_rdma(peer, host, port, why, why_size);
}

static void close_rdma(struct peer *peer)
{
    valkeyFree(peer->line);
}

static int lose_rdma(struct peer *peer)
{
    const valkeyContext *context = peer->line;

    if (context->err == VALKEY_ERR_EOF)
        return peer_lose(peer, 0);
    return peer_fail(peer, OKV_EIO, "%s: libvalkey: %s", peer->path,
                     context->err != 0 ? context->errstr : "the connection failed");
}

/* Sends everything: libvalkey waits for room in the server's buffer. */
static int send_rdma(struct peer *peer)
{
    valkeyContext *context = peer->line;
    int done = 0;

    if (peer->output_length == 0)
        return OKV_OK;
    if (valkeyAppendFormattedCommand(context, peer->output, peer->output_length) != VALKEY_OK)
        return lose_rdma(peer);
    peer->output_length = 0;
    while (!done)
        if (valkeyBufferWrite(context, &done) != VALKEY_OK)
            return lose_rdma(peer);
    return OKV_OK;
}

static int receive_rdma(struct peer *peer, bool *some)
{
    valkeyContext *context = peer->line;
    struct pollfd event = {.fd = peer->fd, .events = POLLIN};
    char *bytes = NULL;

    *some = false;
    if (!peer_waiting(peer) || poll(&event, 1, 0) <= 0)
        return OKV_OK;
    ssize_t got = context->funcs->read_zc(context, &bytes);
    if (got < 0)
        return lose_rdma(peer);
    *some = got > 0;
    int rc = got > 0 ? peer->protocol->decode(peer, bytes, (size_t)got) : OKV_OK;
    if (context->funcs->read_zc_done(context) != VALKEY_OK && rc == OKV_OK)
        rc = lose_rdma(peer);
    return rc;
}

static const struct peer_wire rdma_wire = {
    .open = open_rdma, .close = close_rdma, .send = send_rdma, .receive = receive_rdma};

/* ---- the target ------------------------------------------------------------ */

static const struct peer_protocol valkey_protocol = {.scheme = "valkey+rdma",
                                                     .server = "valkey-server",
                                                     .port = "6379",
                                                     .wire = &rdma_wire,
                                                     .encode = redis_target_encode,
                                                     .decode = redis_target_decode};

static int valkey_open(const struct target_config *config, struct target **out, char *why,
                       size_t why_size)
{
    return redis_target_open(&target_valkey_ops, &valkey_protocol, config, out, why, why_size);
}

static void valkey_info(struct target *target, struct target_info *info)
{
    redis_target_info(target, info);
    info->kind = "valkey";
    info->transport = "rdma";
}

const struct target_ops target_valkey_ops = {.open = valkey_open,
                                             .close = redis_target_close,
                                             .info = valkey_info,
                                             .submit = peer_submit,
                                             .poll = peer_poll,
                                             .wait = peer_wait,
                                             .get_many = peer_get_many,
                                             .why = peer_why,
                                             .stat = redis_target_stat};
