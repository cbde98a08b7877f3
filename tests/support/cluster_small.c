#include "tests/support/cluster_small.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define START_US 20
#define CALM_STEPS 1000

struct small_options small_options;
static char failure[160];
static bool is_outside, is_traced;
static uint64_t begin_us; /* when the search begins: times are told from there on */

/* ---- words ---- */

void small_fail(const char *format, ...)
{
    va_list arguments;

    if (failure[0])
        return;
    va_start(arguments, format);
    vsnprintf(failure, sizeof failure, format, arguments);
    va_end(arguments);
}

const char *small_failure(void)
{
    return failure;
}

void small_leave_bounds(void)
{
    is_outside = true;
}

void small_trace(bool is_on)
{
    is_traced = is_on;
}

void small_say(const struct small_world *world, const char *format, ...)
{
    va_list arguments;

    if (!is_traced)
        return;
    fprintf(stderr, "%4" PRId64 "  ", (int64_t)(world->now - begin_us));
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* ---- what may happen ---- */

static bool may_server(const struct small_world *world, enum small_kind kind, unsigned a)
{
    const struct small_server *server = &world->servers[a];

    switch (kind) {
    case SMALL_TIMER:
        return server->is_up && okv_protocol_timer_us(&server->protocol) <= world->now;
    case SMALL_EXECUTE:
        return server->request.state == SMALL_REQUEST_SENT;
    case SMALL_ANSWER:
        return server->request.state == SMALL_REQUEST_DONE;
    case SMALL_UNKNOWN:
        return world->left.unknowns > 0 && server->request.state != SMALL_REQUEST_NONE &&
               server->request.is_change;
    case SMALL_LATE:
        return server->late.state != SMALL_REQUEST_NONE;
    case SMALL_PUT:
        return world->left.puts > 0 && server->is_up && server->protocol.status.takes_writes &&
               server->published == server->sealed;
    case SMALL_SYNC:
        return server->is_up && server->durable < server->sealed;
    case SMALL_CRASH:
        return world->left.crashes > 0 && server->is_up;
    default:
        return kind == SMALL_START && !server->is_up;
    }
}

static bool may_link(const struct small_world *world, enum small_kind kind, unsigned a, unsigned b)
{
    const struct small_link *link = &world->links[a][b];

    switch (kind) {
    case SMALL_DOWN:
        return link->down_count > 0;
    case SMALL_UP:
        return link->up_count > 0;
    case SMALL_LINK:
        return link->state == SMALL_LINK_BROKEN ||
               (link->state == SMALL_LINK_DUE && world->servers[b].is_up);
    case SMALL_BREAK:
        return world->left.breaks > 0 && link->state == SMALL_LINK_UP;
    default:
        return kind == SMALL_HAND_OVER && world->left.hand_overs > 0 &&
               link->state == SMALL_LINK_UP && world->servers[a].protocol.is_serving;
    }
}

static bool is_of_link(enum small_kind kind)
{
    return kind == SMALL_DOWN || kind == SMALL_UP || kind == SMALL_LINK || kind == SMALL_BREAK ||
           kind == SMALL_HAND_OVER;
}

unsigned small_choices(const struct small_world *world,
                       struct small_choice choices[SMALL_CHOICES_MAX])
{
    unsigned count = 0;

    if (world->left.ticks > 0)
        choices[count++] = (struct small_choice){SMALL_TICK, 0, 0};
    for (unsigned kind = SMALL_TICK + 1; kind <= SMALL_HAND_OVER; kind++) {
        for (unsigned a = 0; a < world->left.servers; a++) {
            if (!is_of_link(kind) && may_server(world, kind, a))
                choices[count++] = (struct small_choice){(uint8_t)kind, (uint8_t)a, 0};
            for (unsigned b = 0; is_of_link(kind) && b < world->left.servers; b++)
                if (may_link(world, kind, a, b))
                    choices[count++] = (struct small_choice){(uint8_t)kind, (uint8_t)a, (uint8_t)b};
        }
    }
    return count;
}

/* ---- what happens ---- */

static void take_message(struct small_world *world, bool is_down, unsigned a, unsigned b)
{
    struct small_link *link = &world->links[a][b];
    struct small_message *queue = is_down ? link->down : link->up, message = queue[0];
    unsigned *count = is_down ? &link->down_count : &link->up_count;

    memmove(queue, queue + 1, --*count * sizeof *queue);
    memset(queue + *count, 0, sizeof *queue);
    small_server_message(world, is_down ? b : a, is_down ? a : b, &message, &link->epochs);
}

static void take_event(struct small_world *world, enum okv_protocol_event_type type, unsigned a,
                       unsigned b)
{
    const struct okv_protocol_event event = {.type = type, .server = b + 1};

    small_step(world, a, &event, NULL);
}

static void take_link(struct small_world *world, enum small_kind kind, unsigned a, unsigned b)
{
    struct small_link *link = &world->links[a][b];

    if (kind == SMALL_BREAK) {
        world->left.breaks--;
        memset(link, 0, sizeof *link);
        link->state = SMALL_LINK_BROKEN;
    } else if (kind == SMALL_HAND_OVER) {
        world->left.hand_overs--;
        take_event(world, OKV_EVENT_HAND_OVER, a, b);
    } else if (kind != SMALL_LINK) {
        take_message(world, kind == SMALL_DOWN, a, b);
    } else if (link->state == SMALL_LINK_BROKEN) {
        link->state = SMALL_LINK_DUE;
        take_event(world, OKV_EVENT_LOST, a, b);
    } else {
        link->state = SMALL_LINK_UP;
        take_event(world, OKV_EVENT_CONNECTED, a, b);
    }
}

static void take_server(struct small_world *world, enum small_kind kind, unsigned a)
{
    struct small_server *server = &world->servers[a];

    switch (kind) {
    case SMALL_TIMER:
        take_event(world, OKV_EVENT_TIMER, a, a);
        break;
    case SMALL_EXECUTE:
        small_etcd_execute(world, a, &server->request);
        break;
    case SMALL_LATE:
        small_etcd_execute(world, a, &server->late);
        break;
    case SMALL_UNKNOWN:
        world->left.unknowns--;
        small_etcd_answer(world, a, true);
        break;
    case SMALL_ANSWER:
        small_etcd_answer(world, a, false);
        break;
    case SMALL_PUT:
        world->left.puts--;
        small_server_put(world, a);
        break;
    case SMALL_SYNC:
        small_server_sync(world, a);
        break;
    case SMALL_CRASH:
        world->left.crashes--;
        small_server_crash(world, a);
        break;
    default:
        small_server_start(world, a);
    }
}

static void say_choice(const struct small_world *world, struct small_choice choice)
{
    static const char *const words[] = {
        [SMALL_TICK] = "",
        [SMALL_TIMER] = "%u: its timer",
        [SMALL_DOWN] = "a message of %u arrives at %u",
        [SMALL_UP] = "%u hears from %u",
        [SMALL_EXECUTE] = "etcd takes the request of %u",
        [SMALL_ANSWER] = "%u: the answer of etcd",
        [SMALL_UNKNOWN] = "%u: no answer of etcd",
        [SMALL_LATE] = "etcd takes a late request of %u",
        [SMALL_LINK] = "%u hears of its connection to %u",
        [SMALL_BREAK] = "the connection of %u to %u breaks",
        [SMALL_PUT] = "%u: a put",
        [SMALL_SYNC] = "%u: its log is durable",
        [SMALL_CRASH] = "%u crashes",
        [SMALL_START] = "%u starts",
        [SMALL_HAND_OVER] = "%u is to hand over to %u",
    };

    if (choice.kind != SMALL_TICK)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        small_say(world, words[choice.kind], choice.a + 1, choice.b + 1);
#pragma GCC diagnostic pop
}

enum small_outcome small_take(struct small_world *world, struct small_choice choice)
{
    failure[0] = 0;
    is_outside = false;
    say_choice(world, choice);
    if (choice.kind == SMALL_TICK) {
        world->left.ticks--;
        world->now++;
    } else if (is_of_link(choice.kind)) {
        take_link(world, choice.kind, choice.a, choice.b);
    } else {
        take_server(world, choice.kind, choice.a);
    }
    small_check(world);
    if (is_outside)
        return SMALL_IS_OUTSIDE;
    if (failure[0])
        return SMALL_HAS_FAILED;
    small_normalise(world);
    return is_outside ? SMALL_IS_OUTSIDE : SMALL_IS_FINE;
}

/* ---- what clients see ---- */

/* Of a server whose memory can be READ. What was READ while it had less than was seen is under way
 * for ever: it counts as soon as the lease of its epoch goes on. */
static void check_reads(struct small_world *world, unsigned index)
{
    struct small_server *server = &world->servers[index];
    bool is_old = server->published < world->seen;
    bool is_trusted = world->now < server->told_us;

    if (is_old && (is_trusted || (small_options.is_blind && server->told_epoch != 0)))
        small_fail("a get at server %u returns %" PRIu64 ", after %" PRIu64 " was seen", index + 1,
                   server->published, world->seen);
    if (server->is_stale && is_trusted)
        small_fail("server %u makes what was READ before count", index + 1);
    if (is_trusted && !is_old)
        world->seen = server->published;
    if (is_old && (server->protocol.is_serving || small_options.is_careless))
        server->is_stale = true;
}

static void check_alone(const struct small_world *world, unsigned index)
{
    const struct okv_protocol *protocol = &world->servers[index].protocol;

    for (unsigned i = 0; i < world->left.servers; i++) {
        const struct small_server *other = &world->servers[i];
        if (i != index && other->is_up && other->told_epoch < protocol->epoch &&
            world->now < other->told_us)
            small_fail("server %u serves in epoch %" PRIu64
                       " while %u may be trusted until %" PRIu64,
                       index + 1, protocol->epoch, i + 1, other->told_us - begin_us);
    }
}

void small_check(struct small_world *world)
{
    for (unsigned i = 0; i < world->left.servers; i++) {
        if (!world->servers[i].is_up)
            continue;
        if (world->servers[i].protocol.is_serving)
            check_alone(world, i);
        check_reads(world, i);
    }
}

/* ---- where it begins ---- */

static bool is_calm_kind(enum small_kind kind)
{
    return kind == SMALL_TIMER || kind == SMALL_DOWN || kind == SMALL_UP || kind == SMALL_EXECUTE ||
           kind == SMALL_ANSWER || kind == SMALL_SYNC ||
           (kind == SMALL_LINK && small_options.start != SMALL_ALONE);
}

/* Whatever can happen without a fault; false: only time goes by. */
static bool take_calm(struct small_world *world)
{
    struct small_choice choices[SMALL_CHOICES_MAX];
    unsigned count = small_choices(world, choices);

    for (unsigned i = 0; i < count; i++) {
        if (is_calm_kind(choices[i].kind)) {
            small_take(world, choices[i]);
            return true;
        }
    }
    return false;
}

/* At rest: the copies have granted all that they can. */
static bool is_begun(const struct small_world *world)
{
    const struct okv_protocol *first = &world->servers[0].protocol;

    if (!first->is_serving || small_options.start != SMALL_IN_SYNC)
        return first->is_serving;
    return world->now >= START_US + 2 * SMALL_TERM && world->links[0][1].down_count == 0 &&
           world->links[0][1].up_count == 0 && world->links[0][2].down_count == 0 &&
           world->links[0][2].up_count == 0;
}

void small_begin(struct small_world *world, const struct small_options *options)
{
    memset(world, 0, sizeof *world);
    small_options = *options;
    world->left.servers = options->bounds.servers;
    world->left.under_way = SMALL_MESSAGES;
    world->now = START_US;
    world->revision = 1;
    world->key.epoch = 1;
    world->key.primary = (struct okv_member){1, 1};
    for (unsigned i = 0; i < options->bounds.servers; i++) {
        world->key.wanted[world->key.wanted_count++] = i + 1;
        world->servers[i].incarnation = 1;
        if (i == 0 || options->start == SMALL_IN_SYNC)
            world->key.isr[world->key.isr_count++] = (struct okv_member){i + 1, 1};
    }
    for (unsigned i = 0; i < options->bounds.servers; i++)
        small_server_start(world, i);
    for (unsigned i = 0; i < CALM_STEPS && !is_begun(world); i++) {
        if (take_calm(world))
            continue;
        world->left.ticks = 1;
        small_take(world, (struct small_choice){SMALL_TICK, 0, 0});
    }
    world->left = options->bounds;
    begin_us = world->now;
}
