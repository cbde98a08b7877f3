/* etcd of the small world: a register that is compared and set, with answers that get lost. */
#include <inttypes.h>
#include <string.h>

#include "tests/support/cluster_small.h"

/* Nobody waits for this request any more, and it may be carried out all the same. */
static void set_aside(struct small_world *world, unsigned index)
{
    struct small_server *server = &world->servers[index];

    if (server->request.state == SMALL_REQUEST_SENT && server->request.is_change &&
        server->request.revision == world->revision) {
        if (server->late.state != SMALL_REQUEST_NONE &&
            memcmp(&server->late.key, &server->request.key, sizeof server->late.key) != 0)
            small_leave_bounds(); /* one at a time */
        server->late = server->request;
    }
    memset(&server->request, 0, sizeof server->request);
}

void small_etcd_send(struct small_world *world, unsigned index,
                     const struct okv_protocol_action *action)
{
    struct small_server *server = &world->servers[index];

    set_aside(world, index);
    server->request.state = SMALL_REQUEST_SENT;
    server->request.is_change = action->type == OKV_ACTION_CHANGE_KEY;
    server->request.request = action->request;
    if (!server->request.is_change) {
        small_say(world, "    %u reads the key", index + 1);
        return;
    }
    server->request.revision = action->revision;
    server->request.key = action->key;
    small_say(world,
              "    %u asks for epoch %" PRIu64 ", primary %" PRIu64
              ", %u in sync, at revision %" PRIu64,
              index + 1, action->key.epoch, action->key.primary.server, action->key.isr_count,
              action->revision);
}

static void set_key(struct small_world *world, const struct okv_shard_key *key)
{
    world->key = *key;
    world->revision++;
    small_say(world,
              "    etcd has epoch %" PRIu64 ", primary %" PRIu64 ", in sync: %" PRIu64 " %" PRIu64
              " %" PRIu64,
              key->epoch, key->primary.server, key->isr[0].server,
              key->isr_count > 1 ? key->isr[1].server : 0,
              key->isr_count > 2 ? key->isr[2].server : 0);
    if (!okv_key_has(key, key->primary))
        small_fail("the primary is not in sync");
}

void small_etcd_execute(struct small_world *world, unsigned index, struct small_request *request)
{
    bool is_done = request->is_change && request->revision == world->revision;
    bool is_late = request == &world->servers[index].late;

    if (is_done)
        set_key(world, &request->key);
    request->state = is_late ? SMALL_REQUEST_NONE : SMALL_REQUEST_DONE;
    request->answer = !request->is_change ? OKV_EVENT_KEY
                      : is_done           ? OKV_EVENT_CHANGED
                                          : OKV_EVENT_REFUSED;
    request->key = world->key;
    request->revision = world->revision;
}

void small_etcd_answer(struct small_world *world, unsigned index, bool is_lost)
{
    struct small_server *server = &world->servers[index];
    struct okv_protocol_event event = {.type = OKV_EVENT_UNKNOWN};

    event.request = server->request.request;
    if (!is_lost) {
        event.type = server->request.answer;
        event.key = server->request.key;
        event.revision = server->request.revision;
    }
    set_aside(world, index);
    small_step(world, index, &event, NULL);
}

void small_etcd_forget(struct small_world *world, unsigned index)
{
    set_aside(world, index);
}
