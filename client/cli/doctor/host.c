#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <unistd.h>

#include "client/cli/doctor/checks.h"
#include "client/cli/doctor/files.h"
#include "shared/base/memory_limit.h"
#include "shared/base/size.h"
#include "shared/devices/fabric.h"

/* Below it a server cannot register a region of the default size. */
#define MEMLOCK_LEAST (UINT64_C(256) << 20)
/* Below it a client cannot register the buffers of a handle, 1.3 MiB. */
#define MEMLOCK_OF_CLIENT (UINT64_C(2) << 20)
/* What a server with the default --max-clients on one listener over local:// may take, and four
 * workers: server/main/descriptors.c. */
#define FILES_LEAST 4368u

/* True when the limit on locked memory does not apply to this process. */
static bool may_lock_all(const char *root)
{
    char path[DOCTOR_PATH_SIZE], line[128];
    unsigned long long effective = 0;

    snprintf(path, sizeof path, "%s/proc/self/status", root);
    FILE *status = fopen(path, "re");
    if (!status)
        return false;
    while (fgets(line, sizeof line, status) && sscanf(line, "CapEff: %llx", &effective) != 1)
        continue;
    fclose(status);
    return effective >> CAP_IPC_LOCK & 1;
}

static void check_memlock(struct doctor_report *report, const char *root, const char *server)
{
    static const char what[] = "locked memory";
    bool is_over_rdma = strncmp(server, "rdma://", 7) == 0;
    struct rlimit limit;
    char size[32];

    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
        may_lock_all(root)) {
        doctor_add(report, DOCTOR_OK, what, NULL, "no limit");
        return;
    }
    okv_size_format(limit.rlim_cur, size, sizeof size);
    enum doctor_level level = limit.rlim_cur >= MEMLOCK_LEAST                      ? DOCTOR_OK
                              : is_over_rdma && limit.rlim_cur < MEMLOCK_OF_CLIENT ? DOCTOR_PROBLEM
                                                                                   : DOCTOR_NOTE;
    doctor_add(report, level, what,
               level == DOCTOR_OK ? NULL
                                  : "memlock in limits.conf(5), and log in again; of a service "
                                    "LimitMEMLOCK=infinity in its unit",
               "%s: over rdma:// all memory of a server must fit, and 1.3 MiB for each handle of a "
               "client",
               size);
}

static void check_memory_limit(struct doctor_report *report, const char *root)
{
    uint64_t limit;
    char size[OKV_SIZE_TEXT];

    if (!okv_memory_limit(root, &limit))
        return;
    okv_size_format(limit, size, sizeof size);
    doctor_add(
        report, DOCTOR_NOTE, "memory limit",
        "a higher memory.max, or MemoryMax= in a service's unit, or less --memory",
        "%s for this control group: all memory of a server and its clients' buffers must fit",
        size);
}

static void check_files(struct doctor_report *report)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    bool is_little = limit.rlim_max < FILES_LEAST;
    doctor_add(report, is_little ? DOCTOR_NOTE : DOCTOR_OK, "open files",
               is_little ? "a hard nofile in limits.conf(5), and log in again; of a service "
                           "LimitNOFILE=65536 in its unit; or fewer --max-clients"
                         : NULL,
               "up to %llu: a server takes up to four for each client over local://, two over "
               "ofi://: %u for 1024 clients",
               (unsigned long long)limit.rlim_max, FILES_LEAST);
}

static void check_huge_pages(struct doctor_report *report, const char *root)
{
    unsigned long long pages = 0, unused = 0;

    if (!doctor_file_number(root, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
                            &pages) ||
        !doctor_file_number(root, "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
                            &unused)) {
        doctor_add(report, DOCTOR_NOTE, "huge pages", "serve without --huge",
                   "this kernel has none of 2 MiB");
        return;
    }
    doctor_add(
        report, pages > 0 ? DOCTOR_OK : DOCTOR_NOTE, "huge pages",
        pages > 0 ? NULL : "sysctl vm.nr_hugepages=N, half of the MiB of --memory",
        "%llu of 2 MiB are reserved, %llu are free: okv-server takes them for rdma://, and with "
        "--huge",
        pages, unused);
}

/* Only root can read its rules, so this is a hint. */
static void check_firewall(struct doctor_report *report, const char *root)
{
    bool has_one = doctor_file_exists(root, "/sys/module/nf_tables") ||
                   doctor_file_exists(root, "/sys/module/ip_tables");

    if (has_one)
        doctor_add(report, DOCTOR_OK, "firewall", NULL,
                   "this kernel has one: RoCE needs UDP port 4791, tcp:// TCP port 7471, tcps:// "
                   "7472, ofi:// over TCP all TCP ports between clients and server, --metrics its "
                   "own");
}

/* A user of such a host expects ofi:// to take it. */
static void check_fabric(struct doctor_report *report, const char *root)
{
    char device[96];

    if (okv_unused_fabric(root, device, sizeof device))
        doctor_add(report, DOCTOR_NOTE, "fabric", "use tcp://, or rdma:// where there is RoCE",
                   "there is %s, which okv cannot use yet: ofi:// goes over TCP here", device);
}

/* Each get from a cluster, and each wait, reads the time. */
static void check_clock(struct doctor_report *report, const char *root)
{
    char source[32];
    struct timex state = {.modes = 0};

    if (!doctor_file_line(root, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                          source, sizeof source))
        return;
    bool is_slow = strcmp(source, "hpet") == 0 || strcmp(source, "acpi_pm") == 0 ||
                   strcmp(source, "jiffies") == 0;
    bool is_alone = adjtimex(&state) == TIME_ERROR;
    doctor_add(report, is_slow || is_alone ? DOCTOR_NOTE : DOCTOR_OK, "clock",
               is_slow    ? "see dmesg for why the kernel does not take the processor's clock"
               : is_alone ? "run chrony or systemd-timesyncd where a server is in a cluster: its "
                            "items expire by the wall clock"
                          : NULL,
               "%s%s%s", source, is_slow ? ", which takes 1 us or more to read" : "",
               is_alone ? "; the wall clock is not synchronised"
                        : "; the wall clock is synchronised");
}

void doctor_check_host(struct doctor_report *report, const char *root, const char *server)
{
    check_memlock(report, root, server);
    check_memory_limit(report, root);
    check_files(report);
    check_huge_pages(report, root);
    check_clock(report, root);
    check_firewall(report, root);
    check_fabric(report, root);
}
