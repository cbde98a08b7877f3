#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/doctor/checks.h"

#define PATH_SIZE 768
#define LINE_SIZE 128
#define CLASS "/sys/class/infiniband"
/* A GID of an IPv4 address: RFC 4291 section 2.5.5.2. */
#define MAPPED "0000:0000:0000:0000:0000:ffff:"
#define NO_GID "0000:0000:0000:0000:0000:0000:0000:0000"
/* Of Ethernet, for RDMA messages of 4096 bytes and their headers. */
#define MTU_BEST 4200

/* A port of a device. */
struct port {
    struct doctor_report *report;
    const char *root;
    char name[64];       /* DEVICE/PORT */
    char directory[512]; /* in sysfs */
    char interface[64];  /* of the first GID that has one; "": none has */
    bool is_ethernet;
    unsigned usable; /* GIDs that rdma:// can use */
};

/* The first line of a file, without its end. */
static bool read_line(const char *root, const char *directory, const char *file,
                      char out[LINE_SIZE])
{
    char path[PATH_SIZE];

    snprintf(path, sizeof path, "%s%s/%s", root, directory, file);
    FILE *stream = fopen(path, "re");
    if (!stream)
        return false;
    bool is_read = fgets(out, LINE_SIZE, stream) != NULL;
    fclose(stream);
    if (is_read)
        out[strcspn(out, "\n")] = '\0';
    return is_read;
}

/* "": it is of no IPv4 address. */
static void address_text(const char *gid, char out[INET_ADDRSTRLEN])
{
    unsigned high, low;

    out[0] = '\0';
    if (strncmp(gid, MAPPED, sizeof MAPPED - 1) != 0 ||
        sscanf(gid + sizeof MAPPED - 1, "%4x:%4x", &high, &low) != 2)
        return;
    const struct in_addr address = {htonl(high << 16 | low)};
    inet_ntop(AF_INET, &address, out, INET_ADDRSTRLEN);
}

static void check_gid(struct port *port, const char *index)
{
    char file[64], gid[LINE_SIZE], type[LINE_SIZE] = "", address[INET_ADDRSTRLEN];
    char interface[LINE_SIZE] = "";

    snprintf(file, sizeof file, "gids/%.32s", index);
    if (!read_line(port->root, port->directory, file, gid) || strcmp(gid, NO_GID) == 0)
        return;
    snprintf(file, sizeof file, "gid_attrs/types/%.32s", index);
    read_line(port->root, port->directory, file, type);
    snprintf(file, sizeof file, "gid_attrs/ndevs/%.32s", index);
    read_line(port->root, port->directory, file, interface);
    address_text(gid, address);
    if (!port->interface[0])
        snprintf(port->interface, sizeof port->interface, "%.60s", interface);
    bool is_usable = !port->is_ethernet || (strstr(type, "v2") && address[0]);
    port->usable += is_usable;
    doctor_add(port->report, DOCTOR_OK, port->name, NULL, "GID %s: %s, %s%s%s%s", index, gid, type,
               address[0] ? ", rdma://" : "", address,
               is_usable ? "" : ": not for rdma:// with an IPv4 address");
}

static int compare(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int is_entry(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Calls `each` with the names in a directory of sysfs, in their order. Returns their number. */
static int each_name(const char *root, const char *directory,
                     void (*each)(void *user, const char *name), void *user)
{
    char path[PATH_SIZE];
    struct dirent **list;

    snprintf(path, sizeof path, "%s%s", root, directory);
    int count = scandir(path, &list, is_entry, compare);
    for (int i = 0; i < count; i++) {
        each(user, list[i]->d_name);
        free(list[i]);
    }
    if (count >= 0)
        free(list);
    return count;
}

static void gid_found(void *user, const char *name)
{
    check_gid(user, name);
}

static void check_mtu(const struct port *port)
{
    char directory[PATH_SIZE], text[LINE_SIZE], fix[LINE_SIZE];
    unsigned mtu;

    snprintf(directory, sizeof directory, "/sys/class/net/%s", port->interface);
    if (!port->interface[0] || !read_line(port->root, directory, "mtu", text) ||
        sscanf(text, "%u", &mtu) != 1)
        return;
    snprintf(fix, sizeof fix, "ip link set %s mtu %d, on all hosts and switches of the way",
             port->interface, MTU_BEST);
    doctor_add(port->report, mtu < MTU_BEST ? DOCTOR_NOTE : DOCTOR_OK, port->name,
               mtu < MTU_BEST ? fix : NULL, "MTU of %s is %u: RDMA messages of %d bytes",
               port->interface, mtu,
               mtu >= MTU_BEST ? 4096
               : mtu >= 2200   ? 2048
                               : 1024);
}

static void check_state(const struct port *port)
{
    char state[LINE_SIZE] = "unknown", rate[LINE_SIZE] = "", layer[LINE_SIZE] = "", fix[LINE_SIZE];

    read_line(port->root, port->directory, "state", state);
    read_line(port->root, port->directory, "rate", rate);
    read_line(port->root, port->directory, "link_layer", layer);
    bool is_active = strstr(state, "ACTIVE") != NULL;
    snprintf(fix, sizeof fix,
             port->is_ethernet ? "ip link set %s up, and look at its cable"
                               : "see that a subnet manager runs%.0s",
             port->interface[0] ? port->interface : "INTERFACE");
    doctor_add(port->report, is_active ? DOCTOR_OK : DOCTOR_PROBLEM, port->name,
               is_active ? NULL : fix, "%s, %s, %s", state, layer, rate);
}

static void check_addresses(const struct port *port)
{
    char fix[LINE_SIZE];

    if (port->usable > 0)
        return;
    snprintf(fix, sizeof fix, "ip addr add ADDRESS/24 dev %s",
             port->interface[0] ? port->interface : "INTERFACE");
    doctor_add(port->report, DOCTOR_PROBLEM, port->name, fix,
               "no GID of RoCE v2 with an IPv4 address: rdma:// has no address of this device");
}

struct device {
    struct doctor_report *report;
    const char *root;
    const char *name;
};

static void port_found(void *user, const char *name)
{
    const struct device *device = user;
    struct port port = {.report = device->report, .root = device->root};
    char layer[LINE_SIZE] = "", gids[PATH_SIZE];

    snprintf(port.name, sizeof port.name, "%.48s/%.12s", device->name, name);
    snprintf(port.directory, sizeof port.directory, CLASS "/%.64s/ports/%.12s", device->name, name);
    read_line(port.root, port.directory, "link_layer", layer);
    port.is_ethernet = strcmp(layer, "Ethernet") == 0;
    snprintf(gids, sizeof gids, "%s/gids", port.directory);
    each_name(port.root, gids, gid_found, &port);
    check_state(&port);
    check_addresses(&port);
    if (port.is_ethernet)
        check_mtu(&port);
}

static void device_found(void *user, const char *name)
{
    struct device device = *(const struct device *)user;
    char ports[PATH_SIZE];

    device.name = name;
    snprintf(ports, sizeof ports, CLASS "/%.64s/ports", name);
    if (each_name(device.root, ports, port_found, &device) <= 0)
        doctor_add(device.report, DOCTOR_PROBLEM, name, "load its driver again", "it has no port");
}

/* A module that is loaded has a directory. */
static bool is_loaded(const char *root, const char *module)
{
    char path[PATH_SIZE];

    snprintf(path, sizeof path, "%s/sys/module/%s", root, module);
    return access(path, F_OK) == 0;
}

void doctor_check_devices(struct doctor_report *report, const char *root)
{
    struct device device = {.report = report, .root = root};

    if (each_name(root, CLASS, device_found, &device) > 0)
        return;
    doctor_add(
        report, DOCTOR_NOTE, "RDMA devices",
        is_loaded(root, "rdma_rxe")
            ? "rdma link add rxe0 type rxe netdev INTERFACE"
            : "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev INTERFACE, for soft-RoCE",
        "there are none: rdma:// cannot be used here; ofi:// and local:// can");
}
