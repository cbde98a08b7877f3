#include "tests/support/durable_load.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>

#include "tests/support/test.h"
#include <okv_admin.h>

#include "shared/base/clock.h"
#include "tests/support/numbered_value.h"
#include "tests/support/pace.h"

/* ---- names ---- */

static bool is_counter(unsigned name)
{
    return name >= DURABLE_KEYS;
}

static size_t spell(unsigned name, char key[16])
{
    return (size_t)snprintf(key, 16, is_counter(name) ? "sum %u" : "key %u", name);
}

/* In `buffer`, of NUMBERED_VALUE_MAX bytes. OKV_ECORRUPT: it is no value of this name. */
static int get(okv *handle, unsigned name, uint8_t *buffer, struct durable_fact *fact)
{
    char key[16], text[24] = "";
    size_t size, length = spell(name, key);
    int rc = okv_get(handle, key, length, buffer, NUMBERED_VALUE_MAX, &size, &fact->version);

    if (rc)
        return rc;
    if (!is_counter(name))
        return numbered_value_check(buffer, size, name, &fact->number) ? OKV_OK : OKV_ECORRUPT;
    if (size >= sizeof text)
        return OKV_ECORRUPT;
    memcpy(text, buffer, size);
    fact->number = strtoull(text, NULL, 10);
    return OKV_OK;
}

/* Writes `fact->number`. OKV_ECORRUPT: a counter is another one now. */
static int put(okv *handle, unsigned name, uint8_t *buffer, struct durable_fact *fact)
{
    char key[16];
    size_t length = spell(name, key);
    int64_t sum;

    if (is_counter(name)) {
        int rc = okv_incr(handle, key, length, 1, &sum, &fact->version);
        return rc == OKV_OK && (uint64_t)sum != fact->number ? OKV_ECORRUPT : rc;
    }
    numbered_value_fill(buffer, name, fact->number);
    return okv_put(handle, key, length, buffer, numbered_value_length(name, fact->number),
                   &fact->version);
}

/* ---- facts ---- */

void durable_facts_learn(struct durable_facts *facts, unsigned name, struct durable_fact fact)
{
    if (fact.number > facts->of[name].number)
        facts->of[name] = fact;
}

static void check_name(unsigned name, struct durable_fact known, struct durable_fact found)
{
    bool is_next = found.number == known.number + 1;

    if (found.number != known.number && !is_next)
        fail_msg("name %u has number %" PRIu64 ", and %" PRIu64 " is known", name, found.number,
                 known.number);
    if (is_next ? found.version <= known.version : found.version != known.version)
        fail_msg("name %u has number %" PRIu64 " of version %" PRIu64 ", and %" PRIu64
                 " of version %" PRIu64 " is known",
                 name, found.number, found.version, known.number, known.version);
}

void durable_facts_check(const struct durable_facts *facts, const struct server_process *server,
                         struct durable_facts *found)
{
    uint8_t *buffer = malloc(NUMBERED_VALUE_MAX);
    okv *handle = server_connect(server, NULL);

    for (unsigned name = 0; name < DURABLE_NAMES; name++) {
        struct durable_fact fact = {0, 0};
        int rc = get(handle, name, buffer, &fact);
        if (rc && rc != OKV_ENOTFOUND)
            fail_msg("get of name %u: %s", name, okv_errname(rc));
        check_name(name, facts->of[name], fact);
        if (found)
            found->of[name] = fact;
    }
    okv_close(&handle);
    free(buffer);
}

/* ---- threads ---- */

struct thread {
    struct durable_load *load;
    okv *handle;
    unsigned number; /* the writer of names that have this remainder; the reader's is the last */
    pthread_t id;
};

static void note(struct durable_load *load, unsigned name, struct durable_fact fact)
{
    if (load->note)
        load->note(load->user, name, fact);
}

static bool write_next(struct durable_load *load, okv *handle, unsigned name, uint8_t *buffer)
{
    struct durable_fact *answered = &load->answered.of[name];
    struct durable_fact fact = {answered->number + 1, 0};
    int rc = put(handle, name, buffer, &fact);

    if (rc == OKV_ECORRUPT)
        load->wrong = "a counter was increased by more than 1";
    if (rc)
        return false;
    if (fact.version <= answered->version)
        load->wrong = "a version did not rise";
    *answered = fact;
    note(load, name, fact);
    atomic_fetch_add(&load->answers, 1);
    return true;
}

static void *write_all(void *user)
{
    const struct thread *thread = user;
    struct durable_load *load = thread->load;
    uint8_t *buffer = malloc(NUMBERED_VALUE_MAX);
    unsigned name = thread->number;

    while (!atomic_load(&load->has_to_stop) && write_next(load, thread->handle, name, buffer))
        name = (name + DURABLE_WRITERS) % DURABLE_NAMES;
    free(buffer);
    return NULL;
}

static void see(struct durable_load *load, unsigned name, struct durable_fact fact)
{
    struct durable_fact *seen = &load->seen.of[name];

    if (fact.number < seen->number)
        load->wrong = "a reader saw an older value than before";
    if (fact.number <= seen->number)
        return;
    *seen = fact;
    note(load, name, fact);
}

static void *read_all(void *user)
{
    const struct thread *thread = user;
    struct durable_load *load = thread->load;
    uint8_t *buffer = malloc(NUMBERED_VALUE_MAX);
    struct durable_fact fact;

    for (unsigned i = 0; !atomic_load(&load->has_to_stop); i++) {
        int rc = get(thread->handle, i % DURABLE_NAMES, buffer, &fact);
        if (rc == OKV_ECORRUPT)
            load->wrong = "a reader saw a mixed value";
        if (rc == OKV_OK)
            see(load, i % DURABLE_NAMES, fact);
    }
    free(buffer);
    return NULL;
}

static void await_answers(struct durable_load *load, unsigned count)
{
    uint64_t end = pace_guard_end();

    while (atomic_load(&load->answers) < count && !load->wrong && okv_clock_ns() < end)
        pace_sleep_ms(1);
    if (atomic_load(&load->answers) < count && !load->wrong)
        load->wrong = "a server that runs answers no writes";
}

static void snapshot(const struct server_process *server)
{
    char answer[32];
    size_t length;
    okv *handle = server_connect(server, NULL);

    assert_int_equal(okv_admin(handle, "snapshot", answer, sizeof answer, &length), OKV_OK);
    okv_close(&handle);
}

static void learn_all(struct durable_load *load)
{
    for (unsigned name = 0; name < DURABLE_NAMES; name++) {
        durable_facts_learn(&load->known, name, load->answered.of[name]);
        durable_facts_learn(&load->known, name, load->seen.of[name]);
    }
}

void durable_load_run(struct durable_load *load, struct server_process *server, unsigned writes,
                      bool with_snapshot)
{
    const struct okv_options options = {.reconnect = OKV_RECONNECT_NEVER};
    struct thread threads[DURABLE_WRITERS + 1];

    load->answered = load->seen = load->known;
    atomic_store(&load->answers, 0);
    atomic_store(&load->has_to_stop, false);
    for (unsigned i = 0; i <= DURABLE_WRITERS; i++) {
        threads[i] =
            (struct thread){.load = load, .handle = server_connect(server, &options), .number = i};
        assert_int_equal(pthread_create(&threads[i].id, NULL,
                                        i < DURABLE_WRITERS ? write_all : read_all, &threads[i]),
                         0);
    }
    await_answers(load, writes / 2);
    if (with_snapshot) /* the kill may come in the middle of it */
        snapshot(server);
    await_answers(load, writes);
    server_signal(server, SIGKILL);
    atomic_store(&load->has_to_stop, true);
    for (unsigned i = 0; i <= DURABLE_WRITERS; i++) {
        pthread_join(threads[i].id, NULL);
        okv_close(&threads[i].handle);
    }
    server_wait(server);
    if (load->wrong)
        fail_msg("%s", load->wrong);
    learn_all(load);
}

void durable_load_check(struct durable_load *load, const struct server_process *server)
{
    struct durable_facts found;

    durable_facts_check(&load->known, server, &found);
    for (unsigned name = 0; name < DURABLE_NAMES; name++)
        if (found.of[name].number)
            note(load, name, found.of[name]);
    load->known = found;
}
