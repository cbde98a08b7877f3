/*
 * A network that is cut for a time, in both directions or in one. Operations end by their
 * deadlines, clients are back soon after it heals, and no write is applied twice.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "tests/chaos/faults.h"
#include "tests/chaos/traffic.h"
#include "tests/support/server_process.h"

#define TIMEOUT_MS 2000
#define CALM_SECONDS 2.0
#define BACK_SECONDS 3.0

struct cut {
    const char *name;
    enum faults_end end;
    double seconds;
};

static const struct cut CUTS[] = {
    {"1s", FAULTS_BOTH, 1},
    {"5s", FAULTS_BOTH, 5},
    {"replies-5s", FAULTS_SERVER, 5},
    {"requests-5s", FAULTS_CLIENTS, 5},
    {"60s", FAULTS_BOTH, 60},
    {"replies-60s", FAULTS_SERVER, 60},
    {"requests-60s", FAULTS_CLIENTS, 60},
};
#define CUT_COUNT (sizeof CUTS / sizeof *CUTS)
#define CUT_COUNT_SHORT 4

struct trial {
    struct battery *battery;
    struct server_process server;
    struct traffic traffic;
    unsigned round;
    uint64_t operations, unknown, failed;
    double slowest_back;
};

static void check_counters(struct trial *trial, const struct cut *cut,
                           const struct faults_counters *moved)
{
    for (unsigned end = 0; end < 2; end++)
        if (cut->end & 1u << end && moved->dropped[end] == 0)
            battery_fail(trial->battery, "%s: end %u dropped nothing", cut->name, end);
    if (moved->retries == 0)
        battery_fail(trial->battery, "%s: no device tried again", cut->name);
    battery_injected(trial->battery, "%s (%" PRIu64 " packets)", cut->name,
                     moved->dropped[0] + moved->dropped[1]);
}

static void check_cut(struct trial *trial, const struct cut *cut, uint64_t healed_ns)
{
    struct traffic *traffic = &trial->traffic;
    double back = traffic_check_back(traffic, healed_ns, BACK_SECONDS, cut->name);

    traffic_read_all(traffic);
    traffic_check_deadlines(traffic);
    traffic_check_order(traffic);
    traffic_check_logs(traffic);
    trial->slowest_back = back > trial->slowest_back ? back : trial->slowest_back;
    trial->operations += traffic->history.length;
    trial->unknown += traffic->unknown;
    trial->failed += traffic->failed;
    battery_note(trial->battery,
                 "%s: %zu operations, %" PRIu64 " unknown, %" PRIu64 " failed, %" PRIu64
                 " handles reopened, back after %.2f s",
                 cut->name, traffic->history.length, traffic->unknown, traffic->failed,
                 traffic->reopened, back);
}

static void run_cut(struct trial *trial, const struct cut *cut)
{
    struct traffic *traffic = &trial->traffic;
    struct faults_counters before, after;

    traffic_start(traffic, trial->battery, trial->server.uri, ++trial->round, TIMEOUT_MS, true);
    battery_sleep(CALM_SECONDS);
    faults_read(trial->battery, &before);
    faults_set(trial->battery, cut->end, "loss 100%");
    battery_sleep(cut->seconds);
    faults_set(trial->battery, cut->end, NULL);
    uint64_t healed = okv_clock_ns();
    battery_await_promise(healed, BACK_SECONDS);
    faults_read(trial->battery, &after);
    after = faults_since(&before, &after);
    traffic_stop(traffic);
    check_counters(trial, cut, &after);
    check_cut(trial, cut, healed);
    traffic_fini(traffic);
}

static bool wanted(const struct battery *battery, size_t cut)
{
    for (int i = 0; i < battery->word_count; i++)
        if (strcmp(battery->words[i], CUTS[cut].name) == 0)
            return true;
    return battery->word_count == 0 && (battery->is_long || cut < CUT_COUNT_SHORT);
}

int main(int argc, char **argv)
{
    static const char *const arguments[] = {
        "--memory", "32M", "--max-clients", "64", "--max-clients-per-address", "0", NULL};
    struct battery battery;
    struct trial *trial = calloc(1, sizeof *trial);

    battery_begin(&battery, "partition",
                  "WORDs: cuts, of 1s 5s replies-5s requests-5s (the short form), 60s replies-60s "
                  "requests-60s.",
                  argc, argv);
    if (!trial)
        return 1;
    trial->battery = &battery;
    server_start(&trial->server, arguments);
    faults_begin(&battery);
    for (size_t i = 0; i < CUT_COUNT; i++)
        if (wanted(&battery, i))
            run_cut(trial, &CUTS[i]);
    if (trial->round == 0)
        battery_fail(&battery, "no such cut");
    if (server_stop(&trial->server))
        battery_fail(&battery, "the server did not end well");
    battery_held(&battery, "%u recorded clients and %u logs, deadline %.0f s", TRAFFIC_CLIENTS,
                 TRAFFIC_APPENDERS, TIMEOUT_MS / 1e3);
    battery_checked(&battery,
                    "%" PRIu64 " operations explained by one order (%" PRIu64 " unknown, %" PRIu64
                    " failed) and ended by their deadline, every append at most once, all clients "
                    "back %.2f s after the network",
                    trial->operations, trial->unknown, trial->failed, trial->slowest_back);
    free(trial);
    return battery_end(&battery);
}
