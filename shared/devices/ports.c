#include "shared/devices/ports.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"

#define CLASS "/sys/class/infiniband"
#define PATH_SIZE 512
#define LINE_SIZE 128

/* The first line of a file, without its end; "" when there is none. */
static void read_line(const char *directory, const char *file, char *out, size_t size)
{
    char path[PATH_SIZE];

    out[0] = '\0';
    snprintf(path, sizeof path, "%s/%s", directory, file);
    FILE *stream = fopen(path, "re");
    if (!stream)
        return;
    /* An empty place of a GID table has a type that cannot be read. */
    if (!fgets(out, (int)size, stream))
        out[0] = '\0';
    fclose(stream);
    out[strcspn(out, "\n")] = '\0';
}

static int compare(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int is_entry(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Calls `each` with the names in a directory, in their order, until it fails. */
static int each_name(const char *directory, int (*each)(void *user, const char *name), void *user)
{
    struct dirent **list;
    int count = scandir(directory, &list, is_entry, compare);
    int rc = 0;

    for (int i = 0; i < count; i++) {
        if (rc == 0)
            rc = each(user, list[i]->d_name);
        free(list[i]);
    }
    if (count >= 0)
        free(list);
    return rc;
}

/* Room for one more element. NULL without memory; the list is as it was then. */
static void *grown(void *list, unsigned count, size_t size)
{
    /* A power of two is full. */
    if (count & (count - 1))
        return list;
    return realloc(list, (count ? 2 * (size_t)count : 1) * size);
}

static bool is_address(const struct sockaddr *address, const struct in6_addr *gid)
{
    if (!address)
        return false;
    if (address->sa_family == AF_INET)
        return IN6_IS_ADDR_V4MAPPED(gid) &&
               memcmp(&((const struct sockaddr_in *)(const void *)address)->sin_addr,
                      &gid->s6_addr[12], sizeof(struct in_addr)) == 0;
    return address->sa_family == AF_INET6 &&
           IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr,
                              gid);
}

static bool has_address(const struct ifaddrs *own, const struct in6_addr *gid)
{
    while (own && !is_address(own->ifa_addr, gid))
        own = own->ifa_next;
    return own != NULL;
}

struct port_reading {
    const struct ifaddrs *own;
    struct okv_port *port;
    char directory[PATH_SIZE - LINE_SIZE];
};

static int read_gid(void *user, const char *name)
{
    struct port_reading *reading = user;
    struct okv_port *port = reading->port;
    struct okv_gid gid = {.index = (unsigned)strtoul(name, NULL, 10)};
    char file[64], text[LINE_SIZE];

    snprintf(file, sizeof file, "gids/%.32s", name);
    read_line(reading->directory, file, text, sizeof text);
    if (inet_pton(AF_INET6, text, &gid.raw) != 1 || IN6_IS_ADDR_UNSPECIFIED(&gid.raw))
        return 0;
    gid.is_here = has_address(reading->own, &gid.raw);
    snprintf(file, sizeof file, "gid_attrs/types/%.32s", name);
    read_line(reading->directory, file, gid.type, sizeof gid.type);
    gid.is_v2 = strstr(gid.type, "v2") != NULL;
    snprintf(file, sizeof file, "gid_attrs/ndevs/%.32s", name);
    read_line(reading->directory, file, gid.interface, sizeof gid.interface);
    struct okv_gid *gids = grown(port->gids, port->gid_count, sizeof *gids);
    if (!gids)
        return OKV_ENOMEM;
    port->gids = gids;
    gids[port->gid_count++] = gid;
    return 0;
}

struct device_reading {
    const struct ifaddrs *own; /* addresses of this network namespace */
    const char *root;
    const char *device;
    struct okv_ports *ports;
};

static int read_port(void *user, const char *name)
{
    const struct device_reading *device = user;
    struct okv_ports *ports = device->ports;
    struct okv_port *list = grown(ports->list, ports->count, sizeof *list);
    if (!list)
        return OKV_ENOMEM;
    ports->list = list;
    struct okv_port *port = &list[ports->count++];
    struct port_reading reading = {.own = device->own, .port = port};
    char gids[PATH_SIZE];

    *port = (struct okv_port){.number = (unsigned)strtoul(name, NULL, 10)};
    snprintf(port->device, sizeof port->device, "%.63s", device->device);
    snprintf(reading.directory, sizeof reading.directory, "%.120s" CLASS "/%.64s/ports/%.16s",
             device->root, device->device, name);
    read_line(reading.directory, "state", port->state, sizeof port->state);
    read_line(reading.directory, "link_layer", port->layer, sizeof port->layer);
    read_line(reading.directory, "rate", port->rate, sizeof port->rate);
    port->is_active = strstr(port->state, "ACTIVE") != NULL;
    port->is_ethernet = strcmp(port->layer, "Ethernet") == 0;
    snprintf(gids, sizeof gids, "%s/gids", reading.directory);
    return each_name(gids, read_gid, &reading);
}

static int read_device(void *user, const char *name)
{
    struct device_reading *device = user;
    char directory[PATH_SIZE];

    device->device = name;
    snprintf(directory, sizeof directory, "%.120s" CLASS "/%.64s/ports", device->root, name);
    return each_name(directory, read_port, device);
}

int okv_ports_read(const char *root, struct okv_ports *out, struct okv_diag *diag)
{
    struct ifaddrs *own = NULL;
    char directory[PATH_SIZE];

    *out = (struct okv_ports){0};
    if (getifaddrs(&own))
        return okv_diag_set(diag, okv_error_from_errno(errno),
                            "the addresses of this host cannot be listed: %s", strerror(errno));
    struct device_reading reading = {.own = own, .root = root, .ports = out};
    snprintf(directory, sizeof directory, "%.120s" CLASS, root);
    int rc = each_name(directory, read_device, &reading);
    freeifaddrs(own);
    if (rc) {
        okv_ports_fini(out);
        return okv_diag_set(diag, rc, "no memory for a list of RDMA ports");
    }
    return 0;
}

void okv_ports_fini(struct okv_ports *ports)
{
    for (unsigned i = 0; i < ports->count; i++)
        free(ports->list[i].gids);
    free(ports->list);
    *ports = (struct okv_ports){0};
}
