/* A server of the simulated world: the driver of the protocol, its log, and its memory. */
#include <inttypes.h>
#include <string.h>

#include "tests/support/cluster_world.h"

#define FRAME_EPOCH(frame) ((frame) >> 20)

static void step(struct world *world, unsigned index, const struct okv_protocol_event *event,
                 const uint32_t *frames);

static uint64_t now_us(const struct world *world, unsigned index)
{
    return world_clock_us(world, &world->servers[index].clock);
}

static uint32_t make_frame(struct world *world, uint64_t epoch)
{
    return (uint32_t)epoch << 20 | (++world->frame_count & 0xfffff);
}

/* ---- the network ---- */

/* On the connection of a primary to a copy, in order. NULL: there is none. */
static struct world_item *pass(struct world *world, unsigned from, unsigned to, uint64_t connection,
                               enum world_kind kind)
{
    uint64_t at = world->now + world_delay(world);
    struct world_item *item;

    if (at < world->clear_at[from][to])
        at = world->clear_at[from][to];
    if (at < world->stalled_until[from][to])
        at = world->stalled_until[from][to];
    world->clear_at[from][to] = at;
    item = world_push(world, at, kind);
    item->server = to;
    item->from = from;
    item->boot = world->servers[to].boot;
    item->connection = connection;
    item->event.server = from + 1;
    return item;
}

static bool is_connected(const struct world *world, const struct world_item *item)
{
    return item->connection == 0 ||
           world->connections[item->from][item->server] == item->connection ||
           world->connections[item->server][item->from] == item->connection;
}

static struct world_item *tell(struct world *world, uint64_t at, unsigned index,
                               enum okv_protocol_event_type type, unsigned server)
{
    struct world_item *item = world_push(world, at, WORLD_STEP);

    item->server = index;
    item->boot = world->servers[index].boot;
    item->event.type = type;
    item->event.server = server + 1;
    return item;
}

static void connect(struct world *world, unsigned primary, unsigned copy)
{
    uint64_t at = world->now + 2 * world_delay(world);
    struct world_item *item;

    if (at < world->stalled_until[primary][copy])
        at = world->stalled_until[primary][copy];
    world->connections[primary][copy] = ++world->connection_count;
    item = tell(world, at, primary, OKV_EVENT_CONNECTED, copy);
    item->from = copy;
    item->connection = world->connection_count;
}

/* What was on its way is lost. The primary hears of it and connects again. */
void world_server_break(struct world *world, unsigned primary, unsigned copy)
{
    if (world->connections[primary][copy] == 0)
        return;
    world_trace(world, "connection %u to %u breaks", primary + 1, copy + 1);
    world->connections[primary][copy] = 0;
    tell(world, world->now + world_delay(world), primary, OKV_EVENT_LOST, copy);
}

static void send(struct world *world, unsigned index, const struct okv_protocol_action *action)
{
    unsigned to = (unsigned)action->server - 1;
    const struct okv_peer_message *message = &action->message;
    const struct world_server *server = &world->servers[index];
    bool is_reply = message->type == OKV_PEER_JOINED || message->type == OKV_PEER_ACK;
    uint64_t connection = 0;
    struct world_item *item;

    if (to < WORLD_SERVERS)
        connection = is_reply ? world->connections[to][index] : world->connections[index][to];
    else
        world_fail(world, "server %u sends to nobody", index + 1);
    if (connection == 0)
        return;
    if (message->type == OKV_PEER_SHIP && message->from > message->to) {
        world_fail(world, "server %u ships nothing", index + 1);
        return;
    }
    item = pass(world, index, to, connection, WORLD_STEP);
    item->event.type = OKV_EVENT_MESSAGE;
    item->event.message = *message;
    if (message->type != OKV_PEER_BEAT && message->type != OKV_PEER_ACK)
        world_trace(world, "%u to %u: message %d of epoch %" PRIu64 ", %" PRIu64 " to %" PRIu64,
                    index + 1, to + 1, (int)message->type, message->epoch, message->from,
                    message->to);
    if (message->type == OKV_PEER_SHIP) {
        uint32_t *frames = world_frames(world, message->to - message->from);
        memcpy(frames, server->log + message->from, (message->to - message->from) * sizeof *frames);
        item->frames = frames;
    }
}

static void send_snapshot(struct world *world, unsigned index, unsigned to)
{
    const struct world_server *server = &world->servers[index];
    struct world_item *item;
    uint32_t *frames;

    if (world->connections[index][to] == 0)
        return;
    item = pass(world, index, to, world->connections[index][to], WORLD_SNAPSHOT);
    frames = world_frames(world, server->published);
    memcpy(frames, server->log, server->published * sizeof *frames);
    item->frames = frames;
    item->position = server->published;
    world->snapshots++;
}

/* ---- the log ---- */

static void sync_later(struct world *world, unsigned index)
{
    struct world_server *server = &world->servers[index];
    uint64_t at = world->now + WORLD_MS / 2 + world_delay(world);
    struct world_item *item;

    if (at < server->slow_until)
        at = server->slow_until;
    item = world_push(world, at, WORLD_SYNCED);
    item->server = index;
    item->boot = server->boot;
    item->position = server->sealed;
    item->operation = server->cuts;
}

static void seal(struct world *world, unsigned index, uint32_t frame)
{
    struct world_server *server = &world->servers[index];

    if (server->sealed == WORLD_FRAMES) {
        world_fail(world, "the log is too long");
        return;
    }
    server->log[server->sealed++] = frame;
    server->log_has_changed = true;
    sync_later(world, index);
}

static void append(struct world *world, unsigned index, const struct okv_protocol_event *event,
                   const uint32_t *frames)
{
    struct world_server *server = &world->servers[index];

    if (server->sealed < event->message.from) {
        world_fail(world, "server %u appends frames behind a gap", index + 1);
        return;
    }
    while (server->sealed < event->message.to)
        seal(world, index, frames[server->sealed - event->message.from]);
}

static void truncate_log(struct world *world, unsigned index, uint64_t position)
{
    struct world_server *server = &world->servers[index];

    world_trace(world, "%u cuts its log from %" PRIu64 " to %" PRIu64, index + 1, server->sealed,
                position);
    if (position < server->published)
        world_fail(world, "server %u cuts what it published", index + 1);
    server->sealed = position;
    if (server->durable > position)
        server->durable = position;
    server->cuts++;
    server->log_has_changed = true;
}

/* ---- what it shows ---- */

/* Nobody may trust an earlier primary by now. */
static void check_alone(struct world *world, unsigned index, uint64_t epoch)
{
    for (unsigned i = 0; i < WORLD_SERVERS; i++) {
        const struct world_server *other = &world->servers[i];
        if (i != index && other->is_up && other->told_epoch < epoch &&
            now_us(world, i) < other->told_us)
            world_fail(world,
                       "server %u serves in epoch %" PRIu64 " while %u may be trusted for %" PRIu64
                       " us",
                       index + 1, epoch, i + 1, other->told_us - now_us(world, i));
    }
}

static void show_status(struct world *world, unsigned index)
{
    struct world_server *server = &world->servers[index];

    server->status = server->protocol.status;
    if (server->status.valid_until_us > server->told_us) {
        server->told_us = server->status.valid_until_us;
        server->told_epoch = server->status.epoch;
    }
    if (server->status.valid_until_us > now_us(world, index) || server->status.takes_writes)
        check_alone(world, index, server->status.epoch);
    if (server->status.epoch > server->epoch_seen)
        server->epoch_seen = server->status.epoch;
}

static void publish(struct world *world, unsigned index, uint64_t position)
{
    struct world_server *server = &world->servers[index];
    /* It may have become one with this event, or have been until now. */
    bool is_primary =
        server->protocol.role == OKV_ROLE_PRIMARY || server->status.role == OKV_ROLE_PRIMARY;

    if (position > server->sealed || position <= server->published) {
        world_fail(world, "server %u publishes up to %" PRIu64, index + 1, position);
        return;
    }
    for (uint64_t i = server->published; i < position; i++) {
        if (i == world->true_end && is_primary)
            world->truth[world->true_end++] = server->log[i];
        if (i >= world->true_end || world->truth[i] != server->log[i])
            world_fail(world, "server %u publishes another frame at %" PRIu64, index + 1, i);
    }
    server->published = position;
    if (is_primary) {
        if (server->protocol.is_serving)
            check_alone(world, index, server->protocol.epoch);
        server->applied = position;
        server->log_has_changed = true;
        if (server->is_writing && position == server->sealed) {
            server->is_writing = false;
            world_answer_put(world, server->under_way, position);
        }
        return;
    }
    struct world_item *item = world_push(world, world->now + world_delay(world), WORLD_APPLIED);
    item->server = index;
    item->boot = server->boot;
    item->position = position;
}

/* One put a frame, one frame at a time. */
void world_server_write(struct world *world, unsigned index)
{
    struct world_server *server = &world->servers[index];
    struct okv_protocol_event event = {.type = OKV_EVENT_LOG};

    if (!server->status.takes_writes || server->waiting_count == 0 ||
        server->published < server->sealed)
        return;
    server->under_way = server->waiting[0];
    memmove(server->waiting, server->waiting + 1,
            --server->waiting_count * sizeof *server->waiting);
    server->is_writing = true;
    seal(world, index, make_frame(world, server->protocol.epoch));
    server->log_has_changed = false;
    event.begin = server->begin;
    event.sealed = server->sealed;
    event.durable = server->durable;
    event.applied = server->applied;
    event.is_full = server->is_full;
    step(world, index, &event, NULL);
}

/* ---- actions ---- */

static void lead(struct world *world, unsigned index, uint64_t epoch)
{
    world_trace(world, "%u leads epoch %" PRIu64 " from %" PRIu64, index + 1, epoch,
                world->servers[index].sealed);
    world->take_overs++;
    world->hand_overs += world->servers[index].protocol.released + 1 == epoch;
    for (unsigned i = 0; i < WORLD_SERVERS; i++)
        if (i != index)
            connect(world, index, i);
    seal(world, index, make_frame(world, epoch));
}

static void follow(struct world *world, unsigned index)
{
    struct world_server *server = &world->servers[index];

    world_trace(world, "%u steps down, epoch %" PRIu64, index + 1, server->protocol.epoch);
    server->waiting_count = 0;
    server->is_writing = false;
}

static void change_key(struct world *world, unsigned index,
                       const struct okv_protocol_action *action)
{
    if (!world->servers[index].status.is_changing)
        world_fail(world, "server %u changes the key while its status does not say so", index + 1);
    world_etcd_request(world, index, action);
}

static void lose_log(struct world *world, unsigned index, uint64_t incarnation)
{
    struct world_server *server = &world->servers[index];

    world_trace(world, "%u starts empty as incarnation %" PRIu64, index + 1, incarnation);
    server->incarnation = incarnation;
    server->begin = server->sealed = server->durable = server->applied = server->published = 0;
    server->cuts++;
}

static void perform(struct world *world, unsigned index, const struct okv_protocol_action *action,
                    const struct okv_protocol_event *event, const uint32_t *frames)
{
    switch (action->type) {
    case OKV_ACTION_SEND:
        send(world, index, action);
        break;
    case OKV_ACTION_READ_KEY:
        world_etcd_request(world, index, action);
        break;
    case OKV_ACTION_CHANGE_KEY:
        change_key(world, index, action);
        break;
    case OKV_ACTION_APPEND:
        append(world, index, event, frames);
        break;
    case OKV_ACTION_TRUNCATE:
        truncate_log(world, index, action->position);
        break;
    case OKV_ACTION_PUBLISH:
        publish(world, index, action->position);
        break;
    case OKV_ACTION_INCARNATION:
        if (okv_key_has(&world->key,
                        (struct okv_member){index + 1, world->servers[index].incarnation}))
            world_fail(world, "server %u gives up its log, which is in the set", index + 1);
        lose_log(world, index, action->position);
        break;
    case OKV_ACTION_LOAD:
        break; /* it comes by itself */
    case OKV_ACTION_SNAPSHOT:
        send_snapshot(world, index, (unsigned)action->server - 1);
        break;
    case OKV_ACTION_LEAD:
        lead(world, index, action->epoch);
        break;
    case OKV_ACTION_FOLLOW:
        follow(world, index);
        break;
    case OKV_ACTION_DRAIN:
        tell(world, world->now + world_below(world, 5) * WORLD_MS, index, OKV_EVENT_DRAINED, 0);
        break;
    case OKV_ACTION_STATUS:
        show_status(world, index);
        break;
    }
}

static void set_timer(struct world *world, unsigned index)
{
    struct world_server *server = &world->servers[index];
    uint64_t due = okv_protocol_timer_us(&server->protocol), now = now_us(world, index);
    uint64_t left_us = due > now ? due - now : 0;
    uint64_t at = world->now + (left_us + left_us / 40 + 1) * 1000; /* of a slow clock, too */
    struct world_item *item;

    if (due <= now)
        world_fail(world, "server %u wants a timer that is due after every event", index + 1);
    if (due == UINT64_MAX || (server->timer_at != 0 && server->timer_at <= at))
        return;
    item = world_push(world, at, WORLD_TIMER);
    item->server = index;
    item->boot = server->boot;
    server->timer_order = item->order;
    server->timer_at = at;
}

/* One event, and what the log says after it. */
static void step(struct world *world, unsigned index, const struct okv_protocol_event *event,
                 const uint32_t *frames)
{
    struct world_server *server = &world->servers[index];
    struct okv_protocol_event log = {.type = OKV_EVENT_LOG};
    static struct okv_protocol_actions actions;

    for (const struct okv_protocol_event *next = event; next && !world->failure[0];) {
        okv_protocol_step(&server->protocol, next, now_us(world, index), &actions);
        for (unsigned i = 0; i < actions.count; i++)
            perform(world, index, &actions.of[i], next, frames);
        next = server->log_has_changed ? &log : NULL;
        server->log_has_changed = false;
        log.begin = server->begin;
        log.sealed = server->sealed;
        log.durable = server->durable;
        log.applied = server->applied;
        log.is_full = server->is_full;
    }
    set_timer(world, index);
}

/* ---- its life ---- */

/* What recovery finds: the epochs of the frames. */
static struct okv_protocol_log recover(struct world *world, struct world_server *server)
{
    struct okv_protocol_log log = {.begin = server->begin, .end = server->sealed};
    uint64_t sure = world_below(world, 3);

    if (server->begin > 0) /* the header of a segment says it */
        okv_epochs_add(&log.epochs, FRAME_EPOCH(server->log[server->begin - 1]), 0);
    for (uint64_t i = server->begin; i < server->sealed; i++)
        if (okv_epochs_at(&log.epochs, i) != FRAME_EPOCH(server->log[i]))
            okv_epochs_add(&log.epochs, FRAME_EPOCH(server->log[i]), i);
    log.published =
        server->published > server->begin + sure ? server->published - sure : server->begin;
    server->published = server->applied = log.published;
    return log;
}

void world_server_start(struct world *world, unsigned index)
{
    struct world_server *server = &world->servers[index];
    struct okv_member self = {index + 1, server->incarnation};
    struct okv_protocol_log log = recover(world, server);
    static struct okv_protocol_actions actions;

    server->is_up = true;
    server->boot++;
    server->timer_at = 0;
    world_trace(world, "%u starts, incarnation %" PRIu64 ", log up to %" PRIu64, index + 1,
                server->incarnation, server->sealed);
    okv_protocol_start(&server->protocol, &world->protocol, self, &log, server->epoch_seen,
                       world_below(world, UINT64_C(1) << 40) << 20, now_us(world, index), &actions);
    for (unsigned i = 0; i < actions.count; i++)
        perform(world, index, &actions.of[i], NULL, NULL);
    set_timer(world, index);
}

/* What the disk does not have is gone; in memory mode, all. READs of its memory fail. */
void world_server_crash(struct world *world, unsigned index)
{
    struct world_server *server = &world->servers[index];
    struct world_item *item;

    world_trace(world, "%u crashes", index + 1);
    server->is_up = false;
    server->stopped_until = 0;
    server->told_us = server->told_epoch = 0;
    server->status = (struct okv_protocol_status){0};
    server->waiting_count = 0;
    server->is_writing = server->is_full = server->log_has_changed = false;
    if (!world->protocol.acks_disk)
        lose_log(world, index, server->incarnation + 1);
    server->cuts++;
    server->sealed = server->durable;
    if (server->published > server->sealed)
        server->published = server->sealed;
    for (unsigned i = 0; i < WORLD_SERVERS; i++) {
        world->connections[index][i] = 0;
        world_server_break(world, i, index);
    }
    item = world_push(world, world->now + (1 + world_below(world, 1500)) * WORLD_MS, WORLD_START);
    item->server = index;
}

static void take_snapshot(struct world *world, const struct world_item *item)
{
    struct world_server *server = &world->servers[item->server];
    struct okv_protocol_event event = {.type = OKV_EVENT_LOADED, .sealed = item->position};

    if (!server->protocol.is_loading)
        return;
    memcpy(server->log, item->frames, item->position * sizeof *item->frames);
    server->begin = server->sealed = server->durable = item->position;
    server->applied = server->published = item->position;
    step(world, item->server, &event, NULL);
}

static void take_step(struct world *world, const struct world_item *item)
{
    const struct okv_protocol_event *event = &item->event;

    if (event->type == OKV_EVENT_LOST &&
        world->servers[item->server].protocol.role == OKV_ROLE_PRIMARY &&
        world->connections[item->server][event->server - 1] == 0)
        connect(world, item->server, (unsigned)event->server - 1);
    else if (event->type == OKV_EVENT_LOST)
        return;
    if (event->type == OKV_EVENT_CONNECTED && !world->servers[event->server - 1].is_up) {
        connect(world, item->server, (unsigned)event->server - 1); /* it tries again */
        return;
    }
    step(world, item->server, event, item->frames);
}

/* Events of the log that came from it by itself. */
static void take_log(struct world *world, const struct world_item *item)
{
    struct world_server *server = &world->servers[item->server];
    struct okv_protocol_event event = {.type = OKV_EVENT_LOG};

    if (item->kind == WORLD_APPLIED && item->position <= server->published &&
        item->position > server->applied)
        server->applied = item->position;
    if (item->kind == WORLD_SYNCED && item->operation == server->cuts &&
        item->position > server->durable)
        server->durable = item->position;
    event.begin = server->begin;
    event.sealed = server->sealed;
    event.durable = server->durable;
    event.applied = server->applied;
    event.is_full = server->is_full;
    step(world, item->server, &event, NULL);
}

static void take_client(struct world *world, const struct world_item *item)
{
    struct world_server *server = &world->servers[item->server];
    struct world_item *reply;

    if (item->kind == WORLD_PUT) {
        if (server->protocol.role == OKV_ROLE_PRIMARY &&
            server->waiting_count < sizeof server->waiting / sizeof *server->waiting)
            server->waiting[server->waiting_count++] =
                (struct world_put){item->client, item->operation};
        return;
    }
    if (item->kind == WORLD_ASK &&
        !okv_protocol_may_answer(&server->protocol, now_us(world, item->server)))
        return;
    reply = world_push(world, world->now + world_delay(world),
                       item->kind == WORLD_ASK ? WORLD_REPLY : WORLD_SAMPLE);
    reply->client = item->client;
    reply->server = item->server;
    reply->operation = item->operation;
    reply->boot = server->boot;
    reply->position = server->published;
    reply->posted_us = item->posted_us;
    reply->clock_us = now_us(world, item->server);
}

void world_server_item(struct world *world, const struct world_item *item)
{
    struct world_server *server = &world->servers[item->server];

    if (item->kind == WORLD_START) {
        if (!server->is_up)
            world_server_start(world, item->server);
        return;
    }
    if (!server->is_up || (item->boot != 0 && item->boot != server->boot) ||
        !is_connected(world, item))
        return;
    if (item->kind == WORLD_TIMER && item->order != server->timer_order)
        return;
    if (world->now < server->stopped_until) {
        struct world_item *again = world_push(world, server->stopped_until, item->kind);
        uint64_t at = again->at, order = again->order;
        *again = *item;
        again->at = at;
        again->order = order;
        if (item->kind == WORLD_TIMER)
            server->timer_order = order;
        return;
    }
    switch (item->kind) {
    case WORLD_STEP:
        take_step(world, item);
        break;
    case WORLD_TIMER:
        server->timer_at = 0;
        step(world, item->server, &item->event, NULL); /* zeros are a TIMER */
        break;
    case WORLD_SNAPSHOT:
        take_snapshot(world, item);
        break;
    case WORLD_SYNCED:
    case WORLD_APPLIED:
        take_log(world, item);
        break;
    default:
        take_client(world, item);
    }
    world_server_write(world, item->server);
}
