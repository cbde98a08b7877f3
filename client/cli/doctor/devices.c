#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "client/cli/doctor/checks.h"
#include "client/cli/doctor/files.h"
#include "shared/base/size.h"
#include "shared/devices/choice.h"
#include "shared/devices/limits.h"

#define LINE_SIZE 192
/* Of Ethernet, for RDMA packets of 4096 bytes and their headers. */
#define MTU_BEST 4200
/* Bytes of a packet over RoCE, and of all headers around them. */
#define PACKET_MAX 4096u
#define PACKET_LEAST 256u
#define HEADERS_MAX 96u

/* A port of a device. */
struct checked_port {
    struct doctor_report *report;
    const char *root;
    const struct okv_port *port;
    const char *interface;      /* of the first GID that has one */
    enum doctor_level unusable; /* the level of an unusable port: a note if another one is usable */
    char name[80];              /* DEVICE/PORT */
};

/* Why the GID is the one for ?device=, or another remark. */
static const char *gid_remark(const struct okv_port *port, const struct okv_gid *gid)
{
    if (gid == okv_port_best_gid(port, AF_UNSPEC))
        return IN6_IS_ADDR_V4MAPPED(&gid->raw)
                   ? ", chosen by ?device= and rdma://*: the first with an IPv4 address"
                   : ", chosen by ?device= and rdma://*: none has an IPv4 address";
    if (port->is_ethernet && !gid->is_here)
        return ", which no interface here has: never chosen";
    return port->is_ethernet && !gid->is_v2 ? ", never chosen where there is RoCE v2" : "";
}

static void check_gids(const struct checked_port *it)
{
    char address[OKV_CHOICE_SIZE];

    for (unsigned i = 0; i < it->port->gid_count; i++) {
        const struct okv_gid *gid = &it->port->gids[i];
        okv_gid_address(gid, address);
        doctor_add(it->report, DOCTOR_OK, it->name, NULL, "GID %u: %s, %s%s", gid->index, address,
                   gid->type, gid_remark(it->port, gid));
    }
}

unsigned doctor_packet_bytes(unsigned long long mtu)
{
    unsigned packet = PACKET_MAX;

    while (packet > PACKET_LEAST && packet + HEADERS_MAX > mtu)
        packet /= 2;
    return packet;
}

static void check_mtu(const struct checked_port *it)
{
    char file[DOCTOR_PATH_SIZE], fix[LINE_SIZE];
    unsigned long long mtu;

    snprintf(file, sizeof file, "/sys/class/net/%s/mtu", it->interface);
    if (!it->port->is_ethernet || !doctor_file_number(it->root, file, &mtu))
        return;
    bool is_small = mtu < PACKET_MAX + HEADERS_MAX;
    snprintf(fix, sizeof fix, "ip link set %s mtu %d, on all hosts and switches on the path",
             it->interface, MTU_BEST);
    doctor_add(it->report, is_small ? DOCTOR_NOTE : DOCTOR_OK, it->name, is_small ? fix : NULL,
               "MTU of %s is %llu: RDMA packets of %u bytes", it->interface, mtu,
               doctor_packet_bytes(mtu));
}

static void check_state(const struct checked_port *it)
{
    const struct okv_port *port = it->port;
    char fix[LINE_SIZE] = "see that a subnet manager runs";

    if (port->is_ethernet)
        snprintf(fix, sizeof fix, "ip link set %s up, and look at its cable",
                 it->interface[0] ? it->interface : "INTERFACE");
    doctor_add(it->report, port->is_active ? DOCTOR_OK : it->unusable, it->name,
               port->is_active ? NULL : fix, "%s, %s, %s", port->state, port->layer, port->rate);
}

/* Whether a GID has an address that other hosts reach. */
static bool has_global_gid(const struct okv_port *port)
{
    const struct okv_gid *best = okv_port_best_gid(port, AF_UNSPEC);

    return best && !IN6_IS_ADDR_LINKLOCAL(&best->raw);
}

static bool is_usable(const char *root, const struct okv_port *port)
{
    char interface[IF_NAMESIZE];

    if (!port->is_active || port->is_ethernet)
        return port->is_active && has_global_gid(port);
    return doctor_ipoib_find(root, port, NULL, interface);
}

static void check_addresses(const struct checked_port *it)
{
    char fix[LINE_SIZE], interface[IF_NAMESIZE];

    if (!it->port->is_active)
        return;
    if (it->port->is_ethernet) {
        if (has_global_gid(it->port))
            return;
        snprintf(interface, sizeof interface, "%s", it->interface);
    } else if (doctor_ipoib_find(it->root, it->port, NULL, interface)) {
        doctor_add(it->report, DOCTOR_OK, it->name, NULL, "rdma:// takes the addresses of %s",
                   interface);
        return;
    }
    snprintf(fix, sizeof fix, "%sip addr add ADDRESS/24 dev %s",
             it->port->is_ethernet || interface[0] ? "" : "modprobe ib_ipoib && ",
             interface[0]            ? interface
             : it->port->is_ethernet ? "INTERFACE"
                                     : "ib0");
    doctor_add(it->report, it->unusable, it->name, fix,
               it->port->is_ethernet
                   ? "no GID with an address that other hosts reach: rdma:// cannot use this port"
                   : "no address of IP over InfiniBand: rdma:// cannot use this port");
}

static void check_port(struct doctor_report *report, const char *root, const struct okv_port *port,
                       enum doctor_level unusable)
{
    struct checked_port it = {
        .report = report, .root = root, .port = port, .interface = "", .unusable = unusable};

    snprintf(it.name, sizeof it.name, "%s/%u", port->device, port->number);
    for (unsigned i = port->gid_count; i-- > 0;)
        if (port->gids[i].interface[0])
            it.interface = port->gids[i].interface;
    check_gids(&it);
    check_state(&it);
    check_addresses(&it);
    check_mtu(&it);
}

void doctor_add_limits(struct doctor_report *report, const char *device,
                       const struct okv_device_limits *limits)
{
    char size[32] = "any size", inlined[32] = "unknown";

    if (limits->max_region < UINT64_C(1) << 60)
        okv_size_format(limits->max_region, size, sizeof size);
    if (limits->is_iwarp || !limits->reads_in || !limits->reads_out)
        doctor_add(report, DOCTOR_PROBLEM, device,
                   limits->is_iwarp ? okv_iwarp_cure("", device) : "use another RDMA device",
                   limits->is_iwarp ? "it speaks iWARP, which okv does not"
                                    : "it has no RDMA READ, which okv needs");
    if (limits->max_inline)
        snprintf(inlined, sizeof inlined, "%u bytes", limits->max_inline);
    doctor_add(report, DOCTOR_OK, device, NULL,
               "%u queue pairs, %u requests each of %u pieces, %s inline, %u completions a "
               "queue; regions of %s; READs under way: %u as a client, %u as a server; firmware %s",
               limits->max_connections, limits->max_work, limits->max_sge, inlined,
               limits->max_completions, size, limits->reads_out, limits->reads_in,
               limits->firmware[0] ? limits->firmware : "unknown");
}

/* A card in a slot that is narrower or slower than it is. */
static void check_pcie(struct doctor_report *report, const char *root, const char *device)
{
    char file[DOCTOR_PATH_SIZE], now[4][32];
    static const char *const files[] = {"current_link_width", "max_link_width",
                                        "current_link_speed", "max_link_speed"};

    for (unsigned i = 0; i < 4; i++) {
        snprintf(file, sizeof file, "/sys/class/infiniband/%s/device/%s", device, files[i]);
        if (!doctor_file_line(root, file, now[i], sizeof now[i]))
            return; /* soft-RoCE has no slot */
    }
    if (strcmp(now[0], "0") == 0)
        return; /* a virtual function does not know */
    bool is_full = strcmp(now[0], now[1]) == 0 && strcmp(now[2], now[3]) == 0;
    doctor_add(report, is_full ? DOCTOR_OK : DOCTOR_NOTE, device,
               is_full ? NULL : "put it into a slot with as many lanes and of its generation",
               is_full ? "PCIe x%s at %s" : "PCIe x%s at %s, and it can x%s at %s", now[0], now[2],
               now[1], now[3]);
}

/* Its translations come on top of the NIC's. */
static void check_iommu(struct doctor_report *report, const char *root, const char *device)
{
    char file[DOCTOR_PATH_SIZE], type[32];

    snprintf(file, sizeof file, "/sys/class/infiniband/%s/device/iommu_group/type", device);
    if (!doctor_file_line(root, file, type, sizeof type))
        return;
    bool passes = strcmp(type, "identity") == 0;
    doctor_add(report, passes ? DOCTOR_OK : DOCTOR_NOTE, device,
               passes ? NULL : "iommu=pt on the kernel's command line",
               passes ? "the IOMMU passes it through"
                      : "the IOMMU translates each of its accesses, which is slow");
}

/* The tree of a test has no devices to open. */
static void check_limits(struct doctor_report *report, const char *device)
{
    struct okv_device_limits limits;
    struct okv_diag diag = {""};

    if (okv_device_limits_read(device, &limits, &diag) == 0)
        doctor_add_limits(report, device, &limits);
    else
        doctor_add(report, DOCTOR_PROBLEM, device,
                   "install its driver (Debian: ibverbs-providers); modprobe ib_uverbs; allow this "
                   "user to read and write /dev/infiniband/*",
                   "%s", diag.text);
}

static void check_connection_manager(struct doctor_report *report, const char *root)
{
    bool is_there = doctor_file_exists(root, "/dev/infiniband/rdma_cm");

    doctor_add(report, is_there ? DOCTOR_OK : DOCTOR_PROBLEM, "RDMA CM",
               is_there ? NULL : "modprobe rdma_ucm",
               is_there ? "/dev/infiniband/rdma_cm is there"
                        : "no /dev/infiniband/rdma_cm: rdma:// cannot connect or listen");
}

/* The first network device that soft-RoCE could be on; "INTERFACE": none was found. */
static void name_interface(const char *root, char *out, size_t size)
{
    char line[LINE_SIZE], path[DOCTOR_PATH_SIZE];

    snprintf(out, size, "INTERFACE");
    snprintf(path, sizeof path, "%s/proc/net/route", root);
    FILE *routes = fopen(path, "re");
    if (!routes)
        return;
    /* The first line names the columns, the next ones routes, each with its interface. */
    if (fgets(line, sizeof line, routes) && fgets(line, sizeof line, routes))
        snprintf(out, size, "%.*s", (int)strcspn(line, " \t\n"), line);
    fclose(routes);
}

/* True when the module is in the kernel or beside it. */
static bool has_soft_roce(const char *root)
{
    char line[LINE_SIZE], path[DOCTOR_PATH_SIZE];
    struct utsname name;
    bool is_found = doctor_file_exists(root, "/sys/module/rdma_rxe");

    if (is_found || uname(&name))
        return is_found;
    snprintf(path, sizeof path, "%s/lib/modules/%s/modules.dep", root, name.release);
    FILE *modules = fopen(path, "re");
    if (!modules)
        return false;
    while (!is_found && fgets(line, sizeof line, modules))
        is_found = strstr(line, "/rdma_rxe.ko") != NULL;
    fclose(modules);
    return is_found;
}

static void offer_soft_roce(struct doctor_report *report, const char *root)
{
    char interface[LINE_SIZE], fix[LINE_SIZE * 2];

    if (!has_soft_roce(root)) {
        doctor_add(report, DOCTOR_NOTE, "RDMA devices",
                   "use tcp://, ofi:// or local://, or a kernel with the module rdma_rxe",
                   "there are none, and this kernel has no soft-RoCE: rdma:// cannot be used here");
        return;
    }
    name_interface(root, interface, sizeof interface);
    snprintf(
        fix, sizeof fix,
        "modprobe -a rdma_rxe rdma_ucm && rdma link add rxe0 type rxe netdev %s, for soft-RoCE",
        interface);
    doctor_add(report, DOCTOR_NOTE, "RDMA devices", fix,
               "there are none: rdma:// cannot be used here; tcp://, ofi:// and local:// can");
}

void doctor_check_devices(struct doctor_report *report, const char *root)
{
    struct okv_ports ports;

    if (okv_ports_read(root, &ports, NULL)) {
        doctor_add(report, DOCTOR_PROBLEM, "RDMA devices", "end other programs",
                   "no memory to list them");
        return;
    }
    enum doctor_level unusable = DOCTOR_PROBLEM;
    for (unsigned i = 0; i < ports.count; i++)
        if (is_usable(root, &ports.list[i]))
            unusable = DOCTOR_NOTE;
    if (ports.count == 0)
        offer_soft_roce(report, root);
    else
        check_connection_manager(report, root);
    for (unsigned i = 0; i < ports.count; i++) {
        const char *device = ports.list[i].device;
        bool is_next = i > 0 && strcmp(ports.list[i - 1].device, device) == 0;
        if (!is_next && root[0] == '\0')
            check_limits(report, device);
        if (!is_next) {
            check_pcie(report, root, device);
            check_iommu(report, root, device);
        }
        check_port(report, root, &ports.list[i], unusable);
    }
    okv_ports_fini(&ports);
}
