#include "server/resp/net/transfer.h"

#include <string.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/run/upload.h"
#include "server/store/status.h"
#include "shared/base/clock.h"

/* Bytes that are read at once. */
#define READ_SIZE (64u << 10)
/* Bytes of a long value that are read before other clients are served: they are copied and hashed.
 */
#define UPLOAD_STEP (OKV_TURN_WORK / 2)

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

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Sends as much as the client takes. Returns how much; -1: the connection has ended. */
static ssize_t send_some(struct okv_resp_client *client, const uint8_t *bytes, size_t length)
{
    size_t most = least(length, OKV_TURN_WORK), sent = 0;
    ssize_t n = 0;

    while (sent < most && (n = okv_stream_write(&client->stream, bytes + sent, most - sent)) > 0)
        sent += (size_t)n;
    client->takes_more = sent == most && most < length;
    okv_turn_spend(&client->resp->turn, sent);
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
    ssize_t n =
        send_some(client, download->bytes + download->sent, download->length - download->sent);

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
    struct okv_resp_buffer *out = &client->out;
    size_t dropped = client->sent;

    if (client->sent == 0 || client->sent < out->used - client->sent)
        return;
    if (client->sent == out->used && client->has_secrets)
        explicit_bzero(out->bytes, out->used);
    client->has_secrets = client->has_secrets && client->sent < out->used;
    if (client->sent == out->used)
        out->used = 0;
    else
        dropped = okv_resp_buffer_drop(out, client->sent, &client->resp->trash);
    client->commit.from -= client->commit.batch ? dropped : 0;
    client->sent -= dropped;
}

/* The client connected after this server lost the database, so no reply shows its items. */
static bool was_never_led(const struct okv_resp_client *client, const struct okv_store *store)
{
    const struct okv_server *server = client->resp->server;

    return atomic_load(&store->valid_until_us) == 0 &&
           client->common.epoch > atomic_load(&server->role_changes);
}

/* Replies tell of any database that the client selected. */
static bool do_leases_hold(const struct okv_resp_client *client)
{
    const struct okv_server *server = client->resp->server;

    for (unsigned i = 0; i < server->database_count; i++) {
        const struct okv_store *store = &server->databases[i].store;
        if (!okv_store_lease_holds(store) && !was_never_led(client, store))
            return false;
    }
    return true;
}

bool okv_resp_send(struct okv_resp_client *client)
{
    client->is_held = okv_resp_has_replies(client) && !do_leases_hold(client);
    if (client->is_held)
        return true;
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
        okv_turn_spend(&client->resp->turn, (uint64_t)n);
        if (client->upload || !okv_resp_has_replies(client))
            note_progress(client, (size_t)n); /* requests are no replies taken */
        OKV_STATS_ADD(&client->resp->server->stats, bytes_in, (uint64_t)n);
        OKV_STATS_ADD(&client->common, bytes_in, (uint64_t)n);
    }
    return n;
}

bool okv_resp_move_to_upload(struct okv_resp_client *client)
{
    struct okv_resp_buffer *in = &client->in;
    size_t first = client->at + client->parser.position, from = first, room = 0;
    size_t end = least(in->used, first + UPLOAD_STEP);
    uint8_t *to;

    while ((to = okv_resp_upload_room(client, &room)) && from < end) {
        size_t length = least(end - from, room);
        memcpy(to, in->bytes + from, length);
        okv_resp_upload_add(client, length);
        from += length;
    }
    okv_turn_spend(&client->resp->turn, from - first);
    /* The head of the request moves, which is short, and not what follows. */
    memmove(in->bytes + client->at + from - first, in->bytes + client->at, first - client->at);
    client->at += from - first;
    return to && in->used > from;
}

bool okv_resp_receive(struct okv_resp_client *client)
{
    size_t needed = client->at + client->parser.needed;
    size_t room = READ_SIZE;
    uint8_t *to = okv_resp_upload_room(client, &room);
    ssize_t n;

    if (to) {
        n = receive_to(client, to, least(room, UPLOAD_STEP));
        if (n > 0)
            okv_resp_upload_add(client, (size_t)n);
        return n >= 0;
    }
    /* A long argument in few reads, but no more memory for it than for what has come. */
    if (needed > client->in.used + room) {
        size_t missing = needed - client->in.used;
        room = client->in.used > room ? client->in.used : room;
        room = least(least(missing, room), OKV_TURN_WORK);
    }
    to = okv_resp_buffer_room(&client->in, room);
    n = to ? receive_to(client, to, room) : -1;
    if (n > 0)
        client->in.used += (size_t)n;
    return n >= 0;
}
