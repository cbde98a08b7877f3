#include "tests/chaos/resources.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"

static uint64_t rss_of(pid_t pid)
{
    char path[64], line[256];
    uint64_t kib = 0;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtoull(line + 6, NULL, 10);
    if (file)
        fclose(file);
    return kib;
}

static uint64_t descriptors_of(pid_t pid)
{
    char path[64];
    uint64_t count = 0;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    if (directory)
        closedir(directory);
    return count;
}

/* Of the server's device, which nobody else uses. The process that is named there is the thread
 * that made the object, so that it tells nothing; what the kernel has names none. */
static uint64_t device_objects(const char *kind)
{
    char command[64], line[512];
    uint64_t count = 0;

    snprintf(command, sizeof command, "rdma resource show %s", kind);
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe))
        count += strstr(line, " rxe0") && strstr(line, " pid ");
    if (pipe)
        pclose(pipe);
    return count;
}

void resources_read(struct battery *battery, pid_t pid, struct resources *out)
{
    *out = (struct resources){
        .rss_kib = rss_of(pid),
        .descriptors = descriptors_of(pid),
        .queue_pairs = device_objects("qp"),
        .regions = device_objects("mr"),
        .connections = device_objects("cm_id"),
    };
    if (out->rss_kib == 0 || out->regions == 0)
        battery_fail(battery, "nothing is known of process %d", (int)pid);
}

const char *resources_text(const struct resources *resources, char text[160])
{
    snprintf(text, 160,
             "rss %" PRIu64 " KiB, %" PRIu64 " descriptors, %" PRIu64 " queue pairs, %" PRIu64
             " memory regions, %" PRIu64 " connections",
             resources->rss_kib, resources->descriptors, resources->queue_pairs, resources->regions,
             resources->connections);
    return text;
}

/* A log keeps the memory of its longest batch, and a snapshot that of what waited for the disk.
 * Each is 8 MiB at most. */
#define LOG_KIB (UINT64_C(16) << 10)

static bool is_back(const struct resources *now, const struct resources *before, uint64_t slack_kib)
{
    uint64_t percent = before->rss_kib / 100;

    if (getenv("OKV_TEST_DATA"))
        slack_kib += LOG_KIB;
    return now->rss_kib <= before->rss_kib + (slack_kib > percent ? slack_kib : percent) &&
           now->descriptors <= before->descriptors && now->queue_pairs <= before->queue_pairs &&
           now->regions <= before->regions && now->connections <= before->connections;
}

double resources_await(struct battery *battery, pid_t pid, const struct resources *before,
                       uint64_t slack_kib, double seconds)
{
    uint64_t begin = okv_clock_ns();
    struct resources now;
    char text[160], text_before[160];
    double took;

    do {
        resources_read(battery, pid, &now);
        took = (double)(okv_clock_ns() - begin) / 1e9;
        if (is_back(&now, before, slack_kib))
            break;
        battery_sleep(0.2);
    } while (!battery_is_late(begin, okv_clock_ns(), seconds));
    if (!is_back(&now, before, slack_kib))
        battery_fail(battery, "after %.0f s the server holds %s; before %s", seconds,
                     resources_text(&now, text), resources_text(before, text_before));
    else
        battery_note(battery, "after %.1f s the server holds %s; before %s", took,
                     resources_text(&now, text), resources_text(before, text_before));
    return took;
}
