/* A server of the small world: the driver of the protocol, its log, and its memory. */
#include <inttypes.h>
#include <string.h>

#include "tests/support/cluster_small.h"

static const char *const message_names[] = {"JOIN", "JOINED",   "SHIP", "BEAT",
                                            "ACK",  "RELEASED", "PIECE"};

/* ---- the network ---- */

/* NULL: it is lost. */
static struct small_message *queue(struct small_link *link, bool is_reply, unsigned under_way)
{
    unsigned *count = is_reply ? &link->up_count : &link->down_count;

    if (link->state != SMALL_LINK_UP)
        return NULL;
    if (*count == under_way) {
        small_leave_bounds();
        return NULL;
    }
    return is_reply ? &link->up[(*count)++] : &link->down[(*count)++];
}

static void say_message(const struct small_world *world, unsigned index, uint64_t to,
                        const struct okv_peer_message *message)
{
    small_say(world,
              "    %u sends %s to %" PRIu64 ": epoch %" PRIu64 ", sent at %" PRIu64 ", %" PRIu64
              " to %" PRIu64 ", published %" PRIu64 "%s%s",
              index + 1, message_names[message->type], to, message->epoch, message->sent_us,
              message->from, message->to, message->published,
              message->flags & OKV_PEER_REFUSED ? ", REFUSED" : "",
              message->flags & OKV_PEER_SNAPSHOT ? ", SNAPSHOT" : "");
}

static void send(struct small_world *world, unsigned index,
                 const struct okv_protocol_action *action)
{
    const struct okv_peer_message *message = &action->message;
    unsigned to = (unsigned)action->server - 1;
    bool is_reply = message->type == OKV_PEER_JOINED || message->type == OKV_PEER_ACK;
    struct small_link *link;
    struct small_message *item;

    if (to >= world->left.servers) {
        small_fail("server %u sends to nobody", index + 1);
        return;
    }
    link = is_reply ? &world->links[to][index] : &world->links[index][to];
    item = queue(link, is_reply, world->left.under_way);
    if (!item)
        return;
    say_message(world, index, action->server, message);
    *item = (struct small_message){
        .type = message->type,
        .flags = message->flags,
        .epoch = message->epoch,
        .sent_us = message->sent_us,
        .from = message->from,
        .to = message->to,
        .published = message->published,
        .incarnation = message->incarnation,
    };
    if (message->type == OKV_PEER_JOIN)
        link->epochs = message->epochs;
    if (message->type != OKV_PEER_SHIP && message->type != OKV_PEER_PIECE)
        return;
    if (message->from <= message->to)
        memcpy(item->frames, world->servers[index].log + message->from,
               message->to - message->from);
    else
        small_fail("server %u ships nothing", index + 1);
}

static void send_snapshot(struct small_world *world, unsigned index, uint64_t to)
{
    struct okv_protocol_action action = {.type = OKV_ACTION_SEND, .server = to};

    action.message.type = OKV_PEER_PIECE;
    action.message.to = world->servers[index].published;
    send(world, index, &action);
}

static void take_snapshot(struct small_world *world, unsigned index,
                          const struct small_message *message)
{
    struct small_server *server = &world->servers[index];
    uint64_t position = message->to;
    struct okv_protocol_event event = {.type = OKV_EVENT_LOADED, .sealed = position};

    if (!server->protocol.is_loading)
        return;
    memset(server->log, 0, sizeof server->log);
    memcpy(server->log, message->frames, position);
    server->begin = server->sealed = server->durable = position;
    server->applied = server->published = position;
    small_step(world, index, &event, NULL);
}

void small_server_message(struct small_world *world, unsigned index, unsigned from,
                          const struct small_message *message, const struct okv_epochs *epochs)
{
    struct okv_protocol_event event = {
        .type = OKV_EVENT_MESSAGE,
        .server = from + 1,
        .message =
            {
                .type = message->type,
                .flags = message->flags,
                .epoch = message->epoch,
                .sent_us = message->sent_us,
                .from = message->from,
                .to = message->to,
                .published = message->published,
                .incarnation = message->incarnation,
            },
    };

    if (message->type == OKV_PEER_PIECE) {
        take_snapshot(world, index, message);
        return;
    }
    if (message->type == OKV_PEER_JOIN)
        event.message.epochs = *epochs;
    small_step(world, index, &event, message->frames);
}

/* ---- the log ---- */

static void seal(struct small_server *server, uint8_t frame)
{
    if (server->sealed == SMALL_FRAMES) {
        small_leave_bounds();
        return;
    }
    server->log[server->sealed++] = frame;
    if (!small_options.acks_disk)
        server->durable = server->sealed;
    server->log_has_changed = true;
}

static uint8_t make_frame(uint64_t epoch, unsigned put)
{
    return (uint8_t)(epoch << 4 | put);
}

static void append(struct small_server *server, const struct okv_peer_message *ship,
                   const uint8_t *frames)
{
    if (server->sealed < ship->from) {
        small_fail("frames are appended behind a gap");
        return;
    }
    while (server->sealed < ship->to)
        seal(server, frames[server->sealed - ship->from]);
}

static void truncate_log(struct small_server *server, uint64_t position)
{
    if (position < server->published)
        small_fail("server %" PRIu64 " cuts what it published", server->protocol.self.server);
    memset(server->log + position, 0, SMALL_FRAMES - position);
    server->sealed = position;
    if (server->durable > position)
        server->durable = position;
    server->log_has_changed = true;
}

static void lose_log(struct small_server *server, uint64_t incarnation)
{
    server->incarnation = incarnation;
    memset(server->log, 0, sizeof server->log);
    server->begin = server->sealed = server->durable = server->applied = server->published = 0;
}

/* ---- what it shows ---- */

static void show_status(struct small_world *world, unsigned index)
{
    struct small_server *server = &world->servers[index];
    const struct okv_protocol_status *status = &server->protocol.status;

    small_say(world, "    %u tells epoch %" PRIu64 ", valid until %" PRIu64 "%s", index + 1,
              status->epoch, status->valid_until_us, status->is_changing ? ", changing" : "");
    if (status->epoch > server->epoch_seen)
        server->epoch_seen = status->epoch;
    if (status->valid_until_us == 0)
        return;
    if (status->epoch != server->told_epoch)
        server->is_stale &= small_options.is_careless; /* clients connect again */
    else if (status->valid_until_us < server->told_us)
        small_fail("valid-until falls from %" PRIu64 " to %" PRIu64, server->told_us,
                   status->valid_until_us);
    server->told_us = status->valid_until_us;
    server->told_epoch = status->epoch;
}

/* What a primary publishes first is the truth. */
static void publish_frame(struct small_world *world, unsigned index, uint64_t i, bool is_primary)
{
    if (i == world->true_end && is_primary)
        world->truth[world->true_end++] = world->servers[index].log[i];
    if (i >= world->true_end || world->truth[i] != world->servers[index].log[i])
        small_fail("server %u publishes another frame at %" PRIu64, index + 1, i + 1);
}

static void publish(struct small_world *world, unsigned index, uint64_t position)
{
    struct small_server *server = &world->servers[index];
    bool is_primary = server->protocol.role == OKV_ROLE_PRIMARY || server->is_writing;

    small_say(world, "    %u publishes up to %" PRIu64, index + 1, position);
    if (position > server->sealed || position <= server->published) {
        small_fail("server %u publishes up to %" PRIu64, index + 1, position);
        return;
    }
    for (uint64_t i = server->published; i < position; i++)
        publish_frame(world, index, i, is_primary);
    server->published = server->applied = position;
    server->log_has_changed = true;
    if (!server->is_writing || position < server->sealed)
        return;
    small_say(world, "    %u answers the put at %" PRIu64, index + 1, position);
    server->is_writing = false;
    if (position > world->seen)
        world->seen = position;
}

/* ---- actions ---- */

static void lead(struct small_world *world, unsigned index, uint64_t epoch)
{
    struct small_server *server = &world->servers[index];

    small_say(world, "    %u leads epoch %" PRIu64 " from %" PRIu64, index + 1, epoch,
              server->sealed);
    if (epoch >= SMALL_EPOCHS) {
        small_leave_bounds();
        return;
    }
    if (world->leaders[epoch] != 0)
        small_fail("epoch %" PRIu64 " begins at server %u, and began at %u", epoch, index + 1,
                   world->leaders[epoch]);
    world->leaders[epoch] = (uint8_t)(index + 1);
    for (unsigned i = 0; i < world->left.servers; i++) {
        if (i == index)
            continue;
        memset(&world->links[index][i], 0, sizeof world->links[index][i]);
        world->links[index][i].state = SMALL_LINK_DUE;
    }
    seal(server, make_frame(epoch, 0));
}

static void change_key(struct small_world *world, unsigned index,
                       const struct okv_protocol_action *action)
{
    if (!world->servers[index].protocol.status.is_changing)
        small_fail("server %u changes the key while its status does not say so", index + 1);
    small_etcd_send(world, index, action);
}

static void drained(struct small_world *world, unsigned index)
{
    const struct okv_protocol_event event = {.type = OKV_EVENT_DRAINED};

    small_step(world, index, &event, NULL);
}

static void perform(struct small_world *world, unsigned index,
                    const struct okv_protocol_action *action,
                    const struct okv_protocol_event *event, const uint8_t *frames)
{
    struct small_server *server = &world->servers[index];

    switch (action->type) {
    case OKV_ACTION_SEND:
        send(world, index, action);
        break;
    case OKV_ACTION_READ_KEY:
        small_etcd_send(world, index, action);
        break;
    case OKV_ACTION_CHANGE_KEY:
        change_key(world, index, action);
        break;
    case OKV_ACTION_APPEND:
        append(server, &event->message, frames);
        break;
    case OKV_ACTION_TRUNCATE:
        small_say(world, "    %u cuts its log to %" PRIu64, index + 1, action->position);
        truncate_log(server, action->position);
        break;
    case OKV_ACTION_PUBLISH:
        publish(world, index, action->position);
        break;
    case OKV_ACTION_INCARNATION:
        lose_log(server, action->position);
        break;
    case OKV_ACTION_SNAPSHOT:
        send_snapshot(world, index, action->server);
        break;
    case OKV_ACTION_LEAD:
        lead(world, index, action->epoch);
        break;
    case OKV_ACTION_FOLLOW:
        small_say(world, "    %u steps down", index + 1);
        server->is_writing = false;
        break;
    case OKV_ACTION_STATUS:
        show_status(world, index);
        break;
    case OKV_ACTION_LOAD:
    case OKV_ACTION_DRAIN:
        break; /* a snapshot comes by itself; a drain ends with the step */
    }
}

static struct okv_protocol_event log_event(const struct small_server *server)
{
    return (struct okv_protocol_event){
        .type = OKV_EVENT_LOG,
        .begin = server->begin,
        .sealed = server->sealed,
        .durable = server->durable,
        .applied = server->applied,
    };
}

/* All of an event; true: writes are to be drained. */
static bool step_once(struct small_world *world, unsigned index,
                      const struct okv_protocol_event *event, const uint8_t *frames)
{
    static struct okv_protocol_actions actions;
    bool drains = false;

    okv_protocol_step(&world->servers[index].protocol, event, world->now, &actions);
    for (unsigned i = 0; i < actions.count; i++) {
        perform(world, index, &actions.of[i], event, frames);
        drains |= actions.of[i].type == OKV_ACTION_DRAIN;
    }
    return drains;
}

/* One event, and what the log says after it. */
void small_step(struct small_world *world, unsigned index, const struct okv_protocol_event *event,
                const uint8_t *frames)
{
    struct small_server *server = &world->servers[index];
    bool drains = step_once(world, index, event, frames);

    while (server->log_has_changed) {
        struct okv_protocol_event log = log_event(server);
        server->log_has_changed = false;
        drains |= step_once(world, index, &log, NULL);
    }
    if (drains)
        drained(world, index);
}

/* One frame at a time. */
void small_server_put(struct small_world *world, unsigned index)
{
    struct small_server *server = &world->servers[index];
    struct okv_protocol_event event;

    server->is_writing = true;
    seal(server, make_frame(server->protocol.epoch, ++world->put_count));
    server->log_has_changed = false;
    event = log_event(server);
    small_step(world, index, &event, NULL);
}

void small_server_sync(struct small_world *world, unsigned index)
{
    struct small_server *server = &world->servers[index];
    struct okv_protocol_event event;

    server->durable = server->sealed;
    event = log_event(server);
    small_step(world, index, &event, NULL);
}

/* ---- its life ---- */

/* What recovery finds: the epochs of the frames. Only the last one may not be published. */
static void recover(struct small_server *server, struct okv_protocol_log *log)
{
    memset(log, 0, sizeof *log);
    log->begin = server->begin;
    log->end = server->sealed;
    for (uint64_t i = server->begin; i < server->sealed; i++)
        if (okv_epochs_at(&log->epochs, i) != (uint64_t)server->log[i] >> 4)
            okv_epochs_add(&log->epochs, (uint64_t)server->log[i] >> 4, i);
    if (server->published == server->sealed && server->published > server->begin)
        server->published--;
    log->published = server->applied = server->published;
}

void small_server_start(struct small_world *world, unsigned index)
{
    struct small_server *server = &world->servers[index];
    struct okv_member self = {index + 1, server->incarnation};
    const struct okv_protocol_options options = {
        .lease_us = SMALL_TERM,
        .beat_us = 1,
        .silent_us = 1,
        .suspect_us = small_options.suspect_us,
        .short_us = 2,
        .short_beat_us = 1,
        .again_us = 1,
        .lag_max = SMALL_FRAMES,
        .copies_min = 1,
        .acks_disk = small_options.acks_disk,
        .takes_over = true,
    };
    static struct okv_protocol_actions actions;
    struct okv_protocol_log log;

    recover(server, &log);
    server->is_up = true;
    okv_protocol_start(&server->protocol, &options, self, &log, server->epoch_seen, index + 1,
                       world->now, &actions);
    for (unsigned i = 0; i < actions.count; i++)
        perform(world, index, &actions.of[i], NULL, NULL);
}

static void break_links(struct small_world *world, unsigned index)
{
    for (unsigned i = 0; i < world->left.servers; i++) {
        struct small_link *link = &world->links[i][index];
        bool was_up = link->state == SMALL_LINK_UP;
        memset(&world->links[index][i], 0, sizeof world->links[index][i]);
        if (link->state == SMALL_LINK_NONE || i == index)
            continue;
        memset(link, 0, sizeof *link);
        link->state = was_up ? SMALL_LINK_BROKEN : SMALL_LINK_DUE;
    }
}

/* READs of its memory fail from then on. */
void small_server_crash(struct small_world *world, unsigned index)
{
    struct small_server *server = &world->servers[index];

    server->is_up = server->is_writing = server->is_stale = false;
    server->told_us = server->told_epoch = 0;
    if (small_options.loses_log)
        lose_log(server, server->incarnation + 1);
    server->sealed = server->durable;
    memset(server->log + server->sealed, 0, SMALL_FRAMES - server->sealed);
    if (server->published > server->sealed)
        server->published = server->sealed;
    server->applied = server->published;
    memset(&server->protocol, 0, sizeof server->protocol);
    small_etcd_forget(world, index);
    break_links(world, index);
}
