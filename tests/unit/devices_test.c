/* Which address stands for an RDMA device, and on which devices "*" listens. */
#include <netinet/in.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/net/devices.h"
#include "shared/base/error.h"
#include "shared/devices/choice.h"
#include "shared/devices/limits.h"
#include "tests/support/own_addresses.h"
#include "tests/support/sysfs_tree.h"

/* mlx5_0 has two ports, of which the first has IPv4, and rxe0 one, with IPv6 only. */
static int machine_open(void **state)
{
    struct sysfs_tree *tree = calloc(1, sizeof *tree);

    assert_non_null(tree);
    sysfs_tree_create(tree);
    sysfs_tree_put_port(tree, "mlx5_0", "1");
    sysfs_tree_put_gid(tree, "mlx5_0", "1", "0", SYSFS_LINK_LOCAL, "IB/RoCE v1", "eth1");
    sysfs_tree_put_gid(tree, "mlx5_0", "1", "1", SYSFS_LINK_LOCAL, "RoCE v2", "eth1");
    sysfs_tree_put_gid(tree, "mlx5_0", "1", "2", SYSFS_MAPPED, "IB/RoCE v1", "eth1");
    sysfs_tree_put_gid(tree, "mlx5_0", "1", "3", SYSFS_MAPPED, "RoCE v2", "eth1");
    sysfs_tree_put_gid(tree, "mlx5_0", "1", "4", SYSFS_MAPPED_2, "RoCE v2", "eth1");
    sysfs_tree_put_gid(tree, "mlx5_0", "1", "10", SYSFS_NO_GID, "", "");
    sysfs_tree_put_port(tree, "mlx5_0", "2");
    sysfs_tree_put(tree, "/sys/class/infiniband/mlx5_0/ports/2/state", "1: DOWN");
    sysfs_tree_put_gid(tree, "mlx5_0", "2", "0", SYSFS_MAPPED_2, "RoCE v2", "eth2");
    sysfs_tree_put_port(tree, "rxe0", "1");
    sysfs_tree_put_gid(tree, "rxe0", "1", "0", SYSFS_LINK_LOCAL, "RoCE v2", "eth3");
    sysfs_tree_put_gid(tree, "rxe0", "1", "1", SYSFS_GLOBAL, "RoCE v2", "eth3");
    *state = tree;
    return 0;
}

static int machine_close(void **state)
{
    sysfs_tree_remove(*state);
    free(*state);
    return 0;
}

/* The address that the URI's device stands for, or the sentence that says why none does. */
static const char *chosen(const struct sysfs_tree *tree, const char *text, int family, int status)
{
    static char out[OKV_CHOICE_SIZE];
    static struct okv_diag diag;
    struct okv_ports ports;
    struct okv_uri uri;

    assert_int_equal(okv_uri_parse(text, &uri, NULL), 0);
    assert_int_equal(okv_ports_read(tree->root, &ports, NULL), 0);
    int rc = okv_device_choose(&ports, &uri, family, uri.source, out, &diag);
    okv_ports_fini(&ports);
    assert_int_equal(rc, status);
    return rc ? diag.text : out;
}

/* A container that shares the device sees the GIDs of its host. */
TEST_WITH(addresses_of_other_namespaces_are_never_chosen, machine_open, machine_close)
{
    own_addresses_hide(SYSFS_MAPPED);
    assert_string_equal(chosen(*state, "rdma://10.0.0.9?device=mlx5_0", AF_INET, 0), "10.0.0.2");
    own_addresses_hide(SYSFS_GLOBAL);
    assert_string_equal(chosen(*state, "rdma://[fd00::9]?device=rxe0", AF_INET6, 0),
                        "fe80::202:c9ff:fe00:1%eth3");
    own_addresses_hide(NULL);
}

/* A link to a driver, as sysfs has it. */
static void drive(const struct sysfs_tree *tree, const char *device, const char *driver)
{
    char link[160], to[80];

    snprintf(link, sizeof link, "%s/sys/class/infiniband/%s/device/driver", tree->root, device);
    snprintf(to, sizeof to, "../../../bus/pci/drivers/%s", driver);
    assert_int_equal(symlink(to, link), 0);
}

TEST_WITH(iwarp_has_the_cure_of_its_driver, machine_open, machine_close)
{
    const struct sysfs_tree *tree = *state;

    sysfs_tree_put(tree, "/sys/class/infiniband/mlx5_0/device/name", "");
    sysfs_tree_put(tree, "/sys/class/infiniband/rxe0/device/name", "");
    assert_non_null(strstr(okv_iwarp_cure(tree->root, "none"), "use an InfiniBand or RoCE device"));
    drive(tree, "mlx5_0", "ice");
    assert_non_null(strstr(okv_iwarp_cure(tree->root, "mlx5_0"), "enable_iwarp value false"));
    drive(tree, "rxe0", "erdma");
    assert_non_null(strstr(okv_iwarp_cure(tree->root, "rxe0"), "whose erdma offers RoCE v2"));
}

TEST_WITH(ports_are_read_in_their_order, machine_open, machine_close)
{
    const struct sysfs_tree *tree = *state;
    struct okv_ports ports;

    assert_int_equal(okv_ports_read(tree->root, &ports, NULL), 0);
    assert_int_equal(ports.count, 3);
    const struct okv_port *port = &ports.list[0];
    assert_string_equal(port->device, "mlx5_0");
    assert_int_equal(port->number, 1);
    assert_true(port->is_active && port->is_ethernet);
    assert_string_equal(port->rate, "100 Gb/sec (4X EDR)");
    assert_int_equal(port->gid_count, 5); /* an empty place is none */
    assert_int_equal(port->gids[4].index, 4);
    assert_false(port->gids[0].is_v2);
    assert_true(port->gids[1].is_v2);
    assert_string_equal(port->gids[1].interface, "eth1");
    assert_false(ports.list[1].is_active);
    assert_string_equal(ports.list[2].device, "rxe0");
    okv_ports_fini(&ports);
}

TEST(a_machine_without_devices_has_no_ports)
{
    struct okv_ports ports;

    assert_int_equal(okv_ports_read("/nonexistent", &ports, NULL), 0);
    assert_int_equal(ports.count, 0);
    okv_ports_fini(&ports);
}

TEST_WITH(a_device_stands_for_its_best_address, machine_open, machine_close)
{
    const struct sysfs_tree *tree = *state;

    assert_string_equal(chosen(tree, "rdma://h?device=mlx5_0", AF_UNSPEC, 0), "10.0.0.1");
    assert_string_equal(chosen(tree, "rdma://h?device=mlx5_0", AF_INET6, 0),
                        "fe80::202:c9ff:fe00:1%eth1");
    assert_string_equal(chosen(tree, "rdma://h?device=rxe0", AF_UNSPEC, 0), "fd00::7");
    assert_string_equal(chosen(tree, "rdma://h?device=mlx5_0&port=1&gid=4", AF_INET, 0),
                        "10.0.0.2");
    assert_string_equal(chosen(tree, "rdma://h?device=mlx5_0&source=10.0.0.2", AF_INET, 0),
                        "10.0.0.2");
    assert_string_equal(chosen(tree, "rdma://h?device=rxe0&source=fd00:0:0::7", AF_INET6, 0),
                        "fd00::7");
    assert_string_equal(
        chosen(tree, "rdma://h?device=rxe0&source=fe80::202:c9ff:fe00:1%eth3", AF_INET6, 0),
        "fe80::202:c9ff:fe00:1%eth3");
}

TEST_WITH(an_unusable_choice_names_the_usable_ones, machine_open, machine_close)
{
    static const struct {
        const char *uri;
        int family;
        const char *why;
    } cases[] = {
        {"rdma://h?device=mlx5_1", AF_INET, "mlx5_1 is not an RDMA device of this machine"},
        {"rdma://h?device=mlx5_0&port=3", AF_INET, "mlx5_0 port 3 is not an RDMA device"},
        {"rdma://h?device=mlx5_0&port=2", AF_INET, "mlx5_0 port 2 is not active"},
        {"rdma://h?device=mlx5_0&gid=10", AF_INET, "mlx5_0 is not active"},
        {"rdma://h?device=mlx5_0&port=1&gid=10", AF_INET, "has no usable GID 10;"},
        {"rdma://h?device=mlx5_0&port=1&gid=2", AF_INET, "has no usable GID 2;"},
        {"rdma://h?device=mlx5_0&port=1&gid=3&source=10.0.0.2", AF_INET,
         "has no usable GID 3 of 10.0.0.2;"},
        {"rdma://h?device=mlx5_0&port=1&source=10.0.0.9", AF_INET, "has no GID of 10.0.0.9;"},
        {"rdma://h?device=rxe0", AF_INET, "rxe0 has no GID of the same kind of address"},
        {"rdma://h?device=rxe0&source=fe80::202:c9ff:fe00:1%eth1", AF_INET6, "has no GID of fe80"},
    };
    const struct sysfs_tree *tree = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why = chosen(tree, cases[i].uri, cases[i].family, OKV_EADDRESS);
        if (!strstr(why, cases[i].why) ||
            !strstr(why, "usable are device=mlx5_0&port=1&gid=3 (10.0.0.1), "
                         "device=rxe0&port=1&gid=1 (fd00::7)"))
            fail_msg("%s: %s", cases[i].uri, why);
    }
}

/* On a host with many. */
TEST_WITH(the_usable_ones_end_with_a_whole_one, machine_open, machine_close)
{
    static const char named[] = "usable are device=mlx5_0&port=1&gid=3 (10.0.0.1), ";
    const struct sysfs_tree *tree = *state;
    char device[16];
    unsigned whole = 0, more = 0;

    for (unsigned i = 0; i < 20; i++) {
        snprintf(device, sizeof device, "mlx5_%u", i + 10);
        sysfs_tree_put_port(tree, device, "1");
        sysfs_tree_put_gid(tree, device, "1", "1", SYSFS_GLOBAL, "RoCE v2", "eth3");
    }
    const char *why = chosen(tree, "rdma://h?device=none", AF_INET, OKV_EADDRESS);
    const char *list = strstr(why, named);
    assert_non_null(list);
    for (const char *at = list; (at = strstr(at, "device=")) != NULL; at++)
        whole++;
    assert_int_equal(sscanf(strrchr(list, ')'), ") and %u more", &more), 1);
    assert_true(whole >= 2);
    assert_int_equal(whole + more, 22);
}

TEST_WITH(a_port_without_an_address_has_a_flaw, machine_open, machine_close)
{
    const struct sysfs_tree *tree = *state;

    sysfs_tree_put(tree, "/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
    sysfs_tree_put_gid(tree, "rxe0", "1", "0", SYSFS_NO_GID, "", "");
    sysfs_tree_put_gid(tree, "rxe0", "1", "1", SYSFS_NO_GID, "", "");
    assert_non_null(strstr(chosen(tree, "rdma://h?device=mlx5_0&port=1", AF_INET, OKV_EADDRESS),
                           "InfiniBand, whose GIDs are no addresses"));
    const char *why = chosen(tree, "rdma://h?device=rxe0", AF_INET, OKV_EADDRESS);
    assert_non_null(strstr(why, "has no GID with an address"));
    assert_non_null(strstr(why, "no port here is usable"));
}

/* An address that has GIDs of RoCE v1 only. */
TEST_WITH(roce_v1_is_used_where_there_is_nothing_else, machine_open, machine_close)
{
    const struct sysfs_tree *tree = *state;

    sysfs_tree_put_gid(tree, "mlx5_0", "1", "3", SYSFS_NO_GID, "", "");
    sysfs_tree_put_gid(tree, "mlx5_0", "1", "4", SYSFS_NO_GID, "", "");
    assert_string_equal(chosen(tree, "rdma://h?device=mlx5_0&gid=2", AF_INET, 0), "10.0.0.1");
}

/* The hosts of the server's listeners, a line each. */
static const char *listeners(const struct sysfs_tree *tree, const char *const *uris, int status)
{
    static char out[OKV_LISTENERS_MAX * 300];
    static struct okv_config config;
    struct okv_diag diag = {""};
    struct okv_log log;

    memset(&config, 0, sizeof config);
    for (; uris[config.listen_count]; config.listen_count++)
        assert_int_equal(
            okv_uri_parse(uris[config.listen_count], &config.listen[config.listen_count], NULL), 0);
    okv_log_init(&log, STDERR_FILENO, OKV_LOG_TEXT);
    int rc = okv_listen_devices(&config, tree->root, &log, &diag);
    okv_log_fini(&log);
    if (rc != status)
        fail_msg("%d, %s", rc, diag.text);
    out[0] = '\0';
    for (unsigned i = 0; i < config.listen_count; i++) {
        const struct okv_uri *uri = &config.listen[i];
        strcat(strcat(out, uri->scheme == OKV_SCHEME_LOCAL ? uri->path : uri->host), "\n");
    }
    return out;
}

TEST_WITH(a_gid_named_twice_is_refused, machine_open, machine_close)
{
    const char *const same[] = {"rdma://*?device=mlx5_0", "rdma://*?device=mlx5_0&gid=3", NULL};
    const char *const two[] = {"rdma://*?device=mlx5_0", "rdma://*?device=mlx5_0&gid=4", NULL};

    listeners(*state, same, OKV_EADDRESS);
    assert_string_equal(listeners(*state, two, 0), "10.0.0.1\n10.0.0.2\n");
}

TEST_WITH(everywhere_is_each_usable_port, machine_open, machine_close)
{
    const struct sysfs_tree *tree = *state;

    assert_string_equal(listeners(tree, (const char *[]){"local:///a", "rdma://*", NULL}, 0),
                        "/a\n10.0.0.1\nfd00::7\n");
    assert_string_equal(listeners(tree, (const char *[]){"rdma://0.0.0.0:80", NULL}, 0),
                        "10.0.0.1\n");
    assert_string_equal(listeners(tree, (const char *[]){"rdma://[::]", NULL}, 0), "fd00::7\n");
    assert_string_equal(listeners(tree, (const char *[]){"rdma://[::]?device=mlx5_0", NULL}, 0),
                        "fe80::202:c9ff:fe00:1%eth1\n");
    assert_string_equal(listeners(tree, (const char *[]){"rdma://*?device=rxe0", NULL}, 0),
                        "fd00::7\n");
    assert_string_equal(
        listeners(tree, (const char *[]){"rdma://10.0.0.2?device=mlx5_0", "ofi://0.0.0.0", NULL},
                  0),
        "10.0.0.2\n0.0.0.0\n");
    listeners(tree, (const char *[]){"rdma://10.0.0.2?device=rxe0", NULL}, OKV_EADDRESS);
    listeners(tree, (const char *[]){"rdma://*?device=rxe1", NULL}, OKV_EADDRESS);
}

TEST_WITH(one_device_has_the_transports_wildcard, machine_open, machine_close)
{
    struct sysfs_tree *tree = *state;

    sysfs_tree_remove(tree);
    sysfs_tree_create(tree);
    assert_string_equal(listeners(tree, (const char *[]){"rdma://*", NULL}, 0), "*\n");
    sysfs_tree_put_port(tree, "rxe0", "1");
    sysfs_tree_put_gid(tree, "rxe0", "1", "1", SYSFS_MAPPED, "RoCE v2", "eth3");
    assert_string_equal(listeners(tree, (const char *[]){"rdma://*", NULL}, 0), "*\n");
    sysfs_tree_put_port(tree, "rxe0", "2");
    assert_string_equal(listeners(tree, (const char *[]){"rdma://*", NULL}, 0), "*\n");
    sysfs_tree_put_port(tree, "rxe1", "1");
    assert_string_equal(listeners(tree, (const char *[]){"rdma://*", NULL}, 0), "10.0.0.1\n");
}

TEST_WITH(the_only_device_has_to_be_usable, machine_open, machine_close)
{
    const char *const *everywhere = (const char *[]){"rdma://*", NULL};
    struct sysfs_tree *tree = *state;

    sysfs_tree_remove(tree);
    sysfs_tree_create(tree);
    sysfs_tree_put_port(tree, "rxe0", "1");
    listeners(tree, everywhere, OKV_EADDRESS); /* it has no address */
    sysfs_tree_put_gid(tree, "rxe0", "1", "1", SYSFS_MAPPED, "RoCE v2", "eth3");
    sysfs_tree_put(tree, "/sys/class/infiniband/rxe0/ports/1/state", "1: DOWN");
    listeners(tree, everywhere, OKV_EADDRESS);
    listeners(tree, (const char *[]){"rdma://10.0.0.1", NULL}, 0); /* may come up */
    sysfs_tree_put_port(tree, "rxe0", "2");
    sysfs_tree_put(tree, "/sys/class/infiniband/rxe0/ports/2/link_layer", "InfiniBand");
    assert_string_equal(listeners(tree, everywhere, 0), "*\n"); /* perhaps of IPoIB */
    sysfs_tree_put(tree, "/sys/class/infiniband/rxe0/ports/2/state", "1: DOWN");
    listeners(tree, everywhere, OKV_EADDRESS);
}

TEST_WITH(one_address_has_one_listener, machine_open, machine_close)
{
    struct sysfs_tree *tree = *state;

    sysfs_tree_put_port(tree, "rxe1", "1");
    sysfs_tree_put_gid(tree, "rxe1", "1", "1", SYSFS_MAPPED, "RoCE v2", "eth1");
    assert_string_equal(listeners(tree, (const char *[]){"rdma://*", NULL}, 0),
                        "10.0.0.1\nfd00::7\n");
    assert_string_equal(
        listeners(tree, (const char *[]){"rdma://0.0.0.0", "rdma://0.0.0.0:80", NULL}, 0),
        "10.0.0.1\n10.0.0.1\n");
}

TEST_WITH(nothing_usable_is_explained, machine_open, machine_close)
{
    const struct sysfs_tree *tree = *state;

    sysfs_tree_put(tree, "/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN");
    sysfs_tree_put(tree, "/sys/class/infiniband/rxe0/ports/1/state", "1: DOWN");
    listeners(tree, (const char *[]){"rdma://*", NULL}, OKV_EADDRESS);
}

TEST_WITH(more_listeners_than_there_may_be_are_refused, machine_open, machine_close)
{
    static const char *uris[OKV_LISTENERS_MAX + 1];
    const struct sysfs_tree *tree = *state;

    for (unsigned i = 0; i < OKV_LISTENERS_MAX - 1; i++)
        uris[i] = "local:///a";
    uris[OKV_LISTENERS_MAX - 1] = "rdma://*";
    listeners(tree, uris, OKV_EADDRESS);
    uris[OKV_LISTENERS_MAX - 1] = "rdma://0.0.0.0";
    listeners(tree, uris, 0);
}
