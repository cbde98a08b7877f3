#include "tests/support/resp_peer.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"

#define AGAIN_US 1000
#define READ_SIZE 65536u

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

bool resp_peer_open(struct resp_peer *peer, const char *path)
{
    uint64_t guard = pace_guard_end();

    *peer = (struct resp_peer){.fd = -1};
    while ((peer->fd = connect_to(path)) < 0 && okv_clock_ns() < guard)
        usleep(AGAIN_US);
    return peer->fd >= 0;
}

void resp_peer_close(struct resp_peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    free(peer->out);
    free(peer->in);
    *peer = (struct resp_peer){.fd = -1};
}

/* ---- requests ---- */

static uint8_t *room_for(uint8_t **bytes, size_t used, size_t *capacity, size_t more)
{
    if (used + more > *capacity) {
        *capacity = 2 * (used + more);
        *bytes = realloc(*bytes, *capacity);
        assert_non_null(*bytes);
    }
    return *bytes + used;
}

static void add(struct resp_peer *peer, const void *bytes, size_t length)
{
    memcpy(room_for(&peer->out, peer->out_used, &peer->out_capacity, length), bytes, length);
    peer->out_used += length;
}

void resp_peer_add(struct resp_peer *peer, const struct resp_word *words, unsigned count)
{
    char head[32];

    add(peer, head, (size_t)snprintf(head, sizeof head, "*%u\r\n", count));
    for (unsigned i = 0; i < count; i++) {
        add(peer, head, (size_t)snprintf(head, sizeof head, "$%zu\r\n", words[i].length));
        add(peer, words[i].bytes, words[i].length);
        add(peer, "\r\n", 2);
    }
}

bool resp_peer_flush(struct resp_peer *peer)
{
    size_t sent = 0;

    while (sent < peer->out_used) {
        ssize_t n = send(peer->fd, peer->out + sent, peer->out_used - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        sent += (size_t)n;
    }
    peer->out_used = 0;
    return true;
}

/* ---- replies ---- */

static bool receive(struct resp_peer *peer)
{
    uint8_t *room;
    ssize_t n;

    if (peer->in_at == peer->in_used)
        peer->in_at = peer->in_used = 0;
    room = room_for(&peer->in, peer->in_used, &peer->in_capacity, READ_SIZE);
    do
        n = recv(peer->fd, room, READ_SIZE, 0);
    while (n < 0 && errno == EINTR);
    peer->in_used += n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* Has so many bytes from peer->in_at on. */
static bool await(struct resp_peer *peer, size_t length)
{
    while (peer->in_used - peer->in_at < length)
        if (!receive(peer))
            return false;
    return true;
}

/* A line without its end; its bytes are taken. */
static bool read_line(struct resp_peer *peer, const char **line, size_t *length)
{
    size_t at = 0;

    do {
        if (!await(peer, at + 2))
            return false;
    } while (memcmp(peer->in + peer->in_at + at++, "\r\n", 2) != 0);
    *line = (const char *)peer->in + peer->in_at;
    *length = at - 1;
    peer->in_at += at + 1;
    return true;
}

bool resp_peer_read(struct resp_peer *peer, struct resp_answer *answer)
{
    const char *line;
    size_t length;

    if (!read_line(peer, &line, &length) || length == 0)
        return false;
    *answer = (struct resp_answer){.type = line[0], .bytes = line + 1, .length = length - 1};
    if (answer->type == '+' || answer->type == '-')
        return true;
    if (!strchr(":*$", answer->type))
        return false;
    answer->number = strtoll(line + 1, NULL, 10);
    if (answer->type != '$' || answer->number < 0)
        return true;
    if (!await(peer, (size_t)answer->number + 2))
        return false;
    answer->bytes = (const char *)peer->in + peer->in_at;
    answer->length = (size_t)answer->number;
    peer->in_at += answer->length + 2;
    return true;
}

bool resp_peer_call(struct resp_peer *peer, const struct resp_word *words, unsigned count,
                    struct resp_answer *answer)
{
    resp_peer_add(peer, words, count);
    return resp_peer_flush(peer) && resp_peer_read(peer, answer);
}
