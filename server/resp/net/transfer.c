#include "server/resp/net/transfer.h"

#include <string.h>

#include "server/core/server.h"
#include "shared/base/clock.h"

/* Bytes that are read at once. */
#define READ_SIZE (64u << 10)
/* Bytes of a long value that are sent or read before other clients are served. */
#define LONG_VALUE_STEP (256u << 10)

bool okv_resp_has_replies(const struct okv_resp_client *client)
{
    return client->out.used > client->sent || client->download.length > 0;
}

bool okv_resp_is_transferring(const struct okv_resp_client *client)
{
    bool has_begun = client->in.used > client->at && client->in.capacity > OKV_RESP_SMALL_REST;

    return client->upload || okv_resp_has_replies(client) || has_begun;
}

/* A trickle is no progress: it would hold memory for long. */
static void note_progress(struct okv_resp_client *client, size_t bytes)
{
    client->progress_bytes += bytes;
    if (okv_resp_is_transferring(client) && client->progress_bytes < OKV_RESP_PROGRESS_MIN)
        return;
    client->progress_bytes = 0;
    client->progress_ns = okv_clock_ns();
}

/* Sends as much as the client takes. Returns how much; -1: the connection has ended. */
static ssize_t send_some(struct okv_resp_client *client, const uint8_t *bytes, size_t length)
{
    size_t sent = 0;
    ssize_t n = 0;

    while (sent < length &&
           (n = okv_stream_write(&client->stream, bytes + sent, length - sent)) > 0)
        sent += (size_t)n;
    if (sent)
        note_progress(client, sent);
    OKV_STATS_ADD(&client->resp->server->stats, bytes_out, sent);
    OKV_STATS_ADD(&client->common, bytes_out, sent);
    return n < 0 ? -1 : (ssize_t)sent;
}

/* Sends a part of the long value that follows the replies, and its CR LF. */
static bool flush_download(struct okv_resp_client *client)
{
    struct okv_resp_download *download = &client->download;
    uint32_t left = download->length - download->sent;
    ssize_t n = send_some(client, download->bytes + download->sent,
                          left < LONG_VALUE_STEP ? left : LONG_VALUE_STEP);

    if (n < 0)
        return false;
    download->sent += (uint32_t)n;
    if (download->sent == download->length) {
        okv_resp_download_end(client);
        okv_resp_buffer_add(&client->out, "\r\n", 2);
    }
    return true;
}

/* What was sent leaves the buffer when it is the larger part, so that a client that always has
 * replies to take does not make it grow. */
static void drop_sent(struct okv_resp_client *client)
{
    if (client->sent == 0 || client->sent < client->out.used - client->sent)
        return;
    okv_resp_buffer_drop(&client->out, client->sent);
    client->commit.from -= client->commit.batch ? client->sent : 0;
    client->sent = 0;
}

bool okv_resp_send(struct okv_resp_client *client)
{
    struct okv_resp_buffer *out = &client->out;
    size_t end = client->commit.batch ? client->commit.from : out->used;
    ssize_t n = 0;

    if (end > client->sent)
        n = send_some(client, out->bytes + client->sent, end - client->sent);
    if (n < 0)
        return false;
    client->sent += (size_t)n;
    drop_sent(client);
    if (client->sent < out->used || client->commit.batch)
        return true;
    if (client->download.length == 0)
        return true;
    if (!flush_download(client))
        return false;
    return client->download.length > 0 || okv_resp_send(client);
}

static ssize_t receive_to(struct okv_resp_client *client, uint8_t *to, size_t room)
{
    ssize_t n = okv_stream_read(&client->stream, to, room);

    if (n > 0) {
        if (client->upload || !okv_resp_has_replies(client))
            note_progress(client, (size_t)n); /* requests are no replies taken */
        OKV_STATS_ADD(&client->resp->server->stats, bytes_in, (uint64_t)n);
        OKV_STATS_ADD(&client->common, bytes_in, (uint64_t)n);
    }
    return n;
}

void okv_resp_move_to_upload(struct okv_resp_client *client)
{
    struct okv_resp_buffer *in = &client->in;
    size_t first = client->at + client->parser.position, from = first, room;
    uint8_t *to;

    while (in->used > from && (to = okv_resp_upload_room(client, &room))) {
        size_t length = in->used - from < room ? in->used - from : room;
        memcpy(to, in->bytes + from, length);
        okv_resp_upload_add(client, length);
        from += length;
    }
    /* The head of the request moves, which is short, and not what follows. */
    memmove(in->bytes + client->at + from - first, in->bytes + client->at, first - client->at);
    client->at += from - first;
}

bool okv_resp_receive(struct okv_resp_client *client)
{
    size_t needed = client->at + client->parser.needed;
    size_t room = READ_SIZE;
    uint8_t *to = okv_resp_upload_room(client, &room);
    ssize_t n;

    if (to) {
        n = receive_to(client, to, room < LONG_VALUE_STEP ? room : LONG_VALUE_STEP);
        if (n > 0)
            okv_resp_upload_add(client, (size_t)n);
        return n >= 0;
    }
    /* A long argument in few reads, but no more memory for it than for what has come. */
    if (needed > client->in.used + room) {
        size_t missing = needed - client->in.used;
        room = client->in.used > room ? client->in.used : room;
        room = missing < room ? missing : room;
    }
    to = okv_resp_buffer_room(&client->in, room);
    n = to ? receive_to(client, to, room) : -1;
    if (n > 0)
        client->in.used += (size_t)n;
    return n >= 0;
}
