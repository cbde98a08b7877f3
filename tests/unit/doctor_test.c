/* What okv doctor says of RDMA devices and limits, from a tree of files that stands for /sys and
 * /proc. */
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "client/cli/doctor/checks.h"
#include "client/cli/doctor/clocks.h"
#include "tests/support/own_addresses.h"
#include "tests/support/sanitized.h"
#include "tests/support/sysfs_tree.h"

#define DEVICE "/sys/class/infiniband/mlx5_0"
#define PORT DEVICE "/ports/1"

struct host {
    struct sysfs_tree tree;
    struct doctor_report report;
};

static void put(const struct host *host, const char *file, const char *line)
{
    sysfs_tree_put(&host->tree, file, line);
}

static void put_gid(const struct host *host, const char *index, const char *gid, const char *type)
{
    sysfs_tree_put_gid(&host->tree, "mlx5_0", "1", index, gid, type, "eth1");
}

/* One port of RoCE that is well. */
static int host_open(void **state)
{
    struct host *host = calloc(1, sizeof *host);

    assert_non_null(host);
    sysfs_tree_create(&host->tree);
    sysfs_tree_put_port(&host->tree, "mlx5_0", "1");
    put_gid(host, "0", SYSFS_LINK_LOCAL, "IB/RoCE v1");
    put_gid(host, "1", SYSFS_LINK_LOCAL, "RoCE v2");
    put_gid(host, "2", SYSFS_MAPPED, "IB/RoCE v1");
    put_gid(host, "3", SYSFS_MAPPED, "RoCE v2");
    put(host, "/sys/class/net/eth1/mtu", "9000");
    put(host, "/dev/infiniband/rdma_cm", "");
    doctor_report_init(&host->report);
    *state = host;
    return 0;
}

static int host_close(void **state)
{
    struct host *host = *state;

    doctor_report_fini(&host->report);
    sysfs_tree_remove(&host->tree);
    free(host);
    return 0;
}

/* The number of findings of this level whose text or fix has `words`. */
static unsigned count(const struct host *host, const char *level, const char *words)
{
    const json_t *finding;
    unsigned found = 0;
    size_t i;

    json_array_foreach(host->report.findings, i, finding)
    {
        const char *text = json_string_value(json_object_get(finding, "text"));
        const char *fix = json_string_value(json_object_get(finding, "fix"));
        found += strcmp(json_string_value(json_object_get(finding, "level")), level) == 0 &&
                 (strstr(text, words) || (fix && strstr(fix, words)));
    }
    return found;
}

TEST_WITH(a_port_that_is_well_has_no_problem, host_open, host_close)
{
    struct host *host = *state;

    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(host->report.problems, 0);
    assert_int_equal(count(host, "ok", "4: ACTIVE, Ethernet, 100 Gb/sec"), 1);
    assert_int_equal(count(host, "ok", "GID 3: 10.0.0.1, RoCE v2, chosen by ?device="), 1);
    assert_int_equal(count(host, "ok", "never chosen where there is RoCE v2"), 2);
    assert_int_equal(count(host, "ok", ": fe80::202:c9ff:fe00:1%eth1, "), 2);
    assert_int_equal(count(host, "ok", "rdma_cm is there"), 1);
    assert_int_equal(count(host, "ok", "MTU of eth1 is 9000: RDMA packets of 4096"), 1);
    assert_int_equal(count(host, "note", ""), 0);
}

TEST_WITH(a_port_that_is_down, host_open, host_close)
{
    struct host *host = *state;

    put(host, PORT "/state", "1: DOWN");
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(host->report.problems, 1);
    assert_int_equal(count(host, "problem", "ip link set eth1 up"), 1);
}

TEST_WITH(a_machine_without_a_connection_manager, host_open, host_close)
{
    struct host *host = *state;
    char path[64];

    snprintf(path, sizeof path, "%s/dev/infiniband/rdma_cm", host->tree.root);
    remove(path);
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(host->report.problems, 1);
    assert_int_equal(count(host, "problem", "modprobe rdma_ucm"), 1);
}

TEST_WITH(limits_that_rule_a_device_out, host_open, host_close)
{
    struct host *host = *state;
    struct okv_device_limits limits = {
        .firmware = "1.2", .max_region = 1 << 20, .reads_in = 16, .reads_out = 16};

    doctor_add_limits(&host->report, "mlx5_0", &limits);
    assert_int_equal(host->report.problems, 0);
    assert_int_equal(count(host, "ok", "regions of 1 MiB"), 1);
    limits.is_iwarp = true;
    doctor_add_limits(&host->report, "mlx5_0", &limits);
    assert_int_equal(count(host, "problem", "speaks iWARP"), 1);
    limits.is_iwarp = false;
    limits.reads_in = 0;
    doctor_add_limits(&host->report, "mlx5_0", &limits);
    assert_int_equal(count(host, "problem", "no RDMA READ"), 1);
}

TEST_WITH(a_device_without_an_address, host_open, host_close)
{
    struct host *host = *state;

    put_gid(host, "2", SYSFS_NO_GID, "");
    put_gid(host, "3", SYSFS_NO_GID, "");
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(host->report.problems, 1);
    assert_int_equal(count(host, "problem", "ip addr add ADDRESS/24 dev eth1"), 1);
}

TEST_WITH(an_mtu_that_makes_messages_short, host_open, host_close)
{
    struct host *host = *state;

    put(host, "/sys/class/net/eth1/mtu", "1500");
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(host->report.problems, 0);
    assert_int_equal(count(host, "note", "packets of 1024 bytes"), 1);
    assert_int_equal(
        count(host, "note", "ip link set eth1 mtu 4200, on all hosts and switches on the path"), 1);
    put(host, "/sys/class/net/eth1/mtu", "1100");
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(count(host, "note", "packets of 512 bytes"), 1);
}

/* An interface of a port: `number` begins with 0. */
static void put_interface(struct host *host, const char *name, const char *type, const char *number)
{
    char path[80];

    snprintf(path, sizeof path, "/sys/class/infiniband/mlx5_0/device/net/%s/mtu", name);
    put(host, path, "2044");
    snprintf(path, sizeof path, "/sys/class/net/%s/type", name);
    put(host, path, type);
    snprintf(path, sizeof path, "/sys/class/net/%s/dev_port", name);
    put(host, path, number);
}

/* Its GIDs are no addresses. The interface of the loopback has one on every host. */
TEST_WITH(infiniband_takes_the_address_of_ipoib, host_open, host_close)
{
    struct host *host = *state;

    put(host, PORT "/link_layer", "InfiniBand");
    put_interface(host, "lo", "1", "0"); /* no IPoIB */
    doctor_check_devices(&host->report, host->tree.root);
    put_interface(host, "lo", "32", "1"); /* of another port */
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(host->report.problems, 2);
    assert_int_equal(count(host, "problem", "modprobe ib_ipoib && ip addr add ADDRESS/24 dev ib0"),
                     2);
    put_interface(host, "none7", "32", "0");
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(host->report.problems, 3);
    assert_int_equal(count(host, "problem", "ip addr add ADDRESS/24 dev none7"), 1);
    put_interface(host, "lo", "32", "0");
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(host->report.problems, 3);
    assert_int_equal(count(host, "ok", "takes the addresses of lo"), 1);
    doctor_check_route(&host->report, host->tree.root, "rdma://127.0.0.1?source=127.0.0.1");
    assert_int_equal(count(host, "ok", "leaves by mlx5_0 port 1, lo (127.0.0.1)"), 1);
    doctor_check_route(&host->report, host->tree.root, "rdma://127.0.0.1?source=10.9.9.9");
    assert_int_equal(count(host, "note", "leaves by the address 10.9.9.9, which no"), 1);
}

TEST_WITH(an_ipv6_address_is_enough, host_open, host_close)
{
    struct host *host = *state;

    put_gid(host, "2", SYSFS_NO_GID, "");
    put_gid(host, "3", SYSFS_GLOBAL_2, "RoCE v2");
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(host->report.problems, 0);
    assert_int_equal(count(host, "note", ""), 0);
}

TEST_WITH(slow_slots_and_translation_are_named, host_open, host_close)
{
    struct host *host = *state;

    put(host, DEVICE "/device/current_link_width", "8");
    put(host, DEVICE "/device/max_link_width", "16");
    put(host, DEVICE "/device/current_link_speed", "8.0 GT/s PCIe");
    put(host, DEVICE "/device/max_link_speed", "16.0 GT/s PCIe");
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(
        count(host, "note", "PCIe x8 at 8.0 GT/s PCIe, and it can x16 at 16.0 GT/s PCIe"), 1);
    put(host, DEVICE "/device/current_link_width", "0"); /* of a virtual function */
    put(host, DEVICE "/device/iommu_group/type", "DMA-FQ");
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(count(host, "note", "PCIe"), 1);
    assert_int_equal(count(host, "note", "iommu=pt on the kernel's command line"), 1);
    put(host, DEVICE "/device/iommu_group/type", "identity");
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(count(host, "ok", "the IOMMU passes it through"), 1);
}

TEST_WITH(a_fabric_that_cannot_be_used_is_named, host_open, host_close)
{
    struct host *host = *state;
    char link[128];

    doctor_check_host(&host->report, host->tree.root, "");
    assert_int_equal(count(host, "note", "ofi:// goes over TCP"), 0);
    put(host, "/sys/class/cxi/cxi0/state", "up");
    doctor_check_host(&host->report, host->tree.root, "");
    assert_int_equal(count(host, "note", "there is Slingshot (cxi0)"), 1);
    put(host, "/sys/class/infiniband/efa_0/device/name", "efa");
    snprintf(link, sizeof link, "%s/sys/class/infiniband/efa_0/device/driver", host->tree.root);
    assert_int_equal(symlink("../../../../bus/pci/drivers/efa", link), 0);
    doctor_check_host(&host->report, host->tree.root, "");
    assert_int_equal(count(host, "note", "there is EFA (efa_0)"), 1);
}

#define CLOCK "/sys/devices/system/clocksource/clocksource0/current_clocksource"

TEST_WITH(a_slow_clock_is_named, host_open, host_close)
{
    struct host *host = *state;

    doctor_check_host(&host->report, host->tree.root, "");
    assert_int_equal(count(host, "note", "wall clock") + count(host, "ok", "wall clock"), 0);
    put(host, CLOCK, "tsc");
    doctor_check_host(&host->report, host->tree.root, "");
    assert_int_equal(count(host, "note", "tsc; the") + count(host, "ok", "tsc; the"), 1);
    put(host, CLOCK, "hpet");
    doctor_check_host(&host->report, host->tree.root, "");
    assert_int_equal(count(host, "note", "hpet, which takes 1 us or more to read"), 1);
}

/* A second apart, and an exchange of 100 us each. */
TEST(clocks_are_compared)
{
    const struct doctor_clocks first = {.wall_us = 5000000,
                                        .lease_us = 700,
                                        .own_wall_us = 5000000,
                                        .own_lease_us = 900,
                                        .spread_us = 50};
    struct doctor_clocks second = {.wall_us = 6000000,
                                   .lease_us = 1000700,
                                   .own_wall_us = 6000000,
                                   .own_lease_us = 1000900,
                                   .spread_us = 50};
    struct doctor_clock_rates rates = doctor_clocks_compare(&first, &second);

    assert_int_equal(rates.ahead_us, 0);
    assert_int_equal(rates.ppm, 0);
    assert_int_equal(rates.error_ppm, 101);
    second.lease_us -= 600;
    second.wall_us -= 250000;
    rates = doctor_clocks_compare(&first, &second);
    assert_int_equal(rates.ahead_us, -250000);
    assert_int_equal(rates.ppm, -600);
}

TEST_WITH(addresses_of_another_namespace_are_named, host_open, host_close)
{
    struct host *host = *state;

    own_addresses_hide(SYSFS_MAPPED);
    doctor_check_devices(&host->report, host->tree.root);
    own_addresses_hide(NULL);
    assert_int_equal(count(host, "ok", "10.0.0.1, RoCE v2, which no interface here has"), 1);
    assert_int_equal(count(host, "ok", "10.0.0.1, RoCE v2, chosen"), 0);
}

TEST_WITH(a_second_device_has_findings_of_its_own, host_open, host_close)
{
    struct host *host = *state;

    sysfs_tree_put_port(&host->tree, "rxe0", "1");
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(count(host, "note", "cannot use this port"), 1); /* it has no address */
    assert_int_equal(count(host, "ok", "ACTIVE"), 2);
    put(host, PORT "/state", "1: DOWN"); /* and now none is usable */
    doctor_check_devices(&host->report, host->tree.root);
    assert_int_equal(host->report.problems, 2);
}

/* The ways of URIs, each on its own: a finding of this level has the words. */
static void check_way(struct host *host, const char *uri, const char *level, const char *words)
{
    doctor_report_fini(&host->report);
    doctor_report_init(&host->report);
    doctor_check_route(&host->report, host->tree.root, uri);
    assert_int_equal(count(host, level, words), 1);
    assert_int_equal(json_array_size(host->report.findings), 1);
}

TEST_WITH(a_route_leads_to_a_gid, host_open, host_close)
{
    static const char loopback[] = "0000:0000:0000:0000:0000:ffff:7f00:0001";
    struct host *host = *state;

    check_way(host, "rdma://127.0.0.1", "note", "127.0.0.1, which no RDMA device here has");
    put_gid(host, "4", loopback, "IB/RoCE v1");
    check_way(host, "rdma://127.0.0.1", "ok", "leaves by mlx5_0 port 1, GID 4 (127.0.0.1)");
    put_gid(host, "5", loopback, "RoCE v2");
    check_way(host, "rdma://127.0.0.1", "ok", "leaves by mlx5_0 port 1, GID 5 (127.0.0.1)");
    check_way(host, "rdma://127.0.0.1?source=10.0.0.1", "ok", "port 1, GID 3 (10.0.0.1)");
    check_way(host, "rdma://127.0.0.1?device=mlx5_0&gid=3", "ok", "port 1, GID 3 (10.0.0.1)");
    put_gid(host, "6", SYSFS_GLOBAL, "RoCE v2");
    check_way(host, "rdma://127.0.0.1?source=FD00:0::7", "ok", "port 1, GID 6 (FD00:0::7)");
    check_way(host, "rdma://127.0.0.1?device=mlx5_1", "note", "mlx5_1 is not an RDMA device");
    check_way(host, "local:///run/okv.sock", "ok", "shared memory");
    check_way(host, "ofi://127.0.0.1?provider=net", "ok", "libfabric, by the provider net");
    check_way(host, "rdma://discover/one", "ok", "multicast group");
    check_way(host, "tcps://discover/one", "ok", "multicast group");
    check_way(host, "tcp://127.0.0.1", "ok", "stays on this host");
    check_way(host, "tcp://127.0.0.1?source=10.0.0.1", "note", "10.0.0.1, not encrypted");
    check_way(host, "tcps://127.0.0.1", "ok", "by the address 127.0.0.1, with TLS");
}

TEST_WITH(without_a_device_soft_roce_is_offered, host_open, host_close)
{
    struct host *host = *state;
    struct utsname kernel;
    char empty[64], modules[192];

    snprintf(empty, sizeof empty, "%s/none", host->tree.root);
    doctor_check_devices(&host->report, empty);
    assert_int_equal(count(host, "note", "this kernel has no soft-RoCE"), 1);
    assert_int_equal(uname(&kernel), 0);
    snprintf(modules, sizeof modules, "/none/lib/modules/%s/modules.dep", kernel.release);
    put(host, modules, "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: kernel/a.ko");
    doctor_check_devices(&host->report, empty);
    assert_int_equal(count(host, "note", "modprobe -a rdma_rxe rdma_ucm"), 1);
    assert_int_equal(count(host, "note", "netdev INTERFACE"), 1);
    put(host, "/none/sys/module/rdma_rxe/initstate", "live");
    put(host, "/none/proc/net/route", "Iface\tDestination\neth7\t00000000");
    doctor_check_devices(&host->report, empty);
    assert_int_equal(count(host, "note", "rdma link add rxe0 type rxe netdev eth7"), 1);
    assert_int_equal(host->report.problems, 0);
}

static bool has_limits;
static rlim_t locked, files;

int __real_getrlimit(int resource, struct rlimit *limit);
int __wrap_getrlimit(int resource, struct rlimit *limit);
OKV_UNSANITIZED int __wrap_getrlimit(int resource, struct rlimit *limit)
{
    if (!has_limits)
        return __real_getrlimit(resource, limit);
    limit->rlim_cur = limit->rlim_max = resource == RLIMIT_MEMLOCK ? locked : files;
    return 0;
}

/* The findings of these limits begin anew. */
static void limit(struct host *host, rlim_t memory, rlim_t descriptors, const char *server)
{
    doctor_report_fini(&host->report);
    doctor_report_init(&host->report);
    has_limits = true;
    locked = memory;
    files = descriptors;
    doctor_check_host(&host->report, host->tree.root, server);
}

TEST_WITH(a_limit_of_the_control_group_is_named, host_open, host_close)
{
    struct host *host = *state;

    limit(host, 64 << 10, 65536, "");
    assert_int_equal(count(host, "note", "control group"), 0);
    put(host, "/proc/self/cgroup", "0::/okv.service");
    put(host, "/sys/fs/cgroup/okv.service/memory.max", "67108864");
    limit(host, 64 << 10, 65536, "");
    assert_int_equal(count(host, "note", "64 MiB for this control group"), 1);
    assert_int_equal(count(host, "note", "MemoryMax="), 1);
}

TEST_WITH(locked_memory_matters_over_rdma, host_open, host_close)
{
    const char *local = "local:///run/okv.sock", *rdma = "rdma://10.0.0.1";
    struct host *host = *state;

    put(host, "/proc/self/status", "CapEff:\t00000000a80425fb"); /* root in a container */
    limit(host, 64 << 10, 65536, local);
    assert_int_equal(count(host, "note", "limits.conf(5)"), 1);
    assert_int_equal(host->report.problems, 0);
    limit(host, 64 << 10, 65536, rdma);
    assert_int_equal(count(host, "problem", "64 KiB"), 1);
    limit(host, 8 << 20, 65536, rdma); /* enough for a client of it */
    assert_int_equal(count(host, "note", "8 MiB"), 1);
    limit(host, 256 << 20, 65536, rdma);
    assert_int_equal(count(host, "ok", "256 MiB"), 1);
    limit(host, RLIM_INFINITY, 65536, rdma);
    assert_int_equal(count(host, "ok", "no limit"), 1);
    put(host, "/proc/self/status", "CapEff:\t000001ffffffffff"); /* root */
    limit(host, 64 << 10, 65536, rdma);
    assert_int_equal(count(host, "ok", "no limit"), 1);
}

TEST_WITH(descriptors_for_all_clients, host_open, host_close)
{
    struct host *host = *state;

    limit(host, RLIM_INFINITY, 4367, "local:///run/okv.sock");
    assert_int_equal(count(host, "note", "LimitNOFILE="), 1);
    limit(host, RLIM_INFINITY, 4368, "local:///run/okv.sock");
    assert_int_equal(count(host, "ok", "4368 for 1024 clients"), 1);
}

TEST_WITH(a_report_is_text_or_json, host_open, host_close)
{
    struct host *host = *state;
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);

    doctor_add(&host->report, DOCTOR_PROBLEM, "port", "repair \"it\"", "is %s", "down");
    doctor_add(&host->report, DOCTOR_OK, "limit", NULL, "none");
    assert_true(doctor_report_print(&host->report, false, stream));
    fflush(stream);
    assert_string_equal(text, "problem  port           is down\n"
                              "                        -> repair \"it\"\n"
                              "ok       limit          none\n"
                              "1 problem\n");
    rewind(stream);
    assert_true(doctor_report_print(&host->report, true, stream));
    fclose(stream);
    json_t *whole = json_loads(text, 0, NULL);
    assert_non_null(whole);
    assert_int_equal(json_integer_value(json_object_get(whole, "problems")), 1);
    assert_true(json_equal(json_object_get(whole, "findings"), host->report.findings));
    json_decref(whole);
    free(text);
}
