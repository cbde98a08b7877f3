#include "server/session/long_work.h"

#include "server/session/lifecycle.h"
#include "shared/base/error.h"

/* What a turn counts at least: a short one applies a write as well. */
#define TURN_MIN (OKV_LONG_WORK_SLICE / 16)

void okv_long_work_add(struct okv_sessions *sessions, struct okv_long_write *write)
{
    TAILQ_INSERT_TAIL(&sessions->long_work, write, in_long_work);
}

/* Returns the bytes of the turn, or 0 if the write waits. */
static uint64_t take_turn(struct okv_sessions *sessions, struct okv_long_write *write,
                          uint64_t most)
{
    struct okv_session *session = write->session;

    okv_session_end_unwanted(sessions, session);
    uint64_t done = okv_long_write_run(write, &sessions->executors[session->database], most);
    if (write->state == OKV_LONG_WRITE_RUNNING) {
        okv_long_work_add(sessions, write);
        return done;
    }
    okv_sessions_make_ready(sessions, session);
    return done ? done : 1;
}

static unsigned wipe(struct okv_sessions *sessions)
{
    struct okv_server *server = sessions->server;
    uint64_t left = OKV_LONG_WORK_SLICE;

    for (unsigned i = 0; i < server->database_count && left >= TURN_MIN; i++)
        left -= okv_heap_wipe(&server->databases[i].store.heap, left);
    return left < OKV_LONG_WORK_SLICE;
}

static unsigned run_writes(struct okv_sessions *sessions)
{
    const struct okv_long_write *last = TAILQ_LAST(&sessions->long_work, okv_long_write_list);
    struct okv_long_write *write = NULL;
    uint64_t left = OKV_LONG_WORK_SLICE;
    unsigned count = 0;

    if (!last)
        return 0;
    okv_housekeeping_update_clock(&sessions->housekeeping, sessions->server);
    while (left > 0 && write != last) {
        write = TAILQ_FIRST(&sessions->long_work);
        TAILQ_REMOVE(&sessions->long_work, write, in_long_work);
        uint64_t done = take_turn(sessions, write, left);
        uint64_t cost = done < TURN_MIN ? TURN_MIN : done;
        left -= cost < left ? cost : left;
        count += done > 0;
        sessions->is_held_up = sessions->is_held_up || done == 0;
    }
    return count;
}

unsigned okv_long_work_run(struct okv_sessions *sessions)
{
    unsigned count = run_writes(sessions);

    return sessions->server->config.wipe ? count + wipe(sessions) : count;
}

void okv_long_work_drop(struct okv_sessions *sessions, struct okv_session *session)
{
    for (unsigned i = 0; i < OKV_LONG_WRITES_MAX; i++) {
        struct okv_long_write *write = &session->long_writes[i];
        if (write->state != OKV_LONG_WRITE_RUNNING)
            continue;
        TAILQ_REMOVE(&sessions->long_work, write, in_long_work);
        okv_long_write_drop(write, &sessions->executors[session->database], OKV_EDISCONNECTED);
    }
}
