/*
 * Clients that do not do their part: stopped while they are owed replies, without receives,
 * connected by half, connected and silent, or all at once. Bystanders must not notice.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/base/clock.h"
#include "tests/chaos/battery.h"
#include "tests/chaos/crowd.h"
#include "tests/chaos/faults.h"
#include "tests/chaos/stalls.h"
#include "tests/chaos/victim.h"
#include "tests/support/hostile_verbs.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/server_process.h"

#define BYSTANDERS 4
#define BYSTANDER_PAUSE_NS 3000000
#define BYSTANDER_FAILURES 0.001
#define STALLED_PART 4 /* of the time of an operation */
#define STOPPED 4
#define STOPPED_SECONDS 6.0
#define STOPPED_SECONDS_LONG 60.0
#define DEAF_REQUEST_SLOTS 4u
#define HALF_OPEN 500
#define HALF_OPEN_LONG 10000
#define SILENT 40
#define STORM 500
#define FREED_SECONDS 5.0 /* keepalive and some more */

struct bystanding {
    const char *uri;
    unsigned index;
    const atomic_bool *stop;
    pthread_t thread;
    uint64_t tried, failed, stalled, slowest_ns;
    int failure;
};

struct trial {
    struct battery *battery;
    struct server_process server;
    struct victims victims;
    struct bystanding bystanders[BYSTANDERS];
    atomic_bool stop;
    okv *handle;       /* for the server's figures */
    uint64_t sessions; /* of bystanders and this handle */
};

/* ---- bystanders ---- */

static int stand_by_once(struct bystanding *by, okv *handle)
{
    char key[32], value[32];
    size_t length = 0;
    int size = snprintf(key, sizeof key, "by%u.%u", by->index, (unsigned)(by->tried % 100));
    uint64_t begin = okv_clock_ns();
    int rc = by->tried % 2 ? okv_get(handle, key, (size_t)size, value, sizeof value, &length, NULL)
                           : okv_put(handle, key, (size_t)size, key, (size_t)size, NULL);
    uint64_t took = okv_clock_ns() - begin;

    by->slowest_ns = took > by->slowest_ns ? took : by->slowest_ns;
    rc = rc == OKV_ENOTFOUND ? OKV_OK : rc;
    /* One that failed while the machine stood still says nothing. */
    if (rc && stalls_between(begin, begin + took) > took / STALLED_PART)
        by->stalled++;
    else
        by->failed += rc != OKV_OK;
    by->tried++;
    return rc;
}

static void *stand_by(void *user)
{
    struct bystanding *by = user;
    const struct okv_options options = {.timeout_ms = 1500 + pace_ms(500)};
    okv *handle;
    int rc = patient_open(by->uri, &options, &handle, NULL, 0);

    by->failure = rc;
    while (handle && !atomic_load(by->stop)) {
        rc = stand_by_once(by, handle);
        by->failure = rc ? rc : by->failure;
        nanosleep(&(struct timespec){0, BYSTANDER_PAUSE_NS}, NULL);
    }
    okv_close(&handle);
    return NULL;
}

static void bystanders_start(struct trial *trial)
{
    for (unsigned i = 0; i < BYSTANDERS; i++) {
        struct bystanding *by = &trial->bystanders[i];
        *by = (struct bystanding){.uri = trial->server.uri, .index = i, .stop = &trial->stop};
        if (pthread_create(&by->thread, NULL, stand_by, by))
            exit(1);
    }
}

static void bystanders_judge(struct trial *trial)
{
    uint64_t tried = 0, failed = 0, stalled = 0, slowest = 0;

    atomic_store(&trial->stop, true);
    for (unsigned i = 0; i < BYSTANDERS; i++) {
        struct bystanding *by = &trial->bystanders[i];
        pthread_join(by->thread, NULL);
        tried += by->tried;
        failed += by->failed;
        stalled += by->stalled;
        slowest = by->slowest_ns > slowest ? by->slowest_ns : slowest;
        if (by->failure)
            battery_note(trial->battery, "bystander %u: %s", i, okv_errname(by->failure));
        if (by->tried == 0)
            battery_fail(trial->battery, "bystander %u did nothing", i);
    }
    if ((double)failed > BYSTANDER_FAILURES * (double)tried)
        battery_fail(trial->battery, "%" PRIu64 " of %" PRIu64 " operations failed", failed, tried);
    battery_held(trial->battery, "%d bystanders", BYSTANDERS);
    battery_checked(trial->battery,
                    "of %" PRIu64 " operations of bystanders %" PRIu64 " failed, %" PRIu64
                    " more while the machine stood still, slowest %.2f s",
                    tried, failed, stalled, (double)slowest / 1e9);
}

/* ---- what others do ---- */

/* The server lets go of all but the bystanders in time. */
static void expect_freed(struct trial *trial, const char *what)
{
    uint64_t begin = okv_clock_ns(), sessions;
    double took;

    do {
        sessions = server_stat(trial->handle, "sessions");
        took = (double)(okv_clock_ns() - begin) / 1e9;
    } while (sessions > trial->sessions && !battery_is_late(begin, okv_clock_ns(), FREED_SECONDS) &&
             (battery_sleep(0.05), true));
    battery_note(trial->battery, "%s: %" PRIu64 " clients are left after %.2f s", what,
                 sessions - trial->sessions, took);
    if (sessions > trial->sessions && !trial->battery->weak)
        battery_fail(trial->battery, "%s: %" PRIu64 " clients are still there after %.1f s", what,
                     sessions - trial->sessions, took);
}

static uint64_t answers(const struct trial *trial)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < STOPPED; i++)
        sum += atomic_load(&trial->victims.states[i].puts);
    return sum;
}

static void signal_victims(struct trial *trial, int signal)
{
    for (unsigned i = 0; i < STOPPED; i++)
        kill(trial->victims.pids[i], signal);
}

/* They are alive by the rules, whatever they are owed: they go on when they are let. */
static void stopped_clients(struct trial *trial)
{
    double seconds = trial->battery->is_long ? STOPPED_SECONDS_LONG : STOPPED_SECONDS;

    for (unsigned i = 0; i < STOPPED; i++)
        if (!victim_start(&trial->victims, i, "deep"))
            battery_fail(trial->battery, "no process for a client");
    for (uint64_t end = pace_guard_end(); answers(trial) < STOPPED * 100 && okv_clock_ns() < end;)
        battery_sleep(0.1);
    signal_victims(trial, SIGSTOP);
    battery_sleep(0.2);
    uint64_t before = answers(trial);
    battery_sleep(seconds);
    if (before == 0 || answers(trial) != before)
        battery_fail(trial->battery, "the clients were not stopped at work");
    signal_victims(trial, SIGCONT);
    for (uint64_t end = pace_guard_end(); answers(trial) == before && okv_clock_ns() < end;)
        battery_sleep(0.1);
    if (answers(trial) == before)
        battery_fail(trial->battery, "clients that were stopped do not go on");
    signal_victims(trial, SIGSTOP);
    battery_sleep(0.5);
    for (unsigned i = 0; i < STOPPED; i++)
        victim_kill(&trial->victims, i);
    expect_freed(trial, "stopped and killed");
    battery_injected(trial->battery, "%d clients owed %d replies each stopped for %.0f s", STOPPED,
                     32, seconds);
}

/* Its replies find no receive. The transport would wait for ever; the server must not. */
static void deaf_client(struct trial *trial)
{
    struct faults_counters before, after;
    struct attacker attacker;

    faults_read(trial->battery, &before);
    attacker_join(&attacker, &trial->server);
    uint64_t begin = okv_clock_ns();
    for (unsigned request_slot = 0; request_slot < DEAF_REQUEST_SLOTS; request_slot++) {
        struct okv_wire_request header = {.sequence = okv_le64_of(request_slot + 1)};
        memset(attacker.bytes, 0, sizeof header);
        memcpy(attacker.bytes, &header, sizeof header);
        attacker_try(&attacker, &(struct attack){.opcode = IBV_WR_SEND_WITH_IMM,
                                                 .length = OKV_REQUEST_HEADER,
                                                 .immediate = okv_immediate(
                                                     OKV_OP_PING, (uint16_t)request_slot)});
    }
    if (trial->battery->weak)
        battery_sleep(3);
    else
        attacker_expect_end(&attacker, "a client without receives");
    uint64_t end = okv_clock_ns();
    double took = (double)(end - begin) / 1e9;
    attacker_leave(&attacker);
    faults_read(trial->battery, &after);
    after = faults_since(&before, &after);
    if (after.not_ready == 0)
        battery_fail(trial->battery, "no receiver was without a buffer");
    if (battery_is_late(begin, end, FREED_SECONDS))
        battery_fail(trial->battery, "a client without receives was ended after %.1f s", took);
    expect_freed(trial, "without receives");
    battery_injected(trial->battery,
                     "a client without receives (not ready %" PRIu64 " times, ended after %.1f s)",
                     after.not_ready, took);
}

static bool crowd_ask(struct trial *trial, struct crowd_process *process, const char *kind,
                      unsigned count, struct crowd_result *result)
{
    *result = (struct crowd_result){0};
    if (!crowd_start(process, kind, trial->server.uri, count, 60) || !crowd_read(process, result)) {
        battery_fail(trial->battery, "%s: the clients do not work", kind);
        return false;
    }
    battery_note(trial->battery, "%s: asked %u, answered %u, refused %u, failed %u in %.1f s", kind,
                 result->asked, result->answered, result->refused, result->failed, result->seconds);
    if (result->answered == 0 || result->answered + result->refused + result->failed != count)
        battery_fail(trial->battery, "%s: the server did not answer", kind);
    return true;
}

/* The process lives on, so that nobody tells the server that they are gone. */
static void half_open_clients(struct trial *trial)
{
    unsigned count = trial->battery->is_long ? HALF_OPEN_LONG : HALF_OPEN;
    struct crowd_process process = {0};
    struct crowd_result result;

    if (crowd_ask(trial, &process, "half-open", count, &result))
        expect_freed(trial, "half-open");
    crowd_end(&process);
    expect_freed(trial, "half-open, gone");
    battery_injected(trial->battery, "%u half-open connections (%u answered)", result.asked,
                     result.answered);
}

static void silent_clients(struct trial *trial)
{
    struct crowd_process process = {0};
    struct crowd_result result;

    if (crowd_ask(trial, &process, "silent", SILENT, &result)) {
        kill(process.pid, SIGSTOP);
        battery_sleep(3);
        uint64_t sessions = server_stat(trial->handle, "sessions");
        if (sessions < trial->sessions + SILENT)
            battery_fail(trial->battery, "of %d silent clients %" PRIu64 " were ended", SILENT,
                         trial->sessions + SILENT - sessions);
    }
    crowd_end(&process);
    expect_freed(trial, "silent and killed");
    battery_injected(trial->battery, "%u silent clients stopped and killed", result.answered);
}

static void storm(struct trial *trial)
{
    struct crowd_process process = {0};
    struct crowd_result result;

    crowd_ask(trial, &process, "storm", STORM, &result);
    crowd_end(&process);
    if (result.failed)
        battery_fail(trial->battery, "%u of the storm had no answer", result.failed);
    expect_freed(trial, "storm");
    battery_injected(trial->battery, "%u connects at once (%u in, %u refused, in %.1f s)",
                     result.asked, result.answered, result.refused, result.seconds);
}

/* ---- which ---- */

static const struct phase {
    const char *name;
    void (*run)(struct trial *);
} PHASES[] = {
    {"stopped", stopped_clients}, {"deaf", deaf_client}, {"half-open", half_open_clients},
    {"silent", silent_clients},   {"storm", storm},
};

static bool wanted(const struct battery *battery, const char *name)
{
    for (int i = 0; i < battery->word_count; i++)
        if (strcmp(battery->words[i], name) == 0)
            return true;
    return battery->word_count == 0;
}

int main(int argc, char **argv)
{
    static const char *const arguments[] = {
        "--memory", "16M", "--max-clients", "128", "--max-clients-per-address", "0", NULL};
    struct battery battery;
    struct trial *trial = calloc(1, sizeof *trial);

    battery_begin(&battery, "slow_clients",
                  "WORDs: what others do, of stopped deaf half-open silent storm; all.", argc,
                  argv);
    if (!trial)
        return 1;
    trial->battery = &battery;
    faults_begin(&battery);
    server_start(&trial->server, arguments);
    if (!victims_init(&trial->victims, trial->server.uri, battery.seed % 100000))
        return 1;
    trial->handle = server_connect(&trial->server, NULL);
    bystanders_start(trial);
    battery_sleep(1);
    trial->sessions = server_stat(trial->handle, "sessions");
    for (size_t i = 0; i < sizeof PHASES / sizeof *PHASES; i++)
        if (wanted(&battery, PHASES[i].name))
            PHASES[i].run(trial);
    bystanders_judge(trial);
    victims_fini(&trial->victims);
    okv_close(&trial->handle);
    if (server_stop(&trial->server))
        battery_fail(&battery, "the server did not end well");
    free(trial);
    return battery_end(&battery);
}
