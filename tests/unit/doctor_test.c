/* What okv doctor says of RDMA devices, from a tree of files that stands for /sys. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/cli/doctor/checks.h"

#define PORT "/sys/class/infiniband/mlx5_0/ports/1"
#define LINK_LOCAL "fe80:0000:0000:0000:0202:c9ff:fe00:0001"
#define MAPPED "0000:0000:0000:0000:0000:ffff:0a00:0001"

struct host {
    char root[32];
    struct doctor_report report;
};

/* Writes a file below the root, with the directories above it. */
static void put(const struct host *host, const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof path, "%s%s", host->root, name);
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", text);
    fclose(file);
}

static void put_gid(const struct host *host, const char *index, const char *gid, const char *type)
{
    char name[128];

    snprintf(name, sizeof name, PORT "/gids/%s", index);
    put(host, name, gid);
    snprintf(name, sizeof name, PORT "/gid_attrs/types/%s", index);
    put(host, name, type);
    snprintf(name, sizeof name, PORT "/gid_attrs/ndevs/%s", index);
    put(host, name, "eth1");
}

/* One port of RoCE that is well. */
static int host_open(void **state)
{
    struct host *host = calloc(1, sizeof *host);

    strcpy(host->root, "/tmp/okv-doctor.XXXXXX");
    assert_non_null(mkdtemp(host->root));
    put(host, PORT "/state", "4: ACTIVE");
    put(host, PORT "/link_layer", "Ethernet");
    put(host, PORT "/rate", "100 Gb/sec (4X EDR)");
    put_gid(host, "0", LINK_LOCAL, "IB/RoCE v1");
    put_gid(host, "1", LINK_LOCAL, "RoCE v2");
    put_gid(host, "2", MAPPED, "IB/RoCE v1");
    put_gid(host, "3", MAPPED, "RoCE v2");
    put(host, "/sys/class/net/eth1/mtu", "9000");
    doctor_report_init(&host->report);
    *state = host;
    return 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static int host_close(void **state)
{
    struct host *host = *state;

    doctor_report_fini(&host->report);
    nftw(host->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
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

static void a_port_that_is_well_has_no_problem(void **state)
{
    struct host *host = *state;

    doctor_check_devices(&host->report, host->root);
    assert_int_equal(host->report.problems, 0);
    assert_int_equal(count(host, "ok", "4: ACTIVE, Ethernet, 100 Gb/sec"), 1);
    assert_int_equal(count(host, "ok", "GID 3: " MAPPED ", RoCE v2, rdma://10.0.0.1"), 1);
    assert_int_equal(count(host, "ok", "not for rdma://"), 3);
    assert_int_equal(count(host, "ok", "MTU of eth1 is 9000: RDMA messages of 4096"), 1);
    assert_int_equal(count(host, "note", ""), 0);
}

static void a_port_that_is_down(void **state)
{
    struct host *host = *state;

    put(host, PORT "/state", "1: DOWN");
    doctor_check_devices(&host->report, host->root);
    assert_int_equal(host->report.problems, 1);
    assert_int_equal(count(host, "problem", "ip link set eth1 up"), 1);
}

static void a_device_without_an_address(void **state)
{
    struct host *host = *state;

    put_gid(host, "2", "0000:0000:0000:0000:0000:0000:0000:0000", "");
    put_gid(host, "3", "0000:0000:0000:0000:0000:0000:0000:0000", "");
    doctor_check_devices(&host->report, host->root);
    assert_int_equal(host->report.problems, 1);
    assert_int_equal(count(host, "problem", "ip addr add ADDRESS/24 dev eth1"), 1);
}

static void an_mtu_that_makes_messages_short(void **state)
{
    struct host *host = *state;

    put(host, "/sys/class/net/eth1/mtu", "1500");
    doctor_check_devices(&host->report, host->root);
    assert_int_equal(host->report.problems, 0);
    assert_int_equal(count(host, "note", "messages of 1024 bytes"), 1);
    assert_int_equal(count(host, "note", "ip link set eth1 mtu 4200"), 1);
}

static void infiniband_needs_no_ip_address(void **state)
{
    struct host *host = *state;

    put(host, PORT "/link_layer", "InfiniBand");
    put_gid(host, "2", "0000:0000:0000:0000:0000:0000:0000:0000", "");
    put_gid(host, "3", "0000:0000:0000:0000:0000:0000:0000:0000", "");
    doctor_check_devices(&host->report, host->root);
    assert_int_equal(host->report.problems, 0);
}

static void a_second_device_has_findings_of_its_own(void **state)
{
    struct host *host = *state;

    put(host, "/sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE");
    put(host, "/sys/class/infiniband/rxe0/ports/1/link_layer", "Ethernet");
    doctor_check_devices(&host->report, host->root);
    assert_int_equal(host->report.problems, 1); /* it has no address */
    assert_int_equal(count(host, "ok", "ACTIVE"), 2);
}

static void without_a_device_soft_roce_is_offered(void **state)
{
    struct host *host = *state;
    char empty[64];

    snprintf(empty, sizeof empty, "%s/none", host->root);
    doctor_check_devices(&host->report, empty);
    assert_int_equal(count(host, "note", "modprobe rdma_rxe"), 1);
    put(host, "/none/sys/module/rdma_rxe/initstate", "live");
    doctor_check_devices(&host->report, empty);
    assert_int_equal(count(host, "note", "modprobe rdma_rxe"), 1);
    assert_int_equal(count(host, "note", "rdma link add rxe0"), 2);
    assert_int_equal(host->report.problems, 0);
}

static void a_report_is_text_or_json(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_port_that_is_well_has_no_problem, host_open, host_close),
        cmocka_unit_test_setup_teardown(a_port_that_is_down, host_open, host_close),
        cmocka_unit_test_setup_teardown(a_device_without_an_address, host_open, host_close),
        cmocka_unit_test_setup_teardown(an_mtu_that_makes_messages_short, host_open, host_close),
        cmocka_unit_test_setup_teardown(infiniband_needs_no_ip_address, host_open, host_close),
        cmocka_unit_test_setup_teardown(a_second_device_has_findings_of_its_own, host_open,
                                        host_close),
        cmocka_unit_test_setup_teardown(without_a_device_soft_roce_is_offered, host_open,
                                        host_close),
        cmocka_unit_test_setup_teardown(a_report_is_text_or_json, host_open, host_close),
    };

    return cmocka_run_group_tests_name("okv doctor", tests, NULL, NULL);
}
