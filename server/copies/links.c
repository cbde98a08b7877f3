#include "server/copies/links.h"

#include <poll.h>
#include <stdlib.h>

#include "server/cluster/message.h"
#include "server/copies/letter.h"
#include "server/copies/servers.h"
#include "server/copies/snapshot.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/peers/link.h"
#include "server/wal/copies/copies.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/transport.h"

/* Before a lost one is opened again. */
#define AGAIN_US 100000
#define REFUSED_US 5000000
#define OPEN_NS UINT64_C(2000000000)
/* Without an answer: beats while a copy is silent, and the parts of a long frame. */
#define MESSAGES_MAX 128

/* ---- what a link says ---- */

static void tell(struct okv_copy_link *link, enum okv_protocol_event_type type)
{
    const struct okv_protocol_event event = {.type = type, .server = link->server};

    okv_copy_tell(link->copy, &event);
}

static void opened(void *context)
{
    struct okv_copy_link *link = context;

    link->is_open = true;
    tell(link, OKV_EVENT_CONNECTED);
}

static void note_failure(struct okv_copy_link *link, const char *why)
{
    struct okv_copy *copy = link->copy;

    if (!link->has_failed)
        okv_log_say(&copy->copies->server->log, OKV_LOG_WARNING, "cluster",
                    "database %s: no connection to the copy of server %016llx: %s",
                    copy->database->config->name, (unsigned long long)link->server, why);
    link->has_failed = true;
}

static void answered(void *context, uint64_t cookie, int status, const uint8_t *bytes,
                     uint32_t length)
{
    struct okv_copy_link *link = context;
    struct okv_peer_letter letter;

    if (cookie == OKV_PEER_PIECE && status == 0) {
        okv_snapshot_note_loaded(link);
        return;
    }
    if (status == 0 && cookie == OKV_LETTER_PART)
        okv_protocol_progressed(&link->copy->protocol, link->server, okv_clock_lease_us());
    if (status == 0 && length == 0)
        return;
    if (status || okv_peer_letter_decode(bytes, length, &letter)) {
        link->is_refused = cookie == OKV_PEER_JOIN && status == OKV_EINVAL;
        note_failure(link, link->is_refused ? "it has other options or users: see its log"
                                            : okv_error_text(status));
        link->is_lost = true; /* a message that was not received leaves a gap */
        return;
    }
    link->has_failed = link->is_refused = false;
    const struct okv_protocol_event event = {
        .type = OKV_EVENT_MESSAGE, .server = link->server, .message = letter.message};
    okv_copy_tell(link->copy, &event);
}

static void lost(void *context, int status, const char *why)
{
    struct okv_copy_link *link = context;

    note_failure(link, why);
    link->is_refused = status == OKV_EDENIED;
    link->is_lost = true;
}

static const struct okv_link_calls calls = {opened, answered, lost};

/* ---- their life ---- */

static void close_link(struct okv_copy_link *link)
{
    bool was_open = link->is_open;

    okv_link_close(link->link);
    okv_snapshot_end_sending(link);
    okv_letter_drop(link);
    link->link = NULL;
    link->is_open = link->is_lost = false;
    link->again_us = okv_clock_lease_us() + (link->is_refused ? REFUSED_US : AGAIN_US);
    if (was_open && link->copy->is_leading)
        tell(link, OKV_EVENT_LOST);
}

static void open_link(struct okv_copy_link *link)
{
    struct okv_copy *copy = link->copy;
    struct okv_copies *copies = copy->copies;
    struct okv_server *server = copies->server;
    struct okv_diag why = {.text = ""};
    const struct okv_link_params params = {
        .uri = &link->uri,
        .database = copy->database->config->name,
        .client_id = copies->client_id,
        .user = copies->key ? server->config.cluster.peer_user : NULL,
        .key = copies->key,
        .messages_max = MESSAGES_MAX,
        .timeout_ns = OPEN_NS,
        .calls = &calls,
        .context = link,
    };
    int rc = okv_servers_find(copies, link->server, &link->uri)
                 ? okv_link_open(&params, &link->link, &why)
                 : okv_diag_set(&why, OKV_ENOTFOUND, "it has not said where it is reached");

    if (rc) {
        note_failure(link, why.text[0] ? why.text : okv_error_text(rc));
        link->again_us = okv_clock_lease_us() + AGAIN_US;
    }
}

static bool is_wanted(const struct okv_copy *copy, uint64_t server)
{
    return copy->is_leading && server != copy->copies->id &&
           (okv_key_wants(&copy->protocol.key, server) ||
            okv_key_has_server(&copy->protocol.key, server));
}

static struct okv_copy_link *find(struct okv_copy *copy, uint64_t server)
{
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++)
        if (copy->links[i].server == server)
            return &copy->links[i];
    return NULL;
}

static void enter(struct okv_copy *copy, uint64_t server)
{
    struct okv_copy_link *link = find(copy, server) ? NULL : find(copy, 0);

    if (link && is_wanted(copy, server))
        *link = (struct okv_copy_link){.copy = copy, .server = server};
}

static void enter_all(struct okv_copy *copy)
{
    const struct okv_shard_key *key = &copy->protocol.key;

    for (unsigned i = 0; i < key->wanted_count; i++)
        enter(copy, key->wanted[i]);
    for (unsigned i = 0; i < key->isr_count; i++)
        enter(copy, key->isr[i].server);
}

static void run_link(struct okv_copy_link *link)
{
    struct okv_link_wait wait = okv_link_run(link->link);

    link->fd = wait.fd;
    link->wake_ns = wait.wake_ns;
}

static void continue_sending(struct okv_copy_link *link)
{
    int rc = okv_letter_continue(link);

    link->is_lost = rc != 0;
    if (rc)
        note_failure(link, okv_error_text(rc));
    else
        okv_snapshot_continue_sending(link);
}

/* What was sent before this copy stopped to lead still arrives: the link is kept for a while. */
static void run(struct okv_copy_link *link, uint64_t now_us)
{
    bool is_needed = is_wanted(link->copy, link->server);

    if (is_needed)
        link->until_us = now_us + link->copy->protocol.options.lease_us;
    if (!link->link && is_needed && now_us >= link->again_us)
        open_link(link);
    if (link->link)
        run_link(link);
    if (link->is_open && !link->is_lost)
        continue_sending(link);
    if (link->link && (link->is_lost || now_us > link->until_us))
        close_link(link);
    if (!link->link && !is_needed)
        link->server = 0;
}

void okv_links_run(struct okv_copy *copy, uint64_t now_us)
{
    if (copy->is_leading)
        enter_all(copy);
    copy->needed = UINT64_MAX;
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++)
        if (copy->links[i].server != 0)
            run(&copy->links[i], now_us);
    okv_wal_copies_pin(copy->database->wal, copy->needed);
}

void okv_links_close(struct okv_copy *copy)
{
    copy->is_leading = false;
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++) {
        if (copy->links[i].server != 0)
            close_link(&copy->links[i]);
        copy->links[i].server = 0;
    }
}

void okv_links_wait(const struct okv_copy *copy, struct pollfd *fds, unsigned *count,
                    uint64_t *wake_ns)
{
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++) {
        const struct okv_copy_link *link = &copy->links[i];
        if (link->server == 0 || !link->link)
            continue;
        if (link->fd >= 0)
            fds[(*count)++] = (struct pollfd){.fd = link->fd, .events = POLLIN};
        if (link->wake_ns < *wake_ns)
            *wake_ns = link->wake_ns;
    }
}

void okv_links_send_snapshot(struct okv_copy *copy, uint64_t server)
{
    struct okv_copy_link *link = find(copy, server);

    if (link && link->is_open)
        okv_snapshot_begin_sending(link);
}

/* ---- messages ---- */

/* Frames of this batch, or as many as one request takes of those that the copy lacks: one at
 * least, which may take several. */
static int read_frames(struct okv_copies *copies, struct okv_wal *wal,
                       const struct okv_peer_message *ship, size_t *used)
{
    size_t room =
        copies->ship_size < OKV_COPIES_SHIP_BYTES ? copies->ship_size : OKV_COPIES_SHIP_BYTES;
    int rc = okv_wal_copies_read(wal, ship->from, ship->to, copies->ship, room, used);

    if (rc != OKV_EVALUESIZE)
        return rc;
    size_t size = *used > OKV_COPIES_SHIP_BYTES ? *used : OKV_COPIES_SHIP_BYTES;
    uint8_t *larger = size > copies->ship_size ? realloc(copies->ship, size) : copies->ship;
    if (!larger)
        return OKV_ENOMEM;
    copies->ship = larger;
    copies->ship_size = size > copies->ship_size ? size : copies->ship_size;
    return okv_wal_copies_read(wal, ship->from, ship->to, copies->ship, size, used);
}

static int send_frames(struct okv_copy_link *link, const struct okv_peer_message *message)
{
    struct okv_copy *copy = link->copy;
    struct okv_copies *copies = copy->copies;
    struct okv_peer_message ship = *message;
    size_t used = 0;
    int rc = read_frames(copies, copy->database->wal, &ship, &used);

    if (rc)
        return rc;
    ship.to = ship.from + used;
    okv_protocol_shipped(&copy->protocol, link->server, ship.to);
    return okv_letter_send(link, &ship, copies->ship, used);
}

void okv_links_send(struct okv_copy *copy, uint64_t server, const struct okv_peer_message *message)
{
    struct okv_copy_link *link = find(copy, server);

    if (!link || !link->link || !link->is_open || link->is_lost)
        return;
    int rc = message->type == OKV_PEER_SHIP ? send_frames(link, message)
                                            : okv_letter_send(link, message, NULL, 0);
    if (rc == OKV_EAGAIN && message->type == OKV_PEER_SHIP) {
        okv_protocol_shipped(&copy->protocol, server, message->from); /* after the next answer */
        return;
    }
    link->is_lost = rc != 0 && message->type != OKV_PEER_BEAT;
    if (link->is_lost)
        note_failure(link, okv_error_text(rc));
}
