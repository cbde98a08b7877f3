#include "bench/targets/peer.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/targets/capability.h"
#include "bench/targets/peer_connect.h"
#include "shared/base/clock.h"

#define TIMEOUT_MS_DEFAULT 5000
#define OUTPUT_BYTES 65536
#define INPUT_BYTES 65536
/* How long a wait polls before it sleeps. */
#define SPIN_NS 100000

/* ---- opening ------------------------------------------------------------ */

int peer_open(struct peer *peer, const struct peer_protocol *protocol,
              const struct target_config *config, char *why, size_t why_size)
{
    uint32_t timeout_ms = config->timeout_ms ? config->timeout_ms : TIMEOUT_MS_DEFAULT;
    uint32_t slots = 1;

    while (slots < config->depth)
        slots *= 2;
    peer->protocol = protocol;
    peer->timeout_ns = (uint64_t)timeout_ms * 1000000u;
    peer->depth = config->depth > 0 ? config->depth : 1;
    peer->ring_mask = slots - 1;
    peer->ring = calloc(slots, sizeof *peer->ring);
    peer->output = malloc(OUTPUT_BYTES);
    peer->output_size = OUTPUT_BYTES;
    int rc = OKV_ENOMEM;
    if (!peer->ring || !peer->output) {
        snprintf(why, why_size, "%s", okv_strerror(rc));
        goto free_memory;
    }
    rc = protocol->wire->open(peer, config->uri, why, why_size);
    if (rc == OKV_OK)
        return OKV_OK;

free_memory:
    free(peer->output);
    free(peer->ring);
    return rc;
}

void peer_fini(struct peer *peer)
{
    peer->protocol->wire->close(peer);
    free(peer->output);
    free(peer->ring);
}

/* ---- operations under way ------------------------------------------------ */

static struct peer_operation *at_position(struct peer *peer, uint32_t position)
{
    return &peer->ring[position & peer->ring_mask];
}

struct peer_operation *peer_waiting(struct peer *peer)
{
    while (peer->answered != peer->pushed && at_position(peer, peer->answered)->ended)
        peer->answered++;
    return peer->answered != peer->pushed ? at_position(peer, peer->answered) : NULL;
}

void peer_end(struct peer *peer, struct peer_operation *operation, int status)
{
    operation->result.status = status;
    operation->ended = true;
    peer_waiting(peer);
}

int peer_deliver(struct peer_operation *operation, const char *value, size_t length)
{
    operation->result.length = length;
    if (length > operation->buffer_size)
        return OKV_ETOOSMALL;
    if (length > 0)
        memcpy(operation->buffer, value, length);
    return OKV_OK;
}

static bool is_write(uint32_t kind)
{
    return kind != OKV_GET && kind != OKV_HEAD && kind != OKV_PING;
}

int peer_fail(struct peer *peer, int code, const char *format, ...)
{
    struct peer_operation *operation;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(peer->why, sizeof peer->why, format, arguments);
    va_end(arguments);
    peer->code = code;
    while ((operation = peer_waiting(peer)))
        peer_end(peer, operation, is_write(operation->kind) ? OKV_EUNKNOWN : code);
    return code;
}

void peer_note(struct peer *peer, const char *words, size_t length)
{
    int used = snprintf(peer->why, sizeof peer->why, "%s refused: ", peer->path);
    size_t at = (size_t)used < sizeof peer->why ? (size_t)used : sizeof peer->why - 1;

    for (size_t i = 0; i < length && at + 1 < sizeof peer->why; i++)
        peer->why[at++] = words[i] >= ' ' && words[i] <= '~' ? words[i] : '?';
    peer->why[at] = '\0';
}

/* ---- bytes to and from the server ---------------------------------------- */

int peer_write(struct peer *peer, const void *bytes, size_t length)
{
    if (length > peer->output_size - peer->output_length) {
        size_t size = peer->output_size;
        while (size < peer->output_length + length)
            size *= 2;
        char *output = realloc(peer->output, size);
        if (!output)
            return OKV_ENOMEM;
        peer->output = output;
        peer->output_size = size;
    }
    memcpy(peer->output + peer->output_length, bytes, length);
    peer->output_length += length;
    return OKV_OK;
}

int peer_lose(struct peer *peer, int error)
{
    if (error == 0 || error == EPIPE || error == ECONNRESET)
        return peer_fail(peer, OKV_EDISCONNECTED, "%s at %s closed the connection",
                         peer->protocol->server, peer->path);
    return peer_fail(peer, OKV_EIO, "%s: %s", peer->path, strerror(error));
}

static int open_socket(struct peer *peer, const char *uri, char *why, size_t why_size)
{
    struct peer_address address = {.scheme = peer->protocol->scheme,
                                   .server = peer->protocol->server,
                                   .port = peer->protocol->port};

    peer->fd =
        peer_connect(&address, uri, &peer->is_unix, peer->path, sizeof peer->path, why, why_size);
    return peer->fd >= 0 ? OKV_OK : peer->fd;
}

static void close_socket(struct peer *peer)
{
    close(peer->fd);
}

static int send_socket(struct peer *peer)
{
    while (peer->output_sent < peer->output_length) {
        ssize_t sent = send(peer->fd, peer->output + peer->output_sent,
                            peer->output_length - peer->output_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            return OKV_OK;
        if (sent < 0 && errno != EINTR)
            return peer_lose(peer, errno);
        if (sent > 0)
            peer->output_sent += (size_t)sent;
    }
    peer->output_sent = 0;
    peer->output_length = 0;
    return OKV_OK;
}

static int receive_socket(struct peer *peer, bool *some)
{
    char input[INPUT_BYTES];
    ssize_t got;

    do {
        got = recv(peer->fd, input, sizeof input, 0);
        *some = got > 0;
        if (got == 0)
            return peer_lose(peer, 0);
        if (got < 0 && errno != EINTR)
            return errno == EAGAIN ? OKV_OK : peer_lose(peer, errno);
        int rc = got > 0 ? peer->protocol->decode(peer, input, (size_t)got) : OKV_OK;
        if (rc != OKV_OK)
            return rc;
        /* A partial read: no more bytes have come. */
    } while (got < 0 || got == (ssize_t)sizeof input);
    return OKV_OK;
}

const struct peer_wire peer_socket = {
    .open = open_socket, .close = close_socket, .send = send_socket, .receive = receive_socket};

/* Ends a target whose server has not answered in time. */
static int check_time(struct peer *peer)
{
    const struct peer_operation *operation = peer_waiting(peer);

    if (!operation || okv_clock_ns() - operation->since_ns <= peer->timeout_ns)
        return OKV_OK;
    return peer_fail(peer, OKV_ETIMEDOUT, "%s at %s did not answer within %llu ms",
                     peer->protocol->server, peer->path,
                     (unsigned long long)(peer->timeout_ns / 1000000u));
}

/* Sends and receives without blocking. Returns 0 or the target's failure. */
static int advance(struct peer *peer)
{
    bool some = false;

    if (peer->code != OKV_OK)
        return peer->code;
    int rc = peer->protocol->wire->send(peer);
    if (rc == OKV_OK)
        rc = peer->protocol->wire->receive(peer, &some);
    return rc == OKV_OK && !some ? check_time(peer) : rc;
}

/* ---- the functions of a target -------------------------------------------- */

static int check_command(const struct peer *peer, const struct okv_command *command)
{
    if (peer->code != OKV_OK)
        return peer->code;
    if (peer->pushed - peer->polled >= peer->depth)
        return OKV_EAGAIN;
    return capability_check(command);
}

static struct peer_operation *push(struct peer *peer, const struct okv_command *command,
                                   uint64_t now_ns)
{
    struct peer_operation *operation = at_position(peer, peer->pushed++);

    *operation = (struct peer_operation){.result = {.tag = command->tag},
                                         .since_ns = now_ns,
                                         .buffer = command->buffer,
                                         .buffer_size = command->buffer_size,
                                         .kind = command->kind};
    return operation;
}

int peer_submit(struct target *target, const struct okv_command *commands, size_t count,
                size_t *accepted)
{
    struct peer *peer = (struct peer *)target;
    uint64_t now_ns = okv_clock_ns();
    size_t taken = 0;
    int rc = OKV_OK;

    while (taken < count) {
        rc = check_command(peer, &commands[taken]);
        if (rc != OKV_OK)
            break;
        int encoded = peer->protocol->encode(peer, &commands[taken]);
        if (encoded == OKV_ENOMEM) {
            rc = encoded;
            break;
        }
        if (encoded == OKV_EUNSUPPORTED)
            capability_decline(peer->protocol->server, &commands[taken], peer->why,
                               sizeof peer->why);
        struct peer_operation *operation = push(peer, &commands[taken++], now_ns);
        if (encoded != OKV_OK)
            peer_end(peer, operation, encoded);
    }
    if (taken > 0)
        peer->protocol->wire->send(peer); /* its failure is in the results */
    if (accepted)
        *accepted = taken;
    return rc;
}

static int take_results(struct peer *peer, struct okv_result *results, int max)
{
    int count = 0;

    while (count < max && peer->polled != peer->answered)
        results[count++] = at_position(peer, peer->polled++)->result;
    return count;
}

int peer_poll(struct target *target, struct okv_result *results, int max)
{
    struct peer *peer = (struct peer *)target;

    if (peer->polled == peer->answered)
        advance(peer);
    int count = take_results(peer, results, max);
    return count > 0 ? count : peer->code;
}

static bool has_news(const struct peer *peer)
{
    return peer->polled != peer->answered || peer->code != OKV_OK;
}

int peer_wait(struct target *target, int timeout_ms)
{
    struct peer *peer = (struct peer *)target;
    uint64_t spin_until = 0;

    if (has_news(peer))
        return OKV_OK;
    bool spins = timeout_ms > 0 && peer->polled != peer->pushed;
    while (spins) {
        advance(peer);
        if (has_news(peer))
            return OKV_OK;
        uint64_t now_ns = okv_clock_ns();
        if (spin_until == 0)
            spin_until = now_ns + SPIN_NS;
        else if (now_ns > spin_until)
            break;
        sched_yield();
    }
    short output = peer->output_sent < peer->output_length ? POLLOUT : 0;
    struct pollfd event = {.fd = peer->fd, .events = (short)(POLLIN | output)};
    int left_ms = (int)(peer->timeout_ns / 1000000u) + 1;
    int ready = poll(&event, 1, timeout_ms < left_ms ? timeout_ms : left_ms);
    advance(peer);
    return ready > 0 || has_news(peer) ? OKV_OK : OKV_ETIMEDOUT;
}

int peer_get_many(struct target *target, const struct okv_command *commands,
                  struct okv_result *results, size_t count)
{
    struct peer *peer = (struct peer *)target;
    size_t submitted = 0;
    size_t ended = 0;

    if (peer->polled != peer->pushed)
        return OKV_EAGAIN;
    for (size_t i = 0; i < count; i++)
        if (commands[i].kind != OKV_GET && commands[i].kind != OKV_HEAD)
            return OKV_EINVAL;
    while (ended < count) {
        size_t taken = 0;
        int rc = peer_submit(target, commands + submitted, count - submitted, &taken);
        submitted += taken;
        if (rc != OKV_OK && rc != OKV_EAGAIN && ended == submitted)
            return rc;
        /* The server answers in order, so the first have ended. */
        int got = peer_poll(target, results + ended, (int)(submitted - ended));
        if (got < 0)
            return got;
        if (got == 0)
            peer_wait(target, (int)(peer->timeout_ns / 1000000u));
        ended += (size_t)got;
    }
    return OKV_OK;
}

const char *peer_why(struct target *target)
{
    return ((struct peer *)target)->why;
}

int peer_ask(struct peer *peer, const void *request, size_t request_length, char *buffer,
             size_t size, size_t *length)
{
    struct okv_command command = {.kind = OKV_GET, .buffer = buffer, .buffer_size = size};
    struct okv_result result;
    int count = 0;

    if (peer->code != OKV_OK)
        return peer->code;
    if (peer->polled != peer->pushed)
        return OKV_EAGAIN;
    int rc = peer_write(peer, request, request_length);
    if (rc != OKV_OK)
        return rc;
    push(peer, &command, okv_clock_ns());
    while ((count = peer_poll(&peer->target, &result, 1)) == 0)
        peer_wait(&peer->target, 100);
    if (count < 0)
        return count;
    *length = result.length;
    return result.status;
}

double peer_figure(const char *text, const char *name, char separator)
{
    size_t length = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == separator)
            return strtod(line + length + 1, NULL);
    }
    return NAN;
}
