#include "server/session/long_work.h"

#include "server/command/change.h"
#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/session/lifecycle.h"
#include "server/session/long_write.h"
#include "server/session/reply.h"
#include "server/store/evict.h"
#include "server/store/store.h"
#include "shared/base/error.h"
#include "shared/format/bucket.h"

/* The least that a turn counts as: even a short one may apply a write. */
#define TURN_MIN (OKV_LONG_WORK_SLICE / 16)
/* What a page of a bucket that is taken apart counts as: the longest bucket is a slice. */
#define PAGE_COST (OKV_LONG_WORK_SLICE / OKV_BUCKET_PAGES_MAX)
/* Writes that are held up and that a turn of their database tries again, at most. */
#define TRIES 4

static void join(struct okv_long_write_list *list, struct okv_long_write *write)
{
    write->list = list;
    TAILQ_INSERT_TAIL(list, write, in_list);
}

static void leave(struct okv_long_write *write)
{
    TAILQ_REMOVE(write->list, write, in_list);
}

void okv_long_work_add(struct okv_sessions *sessions, struct okv_long_write *write)
{
    join(&sessions->long_work[write->session->common.database].running, write);
}

/* Returns the bytes of the turn, or 0 if the write is held up. */
static uint64_t take_turn(struct okv_sessions *sessions, struct okv_long_write *write,
                          uint64_t most)
{
    struct okv_session *session = write->session;
    struct okv_long_work *work = &sessions->long_work[session->common.database];

    leave(write);
    okv_session_end_unwanted(sessions, session);
    uint64_t done = okv_long_write_run(write, &sessions->executors[session->common.database], most);
    if (write->state == OKV_LONG_WRITE_RUNNING) {
        join(done ? &work->running : &work->held_up, write);
        return done;
    }
    if (write->state == OKV_LONG_WRITE_COMMITTING) {
        okv_session_reply_after(sessions, session, write->batch, &write->reply);
        okv_long_write_free(write);
    }
    okv_sessions_make_ready(sessions, session);
    return done ? done : 1;
}

/* Takes a turn off what is left of the slice: all, if the server had to make room. Returns whether
 * the write went on. */
static bool run_write(struct okv_sessions *sessions, struct okv_long_write *write, uint64_t *left)
{
    struct okv_store_work *work = &sessions->works[write->session->common.database];
    unsigned room_steps = work->room_steps;

    work->effort = &write->effort;
    okv_store_work_take(work);
    uint64_t done = take_turn(sessions, write, *left);
    uint64_t cost = (done < TURN_MIN ? TURN_MIN : done) + work->loaded_pages * PAGE_COST;

    if (work->room_steps != room_steps)
        *left = 0;
    if (done == 0) {
        sessions->is_held_up = true;
        return false;
    }
    *left -= cost < *left ? cost : *left;
    return true;
}

/* Those that are held up come first, or one that always runs would keep them from it. */
static unsigned run_database(struct okv_sessions *sessions, struct okv_long_work *work,
                             uint64_t *left)
{
    const struct okv_long_write *last = TAILQ_LAST(&work->held_up, okv_long_write_list);
    struct okv_long_write *write = NULL;
    unsigned count = 0;

    for (unsigned tries = TRIES; tries > 0 && *left > 0 && write != last; tries--) {
        write = TAILQ_FIRST(&work->held_up);
        count += run_write(sessions, write, left);
    }
    while (*left > 0 && (write = TAILQ_FIRST(&work->running)))
        count += run_write(sessions, write, left);
    return count;
}

static bool has_work(const struct okv_long_work *work)
{
    return !TAILQ_EMPTY(&work->running) || !TAILQ_EMPTY(&work->held_up);
}

static unsigned run_writes(struct okv_sessions *sessions)
{
    uint64_t left = OKV_LONG_WORK_SLICE;
    unsigned databases = sessions->server->database_count;
    unsigned count = 0;

    for (unsigned i = 0; i < databases && left > 0; i++) {
        struct okv_long_work *work = &sessions->long_work[sessions->run_next];
        sessions->run_next = (sessions->run_next + 1) % databases;
        if (!has_work(work))
            continue;
        okv_housekeeping_update_clock(&sessions->housekeeping, sessions->server);
        count += run_database(sessions, work, &left);
    }
    return count;
}

static unsigned wipe(struct okv_sessions *sessions)
{
    struct okv_server *server = sessions->server;
    uint64_t done, left = OKV_LONG_WORK_SLICE;

    for (unsigned i = 0; i < server->database_count && left >= TURN_MIN; i++) {
        struct okv_heap *heap = &server->databases[sessions->wipe_next].store.heap;
        sessions->wipe_next = (sessions->wipe_next + 1) % server->database_count;
        while (left >= TURN_MIN && (done = okv_heap_wipe(heap, left)) > 0)
            left -= done;
    }
    return left < OKV_LONG_WORK_SLICE;
}

/* Keeps a reserve of memory in databases that evict, in a step of each. Returns how many of them
 * have more to do. */
static unsigned evict(struct okv_sessions *sessions)
{
    struct okv_server *server = sessions->server;
    unsigned count = 0;

    for (unsigned i = 0; i < server->database_count; i++) {
        struct okv_store *store = &server->databases[i].store;
        struct okv_change change;
        if (!okv_store_evict_is_due(store) ||
            !okv_change_begin(&change, &sessions->executors[i], &sessions->exclusive_ticket))
            continue;
        count += okv_store_evict(store, &sessions->works[i]);
        okv_store_work_take(&sessions->works[i]);
        okv_change_end(&change, false); /* nobody waits for it */
    }
    return count;
}

unsigned okv_long_work_run(struct okv_sessions *sessions)
{
    unsigned count = run_writes(sessions) + evict(sessions);

    return sessions->server->config.wipe ? count + wipe(sessions) : count;
}

void okv_long_work_drop(struct okv_sessions *sessions, struct okv_session *session)
{
    for (unsigned i = 0; i < OKV_LONG_WRITES_MAX; i++) {
        struct okv_long_write *write = &session->long_writes[i];
        if (write->state != OKV_LONG_WRITE_RUNNING)
            continue;
        leave(write);
        okv_long_write_drop(write, &sessions->executors[session->common.database],
                            OKV_EDISCONNECTED);
    }
}
