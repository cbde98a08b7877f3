/*
 * A durable server that is killed again and again under clients that go on: everything that they
 * did and saw, one-sided reads among it, is explained by one order of the operations on each key
 * (tests/support/linearizability.h), as if nothing had ended. No outcome is unknown.
 *
 * OKV_LONG=1 kills the server 1,000 times, OKV_KILLS=N so many. The histories are of KILLS kills
 * each, on keys that are not there in the beginning.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "tests/support/linearizability.h"
#include "tests/support/random.h"
#include "tests/support/recorded_client.h"
#include "tests/support/sanitized.h"
#include "tests/support/server_process.h"

#define CLIENTS 8
#define KILLS 8
#define KILLS_LONG 1000
/* Of values that one client writes in one history. */
#define NUMBERS (UINT64_C(1) << 28)

struct trial {
    struct server_process server;
    char data[32];
    const char *arguments[5];
    uint64_t seed;
    struct recorded_load load;
    struct recorded_client clients[CLIENTS];
    atomic_bool is_over;
    uint64_t kills, operations, values, unknown, failed;
};

static uint64_t kills_wanted(void)
{
    const char *kills = getenv("OKV_KILLS");
    const char *is_long = getenv("OKV_LONG");

    if (kills)
        return strtoull(kills, NULL, 10);
    return is_long && strcmp(is_long, "1") == 0 ? KILLS_LONG : KILLS;
}

static void kill_under_load(struct trial *trial, unsigned kills)
{
    for (; kills > 0; kills--) {
        usleep((useconds_t)(10000 + random_below(&trial->seed, 50000)));
        server_signal(&trial->server, SIGKILL);
        server_start(&trial->server, trial->arguments);
        trial->kills++;
    }
    usleep(10000);
}

static void remove_keys(struct trial *trial)
{
    okv *handle = server_connect(&trial->server, NULL);

    for (unsigned i = 0; i < RECORDED_KEYS; i++) {
        const struct recorded_key *key = &trial->load.keys[i];
        int rc = okv_delete(handle, key->bytes, key->length);
        assert_true(rc == OKV_OK || rc == OKV_ENOTFOUND);
    }
    okv_close(&handle);
}

static void note_client(struct trial *trial, const struct recorded_client *client)
{
    if (client->broken_text[0])
        print_message("%s\n", client->broken_text);
    trial->unknown += client->unknown;
    trial->failed += client->failed;
}

static void run_clients(struct trial *trial, unsigned kills, struct history *history)
{
    struct history_log logs[CLIENTS];

    for (unsigned i = 0; i < CLIENTS; i++)
        assert_true(recorded_client_start(&trial->clients[i], &trial->load, i));
    while (atomic_load(&trial->load.opened) < CLIENTS && !atomic_load(&trial->load.failure))
        usleep(1000); /* whoever connects to a server that ends gives up */
    kill_under_load(trial, kills);
    atomic_store(&trial->is_over, true);
    for (unsigned i = 0; i < CLIENTS; i++) {
        recorded_client_join(&trial->clients[i]);
        note_client(trial, &trial->clients[i]);
        logs[i] = trial->clients[i].log;
    }
    assert_true(history_merge(history, logs, CLIENTS));
    for (unsigned i = 0; i < CLIENTS; i++)
        history_log_fini(&logs[i]);
}

static void expect_one_order(struct trial *trial, const struct history *history)
{
    struct linearizability_report report;
    char text[200];

    if (recorded_heads_resolve(history, text, sizeof text))
        fail_msg("a head is wrong: %s", text);
    enum linearizability_verdict verdict = linearizability_check(history, NULL, &report);
    if (verdict != LINEARIZABILITY_HOLDS)
        fail_msg("after %" PRIu64 " kills: key %u: %s: %s", trial->kills, report.key,
                 linearizability_verdict_text(verdict), report.text);
    trial->operations += history->length;
    for (size_t i = 0; i < history->length; i++)
        trial->values +=
            history->records[i].kind == HISTORY_GET && history->records[i].result == HISTORY_OK;
}

static void load_begin(struct trial *trial, uint64_t number)
{
    atomic_store(&trial->is_over, false);
    trial->load = (struct recorded_load){
        .uri = trial->server.uri,
        .seed = trial->seed,
        .and_until = &trial->is_over,
        .numbers_from = number * NUMBERS,
    };
    recorded_load_init(&trial->load);
}

static int setup(void **state)
{
    struct trial *trial = calloc(1, sizeof *trial);
    char uri[64];

    trial->seed = random_seed();
    strcpy(trial->data, "/tmp/okv-history-XXXXXX");
    assert_non_null(mkdtemp(trial->data));
    if (!getenv("OKV_TEST_URI")) { /* every server is at the same place */
        snprintf(uri, sizeof uri, "local://%s/okv.sock", trial->data);
        assert_int_equal(setenv("OKV_TEST_URI", uri, 1), 0);
    }
    trial->arguments[0] = "--memory";
    trial->arguments[1] = "32M";
    trial->arguments[2] = "--data";
    trial->arguments[3] = trial->data;
    server_start(&trial->server, trial->arguments);
    *state = trial;
    return 0;
}

static int teardown(void **state)
{
    struct trial *trial = *state;
    char command[64];

    assert_int_equal(server_stop(&trial->server), 0);
    snprintf(command, sizeof command, "rm -rf %s", trial->data);
    assert_int_equal(system(command), 0);
    free(trial);
    return 0;
}

TEST_WITH(one_order_explains_all, setup, teardown)
{
    struct trial *trial = *state;
    uint64_t wanted = kills_wanted();

    for (uint64_t number = 0; trial->kills < wanted || trial->values == 0; number++) {
        uint64_t left = trial->kills < wanted ? wanted - trial->kills : 1;
        struct history history;
        load_begin(trial, number);
        remove_keys(trial);
        run_clients(trial, left < KILLS ? (unsigned)left : KILLS, &history);
        expect_one_order(trial, &history);
        history_fini(&history);
        if (atomic_load(&trial->load.failure))
            fail_msg("a client failed: %s", okv_errname(atomic_load(&trial->load.failure)));
        assert_int_equal(atomic_load(&trial->load.broken), 0);
    }
    print_message("%" PRIu64 " kills, %" PRIu64 " operations, %" PRIu64 " values seen, %" PRIu64
                  " unknown, %" PRIu64 " failed\n",
                  trial->kills, trial->operations, trial->values, trial->unknown, trial->failed);
    assert_int_equal(trial->unknown, 0);
    assert_int_equal(trial->failed, 0);
}
