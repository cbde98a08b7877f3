/* What the ends of a connection tell each other of their RDMA ports, and who asks a server for it.
 */
#include "tests/support/test.h"

#include "server/command/admin.h"
#include "server/core/host.h"
#include "shared/base/error.h"
#include "shared/devices/facts.h"
#include "tests/support/own_addresses.h"
#include "tests/support/server_core.h"
#include "tests/support/sysfs_tree.h"

#define DEVICE "/sys/class/infiniband/mlx5_0"

static const char whole_line[] =
    "port mlx5_0/1 address 10.0.0.1 gid 3 rate_gbps 100 mtu 4200 pcie 16x8.0 numa_node 1 firmware "
    "16.35.2000 soft 0 out_of_sequence 7 packet_seq_err 0 local_ack_timeout_err 2 "
    "rnr_nak_retry_err -\n";

/* A port of a NIC and one of soft-RoCE, and one that is down. */
static int machine_open(void **state)
{
    static const char *const files[][2] = {
        {DEVICE "/device/vendor", "0x15b3"},
        {DEVICE "/device/numa_node", "1"},
        {DEVICE "/device/current_link_width", "16"},
        {DEVICE "/device/current_link_speed", "8.0 GT/s PCIe"},
        {DEVICE "/fw_ver", "16.35.2000"},
        {DEVICE "/ports/1/hw_counters/out_of_sequence", "7"},
        {DEVICE "/ports/1/hw_counters/packet_seq_err", "0"},
        {DEVICE "/ports/1/hw_counters/local_ack_timeout_err", "2"},
        {"/sys/class/net/eth1/mtu", "4200"},
    };
    struct sysfs_tree *tree = calloc(1, sizeof *tree);

    assert_non_null(tree);
    sysfs_tree_create(tree);
    sysfs_tree_put_port(tree, "mlx5_0", "1");
    sysfs_tree_put_gid(tree, "mlx5_0", "1", "2", SYSFS_MAPPED, "IB/RoCE v1", "eth1");
    sysfs_tree_put_gid(tree, "mlx5_0", "1", "3", SYSFS_MAPPED, "RoCE v2", "eth1");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        sysfs_tree_put(tree, files[i][0], files[i][1]);
    sysfs_tree_put_port(tree, "mlx5_1", "1");
    sysfs_tree_put(tree, "/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
    sysfs_tree_put_port(tree, "rxe0", "1");
    sysfs_tree_put_gid(tree, "rxe0", "1", "0", SYSFS_LINK_LOCAL, "RoCE v2", "eth3");
    sysfs_tree_put_gid(tree, "rxe0", "1", "1", SYSFS_GLOBAL_2, "RoCE v2", "eth3");
    *state = tree;
    return 0;
}

static int machine_close(void **state)
{
    sysfs_tree_remove(*state);
    free(*state);
    return 0;
}

TEST_WITH(the_line_of_a_nic, machine_open, machine_close)
{
    const struct sysfs_tree *tree = *state;
    struct okv_port_facts ports[4];
    char line[OKV_FACTS_LINE_SIZE];

    assert_int_equal(okv_facts_read(tree->root, ports, 4), 2);
    unsigned length = okv_facts_write(&ports[0], line);
    assert_int_equal(length, strlen(line));
    assert_string_equal(line, whole_line);
    assert_int_equal(okv_facts_read(tree->root, ports, 1), 1);
}

TEST_WITH(what_soft_roce_does_not_know, machine_open, machine_close)
{
    const struct sysfs_tree *tree = *state;
    struct okv_port_facts ports[4];
    char line[OKV_FACTS_LINE_SIZE];

    assert_int_equal(okv_facts_read(tree->root, ports, 4), 2);
    okv_facts_write(&ports[1], line);
    assert_non_null(strstr(
        line, "port rxe0/1 address fd00::1 gid 1 address "
              "fe80::202:c9ff:fe00:1%eth3 gid 0 rate_gbps 100 mtu - pcie - numa_node - firmware - "
              "soft 1 out_of_sequence - "));
    /* On a NIC it shows the PCI device of that. */
    sysfs_tree_put(tree, "/sys/class/infiniband/rxe0/device/vendor", "0x15b3");
    sysfs_tree_put(tree, "/sys/class/infiniband/rxe0/parent", "eth3");
    assert_int_equal(okv_facts_read(tree->root, ports, 4), 2);
    assert_true(ports[1].is_soft);
}

TEST_WITH(addresses_of_another_namespace_are_left_out, machine_open, machine_close)
{
    const struct sysfs_tree *tree = *state;
    struct okv_port_facts ports[4];

    own_addresses_hide(SYSFS_MAPPED);
    assert_int_equal(okv_facts_read(tree->root, ports, 4), 2);
    own_addresses_hide(NULL);
    assert_int_equal(ports[0].address_count, 0);
}

static bool parse(const char *line, struct okv_port_facts *out)
{
    return okv_facts_parse(line, strlen(line), out);
}

TEST(what_is_written_is_read)
{
    struct okv_port_facts facts;
    char line[OKV_FACTS_LINE_SIZE];

    assert_true(okv_facts_parse(whole_line, sizeof whole_line - 2, &facts));
    assert_int_equal(facts.counters[OKV_FACTS_LOCAL_ACK_TIMEOUT_ERR], 2);
    assert_int_equal(facts.counters[OKV_FACTS_RNR_NAK_RETRY_ERR], OKV_FACTS_UNKNOWN);
    okv_facts_write(&facts, line);
    assert_string_equal(line, whole_line);
    assert_true(parse("port a/1 colour blue soft 1", &facts)); /* of a later release */
    assert_true(facts.is_soft);
    assert_int_equal(facts.mtu, OKV_FACTS_UNKNOWN);
}

TEST(an_address_has_its_zone_or_none)
{
    struct okv_port_facts facts;

    assert_true(parse("port a/1 address fe80::1%eth0 gid 0 address 10.0.0.1 gid 1", &facts));
    assert_true(okv_facts_has_address(&facts, "fe80::1%eth0"));
    assert_true(okv_facts_has_address(&facts, "fe80::1"));
    assert_true(okv_facts_has_address(&facts, "10.0.0.1"));
    assert_false(okv_facts_has_address(&facts, "10.0.0.11"));
    assert_false(okv_facts_has_address(&facts, "10.0.0."));
    assert_false(okv_facts_has_address(&facts, ""));
}

TEST(malformed_lines_are_refused)
{
    static const char *const lines[] = {
        "",
        " ",
        "port",
        "port ",
        "port a/1 ",
        "port a/1 mtu",
        "port a/1 mtu ",
        "port a/1  mtu 1",
        "port a/1 mtu  1",
        "mtu 1 port a/1",
        "port a/1 mtu -1",
        "port a/1 mtu 1x",
        "port a/1 mtu 99999999999999999999",
        "port a/1 gid 1",
        "port a/1 soft 2",
        "port a/1 soft -",
        "port a/1 pcie 16x8.0xxxxxxxxxxxxxxx",
        "port a/1 firmware \033[2J",
        "port a/1 firmware \xc3\xa4",
        "port a/1 firmware a\tb",
        "port a/1\nport b/1",
    };
    struct okv_port_facts facts;
    char line[2 * OKV_FACTS_LINE_SIZE];

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (parse(lines[i], &facts))
            fail_msg("it takes '%s'", lines[i]);
    assert_false(okv_facts_parse("port a/1 mtu 1\0", 15, &facts));
    memset(line, 'a', sizeof line);
    memcpy(line, "port ", 5);
    assert_false(okv_facts_parse(line, 200, &facts));
    assert_false(okv_facts_parse(line, sizeof line, &facts));
}

TEST(a_port_has_so_many_addresses)
{
    struct okv_port_facts facts;
    char line[OKV_FACTS_LINE_SIZE];
    int length = snprintf(line, sizeof line, "port a/1");

    for (int i = 0; i < OKV_FACTS_ADDRESSES; i++)
        length +=
            snprintf(line + length, sizeof line - (size_t)length, " address 10.0.0.%d gid 1", i);
    assert_true(parse(line, &facts));
    assert_int_equal(facts.address_count, OKV_FACTS_ADDRESSES);
    snprintf(line + length, sizeof line - (size_t)length, " address 10.0.0.9");
    assert_false(parse(line, &facts));
}

/* ---- a server that is asked ---- */

static const struct okv_store_params params = {.length = 4 << 20};

static int run(struct server_core *core, const char *command, char *answer, uint32_t size)
{
    uint32_t used;
    int rc = okv_admin_run(core->server, core->database, (const uint8_t *)command,
                           (uint32_t)strlen(command), answer, size - 1, &used);

    answer[rc ? 0 : used] = '\0';
    return rc;
}

TEST_WITH(a_server_tells_when_it_has_read, machine_open, machine_close)
{
    const struct sysfs_tree *tree = *state;
    struct server_core core;
    char answer[2048];

    server_core_open(&core, &params);
    assert_int_equal(run(&core, "host 1", answer, sizeof answer), OKV_ENOTFOUND);
    assert_int_equal(run(&core, "host", answer, sizeof answer), OKV_OK);
    assert_string_equal(answer, "1");
    assert_int_equal(run(&core, "host 1", answer, sizeof answer), OKV_OK);
    assert_string_equal(answer, "");
    assert_true(okv_host_is_asked(core.server->host));
    okv_host_read(core.server->host, tree->root);
    assert_false(okv_host_is_asked(core.server->host));
    assert_int_equal(run(&core, "host 1", answer, sizeof answer), OKV_OK);
    assert_memory_equal(answer, "huge_pages 0\nport mlx5_0/1 ", 27);
    assert_non_null(strstr(answer, "\nport rxe0/1 "));
    /* Of the second line there is no room for the end. */
    assert_int_equal(run(&core, "host 1", answer, 13 + sizeof whole_line + 20), OKV_OK);
    assert_string_equal(answer + 13, whole_line);
    assert_int_equal(run(&core, "host", answer, sizeof answer), OKV_OK);
    assert_string_equal(answer, "2");
    okv_host_read(core.server->host, "/nowhere");
    assert_int_equal(run(&core, "host 1", answer, sizeof answer), OKV_OK);
    assert_string_equal(answer, "huge_pages 0\n");
    server_core_close(&core);
}
