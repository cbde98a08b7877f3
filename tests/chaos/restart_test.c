/*
 * A server that is killed and started again under load. Its memory is gone with it, so each
 * boot has a history of its own that begins with an empty table: a value that was put in an
 * earlier boot is one that nobody wrote there.
 *
 * One write more is under way at each death, sent to a server that is stopped and so cannot answer:
 * its outcome must be told as unknown, and the next server must not be asked for it.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "tests/chaos/faults.h"
#include "tests/chaos/traffic.h"
#include "tests/support/random.h"
#include "tests/support/server_process.h"

#define WITNESS "witness"
#define WITNESS_SECONDS 30
#define RESTARTS 5
#define RESTARTS_LONG 50
#define TIMEOUT_MS 5000
#define BACK_SECONDS 3.0

/* When the server of a boot was killed: it lived until `killed`, and was gone at `dead`. */
struct death {
    uint64_t killed, dead, ready_again;
};

struct trial {
    struct battery *battery;
    struct server_process server;
    struct traffic traffic;
    struct death deaths[RESTARTS_LONG + 1];
    unsigned death_count;
    okv *witness;
    uint64_t across; /* operations that more than one boot may have seen */
};

static const char *const SERVER[] = {
    "--memory", "32M", "--max-clients", "64", "--max-clients-per-address", "0", NULL};

/* Sent, and on its way, when this returns. */
static void witness_send(struct trial *trial)
{
    const struct okv_command incr = {.kind = OKV_INCR,
                                     .key = WITNESS,
                                     .key_length = strlen(WITNESS),
                                     .delta = 1,
                                     .timeout_ms = WITNESS_SECONDS * 1000};
    struct okv_result result;

    server_signal(&trial->server, SIGSTOP);
    if (okv_submit(trial->witness, &incr, 1, NULL) || okv_wait(trial->witness, 50) != OKV_ETIMEDOUT)
        battery_fail(trial->battery, "a stopped server answers: %s",
                     okv_poll(trial->witness, &result, 1) == 1 ? okv_errname(result.status)
                                                               : okv_why(trial->witness));
}

static void witness_ask(struct trial *trial)
{
    struct okv_result result = {.status = OKV_EIO};
    size_t length;
    char value[32];

    okv_wait(trial->witness, WITNESS_SECONDS * 1000);
    okv_poll(trial->witness, &result, 1);
    if (result.status != OKV_EUNKNOWN)
        battery_fail(trial->battery, "a write that died with its server was told as %s",
                     okv_errname(result.status));
    int rc = okv_get(trial->witness, WITNESS, strlen(WITNESS), value, sizeof value, &length, NULL);
    if (rc != OKV_ENOTFOUND)
        battery_fail(trial->battery, "what was written in an earlier boot is read as %s",
                     okv_errname(rc));
}

static void restart(struct trial *trial)
{
    struct death *death = &trial->deaths[trial->death_count++];

    witness_send(trial);
    death->killed = okv_clock_ns();
    server_signal(&trial->server, SIGKILL);
    death->dead = okv_clock_ns();
    server_start(&trial->server, SERVER);
    death->ready_again = okv_clock_ns();
    battery_note(trial->battery, "restart %u took %.2f s", trial->death_count,
                 (double)(death->ready_again - death->killed) / 1e9);
    witness_ask(trial);
}

/* The boots that may have seen an operation. */
static void boots_of(const struct trial *trial, const struct history_record *record,
                     unsigned *first, unsigned *last)
{
    for (*first = 0; *first < trial->death_count; ++*first)
        if (record->invoke < trial->deaths[*first].dead)
            break;
    for (*last = *first; *last < trial->death_count; ++*last)
        if (record->response < trial->deaths[*last].killed)
            break;
}

/* What a boot may have seen of a record; false: nothing that says anything. */
static bool belongs_to(struct trial *trial, unsigned boot, struct history_record *record)
{
    unsigned first, last;

    boots_of(trial, record, &first, &last);
    if (boot < first || boot > last)
        return false;
    if (first == last)
        return true;
    trial->across += boot == first;
    if (record->kind == HISTORY_GET || record->result == HISTORY_FAILED)
        return false;
    record->result = HISTORY_UNKNOWN;
    record->version = 0;
    if (record->kind == HISTORY_INCR)
        record->value = 0;
    return true;
}

static void check_boot(struct trial *trial, unsigned boot)
{
    const struct history *all = &trial->traffic.history;
    struct history one = {.records = malloc((all->length + 1) * sizeof *one.records)};
    char what[32];

    if (!one.records) {
        battery_fail(trial->battery, "no memory");
        return;
    }
    for (size_t i = 0; i < all->length; i++) {
        one.records[one.length] = all->records[i];
        one.length += belongs_to(trial, boot, &one.records[one.length]);
    }
    snprintf(what, sizeof what, "boot %u", boot);
    traffic_judge(trial->battery, &one, what);
    history_fini(&one);
}

static void run(struct trial *trial, unsigned restarts)
{
    struct traffic *traffic = &trial->traffic;
    struct battery *battery = trial->battery;

    trial->witness = server_connect(&trial->server, NULL);
    traffic_start(traffic, battery, trial->server.uri, 1, TIMEOUT_MS, false);
    for (unsigned i = 0; i < restarts; i++) {
        battery_sleep(1.0 + (double)random_below(&battery->random, 1000) / 1e3);
        restart(trial);
        battery_await_promise(trial->deaths[i].ready_again, BACK_SECONDS);
    }
    okv_close(&trial->witness);
    traffic_stop(traffic);
    traffic_read_all(traffic);
}

static void check(struct trial *trial)
{
    struct traffic *traffic = &trial->traffic;
    double slowest = 0;
    char what[32];

    traffic_check_deadlines(traffic);
    for (unsigned i = 0; i < trial->death_count; i++) {
        snprintf(what, sizeof what, "restart %u", i + 1);
        double back = traffic_check_back(traffic, trial->deaths[i].ready_again, BACK_SECONDS, what);
        slowest = back > slowest ? back : slowest;
    }
    for (unsigned boot = 0; boot <= trial->death_count; boot++)
        check_boot(trial, boot);
    battery_note(trial->battery, "%" PRIu64 " handles reopened", traffic->reopened);
    battery_held(trial->battery, "%u recorded clients on %u keys, deadline %.0f s", TRAFFIC_CLIENTS,
                 RECORDED_KEYS, TIMEOUT_MS / 1e3);
    battery_injected(trial->battery, "kill -9 and restart of the server %u times",
                     trial->death_count);
    battery_checked(
        trial->battery,
        "%zu operations explained boot by boot (%" PRIu64 " unknown, %" PRIu64 " failed, %" PRIu64
        " across a restart), no value of an earlier boot, no write sent to two boots, clients back "
        "in %.2f s",
        traffic->history.length, traffic->unknown, traffic->failed, trial->across, slowest);
}

int main(int argc, char **argv)
{
    struct battery battery;
    struct trial *trial = calloc(1, sizeof *trial);

    battery_begin(&battery, "restart", "WORD: how many restarts (5; long: 50).", argc, argv);
    unsigned long restarts = battery.is_long ? RESTARTS_LONG : RESTARTS;
    if (battery.word_count)
        restarts = strtoul(battery.words[0], NULL, 10);
    if (!trial || restarts == 0 || restarts > RESTARTS_LONG) {
        fprintf(stderr, "1 to %d restarts\n", RESTARTS_LONG);
        return 2;
    }
    trial->battery = &battery;
    server_start(&trial->server, SERVER);
    run(trial, (unsigned)restarts);
    check(trial);
    if (server_stop(&trial->server))
        battery_fail(&battery, "the server did not end well");
    traffic_fini(&trial->traffic);
    free(trial);
    return battery_end(&battery);
}
