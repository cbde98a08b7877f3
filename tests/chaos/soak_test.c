/*
 * Faults of every sort, one after the other at random, in rounds. After each round its history is
 * judged, and the server must hold no more than after the first.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "tests/chaos/battery.h"
#include "tests/chaos/crowd.h"
#include "tests/chaos/faults.h"
#include "tests/chaos/resources.h"
#include "tests/chaos/traffic.h"
#include "tests/chaos/victim.h"
#include "tests/support/random.h"
#include "tests/support/server_process.h"

#define ROUND_SECONDS 18.0
#define ROUNDS 2
#define ROUND_SECONDS_LONG 55.0
#define MINUTES_LONG 20
#define TIMEOUT_MS 5000
#define VICTIMS 4
#define BACK_SECONDS 3.0
#define SETTLE_SECONDS 10.0
#define RSS_SLACK_KIB 1024
#define CROWD 20

struct trial {
    struct battery *battery;
    struct server_process server;
    struct traffic traffic;
    struct victims victims;
    struct resources before;
    unsigned rounds;
    unsigned network, cuts, kills, crowds; /* injected */
    uint64_t operations, unknown, failed;
    double slowest_back;
};

static double between(struct trial *trial, double least, double most)
{
    uint64_t thousandth = random_below(&trial->battery->random, 1001);

    return least + (most - least) * (double)thousandth / 1e3;
}

/* ---- faults ---- */

static void bad_network(struct trial *trial)
{
    char what[64];

    switch (random_below(&trial->battery->random, 4)) {
    case 0:
        snprintf(what, sizeof what, "loss %.1f%%", between(trial, 0.1, 5));
        break;
    case 1:
        snprintf(what, sizeof what, "duplicate %.1f%%", between(trial, 1, 10));
        break;
    case 2:
        snprintf(what, sizeof what, "delay %.0fms reorder 25%% 50%%", between(trial, 1, 10));
        break;
    default:
        snprintf(what, sizeof what, "corrupt %.1f%%", between(trial, 0.1, 2));
    }
    battery_note(trial->battery, "%s", what);
    faults_set(trial->battery, FAULTS_BOTH, what);
    battery_sleep(between(trial, 1, 3));
    faults_set(trial->battery, FAULTS_BOTH, NULL);
    trial->network++;
}

static void cut_network(struct trial *trial)
{
    enum faults_end end =
        (enum faults_end)(FAULTS_SERVER + random_below(&trial->battery->random, 3));
    double seconds = between(trial, 0.3, 3);

    battery_note(trial->battery, "cut %d for %.1f s", end, seconds);
    faults_set(trial->battery, end, "loss 100%");
    battery_sleep(seconds);
    faults_set(trial->battery, end, NULL);
    trial->cuts++;
    battery_sleep(between(trial, 0, 1.5));
}

static void kill_victims(struct trial *trial)
{
    for (unsigned i = 0; i < VICTIMS; i++) {
        if (random_below(&trial->battery->random, 2))
            continue;
        victim_kill(&trial->victims, i);
        if (!victim_start(&trial->victims, i, i % 2 ? "deep" : "put"))
            battery_fail(trial->battery, "no process for a client");
        trial->kills++;
    }
    battery_sleep(between(trial, 0.1, 1));
}

static void half_connected(struct trial *trial)
{
    const char *kind = random_below(&trial->battery->random, 2) ? "half-open" : "silent";
    struct crowd_process process = {0};
    struct crowd_result result;

    if (!crowd_start(&process, kind, trial->server.uri, CROWD, 60) ||
        !crowd_read(&process, &result))
        battery_fail(trial->battery, "%s: the clients do not work", kind);
    battery_sleep(between(trial, 0.1, 1));
    crowd_end(&process);
    trial->crowds++;
}

static void one_fault(struct trial *trial)
{
    switch (random_below(&trial->battery->random, 6)) {
    case 0:
    case 1:
        bad_network(trial);
        break;
    case 2:
        cut_network(trial);
        break;
    case 3:
        kill_victims(trial);
        break;
    case 4:
        half_connected(trial);
        break;
    default:
        battery_sleep(between(trial, 0.2, 1));
    }
}

/* ---- rounds ---- */

static void check_round(struct trial *trial, uint64_t calm_ns)
{
    struct traffic *traffic = &trial->traffic;
    double back = traffic_check_back(traffic, calm_ns, BACK_SECONDS, "at the end of the round");

    trial->slowest_back = back > trial->slowest_back ? back : trial->slowest_back;
    traffic_read_all(traffic);
    traffic_check_deadlines(traffic);
    traffic_check_order(traffic);
    traffic_check_logs(traffic);
    trial->operations += traffic->history.length;
    trial->unknown += traffic->unknown;
    trial->failed += traffic->failed;
}

static void check_growth(struct trial *trial)
{
    if (trial->rounds == 1) {
        struct resources warm;
        battery_sleep(SETTLE_SECONDS / 2);
        resources_read(trial->battery, trial->server.pid, &warm);
        trial->before.rss_kib = warm.rss_kib;
    }
    resources_await(trial->battery, trial->server.pid, &trial->before, RSS_SLACK_KIB,
                    SETTLE_SECONDS);
}

static void run_round(struct trial *trial, double seconds)
{
    struct traffic *traffic = &trial->traffic;
    struct faults_counters before, after;

    trial->rounds++;
    faults_read(trial->battery, &before);
    traffic_start(traffic, trial->battery, trial->server.uri, trial->rounds, TIMEOUT_MS, true);
    for (unsigned i = 0; i < VICTIMS; i++)
        victim_start(&trial->victims, i, i % 2 ? "deep" : "put");
    uint64_t end = okv_clock_ns() + (uint64_t)(seconds * 1e9);
    bad_network(trial); /* one at least, so that counters move */
    while (okv_clock_ns() < end)
        one_fault(trial);
    for (unsigned i = 0; i < VICTIMS; i++)
        victim_kill(&trial->victims, i);
    uint64_t calm = okv_clock_ns();
    battery_await_promise(calm, BACK_SECONDS);
    traffic_stop(traffic);
    faults_read(trial->battery, &after);
    after = faults_since(&before, &after);
    if (after.retries + after.gaps + after.duplicates == 0)
        battery_fail(trial->battery, "no counter of the devices moved");
    check_round(trial, calm);
    traffic_fini(traffic);
    check_growth(trial);
    battery_note(trial->battery, "round %u: retries %" PRIu64 ", given up %" PRIu64, trial->rounds,
                 after.retries, after.exceeded);
}

static void run(struct trial *trial, double minutes)
{
    struct battery *battery = trial->battery;
    uint64_t end = okv_clock_ns() + (uint64_t)(minutes * 60e9);

    resources_read(battery, trial->server.pid, &trial->before);
    if (minutes == 0) {
        for (int i = 0; i < ROUNDS; i++)
            run_round(trial, ROUND_SECONDS);
        return;
    }
    while (okv_clock_ns() < end && battery->failures == 0)
        run_round(trial, ROUND_SECONDS_LONG);
}

int main(int argc, char **argv)
{
    static const char *const weak[] = {
        "--memory", "64M", "--max-clients", "64", "--max-clients-per-address", "0", NULL};
    static const char *const full[] = {
        "--memory", "64M", "--max-clients", "64", "--max-clients-per-address", "0", "--remember-s",
        "2",        NULL};
    struct battery battery;
    struct trial *trial = calloc(1, sizeof *trial);

    battery_begin(&battery, "soak", "WORD: minutes (long: 20; short: two rounds of 18 s).", argc,
                  argv);
    double minutes = battery.is_long ? MINUTES_LONG : 0;
    if (battery.word_count)
        minutes = strtod(battery.words[0], NULL);
    if (!trial)
        return 1;
    trial->battery = &battery;
    faults_begin(&battery);
    server_start(&trial->server, battery.weak ? weak : full);
    if (!victims_init(&trial->victims, trial->server.uri, battery.seed % 100000))
        return 1;
    run(trial, minutes);
    victims_fini(&trial->victims);
    if (server_stop(&trial->server))
        battery_fail(&battery, "the server did not end well");
    battery_held(&battery, "%u recorded clients, %u logs and %u processes in %u rounds",
                 TRAFFIC_CLIENTS, TRAFFIC_APPENDERS, VICTIMS, trial->rounds);
    battery_injected(&battery, "bad network %u times, cut %u, kill -9 %u, %u crowds",
                     trial->network, trial->cuts, trial->kills, trial->crowds);
    battery_checked(&battery,
                    "%" PRIu64 " operations explained by one order (%" PRIu64 " unknown, %" PRIu64
                    " failed), every append at most once, all clients back in %.2f s, what the "
                    "server holds after each round",
                    trial->operations, trial->unknown, trial->failed, trial->slowest_back);
    free(trial);
    return battery_end(&battery);
}
