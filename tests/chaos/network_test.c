/*
 * A bad network: loss, duplicates, another order, damaged packets. Operations go on, all that
 * clients did and saw is explained by one order, and nothing that was acknowledged is lost.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "tests/chaos/faults.h"
#include "tests/chaos/traffic.h"
#include "tests/support/server_process.h"

#define SECONDS 6
#define SECONDS_LONG 600
#define PART_SECONDS 60 /* a history is judged and forgotten after so long */
#define TIMEOUT_MS 20000
#define PROGRESS_SECONDS 5.0

struct mode {
    const char *name, *netem;
};

static const struct mode MODES[] = {
    {"loss-0.1", "loss 0.1%"},
    {"loss-1", "loss 1%"},
    {"loss-5", "loss 5%"},
    {"duplicate", "duplicate 5%"},
    {"reorder", "delay 5ms reorder 25% 50%"},
    {"corrupt", "corrupt 1%"},
};
#define MODE_COUNT (sizeof MODES / sizeof *MODES)

struct trial {
    struct battery *battery;
    struct server_process server;
    struct traffic traffic;
    double seconds; /* of each mode */
    unsigned round;
    uint64_t operations, unknown, failed;
};

/* A fault that no counter shows has tested nothing. Some packets are sent again on a good network
 * too, for want of time; but what is received is then what was sent. */
static bool is_shown(const struct mode *mode, const struct faults_counters *moved)
{
    double received = (double)moved->packets / (double)(moved->sent + 1);
    double repaired = (double)(moved->retries + moved->gaps) / (double)(moved->packets + 1);

    switch (mode->name[0]) {
    case 'l':
        return moved->dropped[0] && moved->dropped[1] && repaired > 0;
    case 'd':
        return received > 1.02 && moved->duplicates > 0;
    case 'r':
        return repaired > 0.015;
    default:
        return received < 0.997 && repaired > 0;
    }
}

static void check_counters(struct trial *trial, const struct mode *mode,
                           const struct faults_counters *moved)
{
    battery_note(trial->battery,
                 "%s: packets %" PRIu64 " of %" PRIu64 ", dropped %" PRIu64 "+%" PRIu64
                 ", retries %" PRIu64 ", duplicates %" PRIu64 ", gaps %" PRIu64
                 ", given up %" PRIu64,
                 mode->name, moved->packets, moved->sent, moved->dropped[0], moved->dropped[1],
                 moved->retries, moved->duplicates, moved->gaps, moved->exceeded);
    if (!is_shown(mode, moved))
        battery_fail(trial->battery, "%s: the counters do not show it", mode->name);
}

static void run_part(struct trial *trial, const struct mode *mode, double seconds)
{
    struct traffic *traffic = &trial->traffic;
    struct faults_counters before, after;

    traffic_start(traffic, trial->battery, trial->server.uri, ++trial->round, TIMEOUT_MS, true);
    faults_read(trial->battery, &before);
    faults_set(trial->battery, FAULTS_BOTH, mode->netem);
    uint64_t from = okv_clock_ns();
    battery_sleep(seconds);
    uint64_t to = okv_clock_ns();
    faults_read(trial->battery, &after);
    faults_set(trial->battery, FAULTS_BOTH, NULL);
    traffic_stop(traffic);
    traffic_read_all(traffic);
    after = faults_since(&before, &after);
    check_counters(trial, mode, &after);
    traffic_check_progress(traffic, from, to, PROGRESS_SECONDS);
    traffic_check_order(traffic);
    traffic_check_logs(traffic);
    trial->operations += traffic->history.length;
    trial->unknown += traffic->unknown;
    trial->failed += traffic->failed;
    battery_note(
        trial->battery,
        "%s: %zu operations, %" PRIu64 " unknown, %" PRIu64 " failed, %" PRIu64 " handles reopened",
        mode->name, traffic->history.length, traffic->unknown, traffic->failed, traffic->reopened);
    traffic_fini(traffic);
    battery_injected(trial->battery, "%s %" PRIu64 " times", mode->name,
                     mode->netem[0] == 'l'  ? after.dropped[0] + after.dropped[1]
                     : mode->name[0] == 'd' ? after.duplicates
                                            : after.retries + after.gaps);
}

static void run_mode(struct trial *trial, const struct mode *mode)
{
    double left = trial->seconds;

    for (; left > 0; left -= PART_SECONDS)
        run_part(trial, mode, left < PART_SECONDS ? left : PART_SECONDS);
}

/* A word that is a number says how long; returns how many such there are. */
static int read_seconds(struct trial *trial)
{
    const struct battery *battery = trial->battery;
    int numbers = 0;

    trial->seconds = battery->is_long ? SECONDS_LONG : SECONDS;
    for (int i = 0; i < battery->word_count; i++) {
        char *end;
        double seconds = strtod(battery->words[i], &end);
        if (*end != '\0' || seconds <= 0)
            continue;
        trial->seconds = seconds;
        numbers++;
    }
    return numbers;
}

static bool wanted(const struct battery *battery, int numbers, const struct mode *mode)
{
    for (int i = 0; i < battery->word_count; i++)
        if (strcmp(battery->words[i], mode->name) == 0)
            return true;
    return battery->word_count == numbers;
}

int main(int argc, char **argv)
{
    static const char *const arguments[] = {
        "--memory", "32M", "--max-clients", "64", "--max-clients-per-address", "0", NULL};
    struct battery battery;
    struct trial *trial = calloc(1, sizeof *trial);
    unsigned modes = 0;

    battery_begin(
        &battery, "network",
        "WORDs: modes, of loss-0.1 loss-1 loss-5 duplicate reorder corrupt (all); seconds "
        "of each (6; long: 600).",
        argc, argv);
    if (!trial)
        return 1;
    trial->battery = &battery;
    int numbers = read_seconds(trial);
    server_start(&trial->server, arguments);
    faults_begin(&battery);
    for (size_t i = 0; i < MODE_COUNT; i++)
        if (wanted(&battery, numbers, &MODES[i])) {
            run_mode(trial, &MODES[i]);
            modes++;
        }
    if (modes == 0)
        battery_fail(&battery, "no such mode");
    if (server_stop(&trial->server))
        battery_fail(&battery, "the server did not end well");
    battery_held(&battery, "%u recorded clients and %u logs on %u keys", TRAFFIC_CLIENTS,
                 TRAFFIC_APPENDERS, RECORDED_KEYS);
    battery_checked(&battery,
                    "%" PRIu64 " operations explained by one order (%" PRIu64 " unknown, %" PRIu64
                    " failed), every append once, an answer for each client in %.0f s",
                    trial->operations, trial->unknown, trial->failed, PROGRESS_SECONDS);
    free(trial);
    return battery_end(&battery);
}
