#include "tests/chaos/faults.h"

#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define WORDS_MAX 32

extern char **environ;

static const char *const DEVICES[2] = {"v0", "v1"};

/* Words separated by blanks; the first is the program. */
static bool run(char *words)
{
    char *argv[WORDS_MAX] = {NULL}, *save;
    unsigned count = 0;
    pid_t pid;
    int status;

    for (char *word = strtok_r(words, " ", &save); word && count + 1 < WORDS_MAX;
         word = strtok_r(NULL, " ", &save))
        argv[count++] = word;
    return posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0 &&
           waitpid(pid, &status, 0) == pid && status == 0;
}

static void netem(struct battery *battery, const char *verb, unsigned end, const char *what)
{
    char words[200];

    /* Without a word on corruption netem would keep the one before. */
    snprintf(words, sizeof words, "tc qdisc %s dev %s root netem limit 20000 %s %s", verb,
             DEVICES[end], what ? what : "", what && strstr(what, "corrupt") ? "" : "corrupt 0%");
    if (!run(words))
        battery_fail(battery, "netem on %s does not take '%s'", DEVICES[end], what ? what : "");
}

void faults_begin(struct battery *battery)
{
    for (unsigned end = 0; end < 2; end++)
        netem(battery, "replace", end, NULL);
}

void faults_set(struct battery *battery, enum faults_end end, const char *what)
{
    for (unsigned i = 0; i < 2; i++)
        if (end & 1u << i)
            netem(battery, "change", i, what);
}

static uint64_t number_in(const char *path)
{
    char text[32] = "";
    FILE *file = fopen(path, "r");

    if (!file)
        return 0;
    char *line = fgets(text, sizeof text, file);
    fclose(file);
    return line ? strtoull(line, NULL, 10) : 0;
}

/* Of both devices. */
static uint64_t device_counter(const char *name)
{
    uint64_t sum = 0;
    char path[160];

    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/sys/class/infiniband/rxe%u/ports/1/hw_counters/%s", i, name);
        sum += number_in(path);
    }
    return sum;
}

static uint64_t netem_drops(struct battery *battery, unsigned end)
{
    char command[64], text[2048] = "";

    snprintf(command, sizeof command, "tc -s -j qdisc show dev %s", DEVICES[end]);
    FILE *pipe = popen(command, "r");
    size_t length = pipe ? fread(text, 1, sizeof text - 1, pipe) : 0;
    if (pipe)
        pclose(pipe);
    text[length] = '\0';
    const char *drops = strstr(text, "\"drops\":");
    if (!drops) {
        battery_fail(battery, "%s tells no drops", command);
        return 0;
    }
    return strtoull(drops + strlen("\"drops\":"), NULL, 10);
}

void faults_read(struct battery *battery, struct faults_counters *out)
{
    *out = (struct faults_counters){
        .dropped = {netem_drops(battery, 0), netem_drops(battery, 1)},
        .sent = device_counter("sent_pkts"),
        .packets = device_counter("rcvd_pkts"),
        .retries = device_counter("completer_retry_err"),
        .exceeded = device_counter("retry_exceeded_err"),
        .duplicates = device_counter("duplicate_request"),
        .gaps = device_counter("out_of_seq_request") + device_counter("rcvd_seq_err"),
        .not_ready = device_counter("rcvd_rnr_err") + device_counter("send_rnr_err"),
    };
}

struct faults_counters faults_since(const struct faults_counters *before,
                                    const struct faults_counters *now)
{
    return (struct faults_counters){
        .dropped = {now->dropped[0] - before->dropped[0], now->dropped[1] - before->dropped[1]},
        .sent = now->sent - before->sent,
        .packets = now->packets - before->packets,
        .retries = now->retries - before->retries,
        .exceeded = now->exceeded - before->exceeded,
        .duplicates = now->duplicates - before->duplicates,
        .gaps = now->gaps - before->gaps,
        .not_ready = now->not_ready - before->not_ready,
    };
}
