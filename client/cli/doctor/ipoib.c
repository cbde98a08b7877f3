#include "client/cli/doctor/checks.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/doctor/files.h"
#include "shared/base/resolve.h"

/* Of /sys/class/net/INTERFACE/type: ARPHRD_INFINIBAND of linux/if_arp.h. */
#define TYPE_INFINIBAND 32u

static bool is_number(const char *root, const char *interface, const char *file, unsigned expected)
{
    char path[DOCTOR_PATH_SIZE];
    unsigned long long number;

    snprintf(path, sizeof path, "/sys/class/net/%s/%s", interface, file);
    return doctor_file_number(root, path, &number) && number == expected;
}

static bool is_link_local(const struct sockaddr *it)
{
    return it->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)it)->sin6_addr);
}

/* Whether it is `address`, or if that is NULL one that other hosts reach. */
static bool fits(const struct sockaddr *it, const char *address)
{
    char text[INET6_ADDRSTRLEN];

    if (!it || (it->sa_family != AF_INET && it->sa_family != AF_INET6))
        return false;
    okv_host_text(it, text, sizeof text);
    return address ? strcmp(text, address) == 0 : !is_link_local(it);
}

static bool has_address(const char *interface, const char *address)
{
    struct ifaddrs *list;
    bool is_found = false;

    if (getifaddrs(&list))
        return false;
    for (struct ifaddrs *it = list; it && !is_found; it = it->ifa_next)
        is_found = strcmp(it->ifa_name, interface) == 0 && fits(it->ifa_addr, address);
    freeifaddrs(list);
    return is_found;
}

bool doctor_ipoib_find(const char *root, const struct okv_port *port, const char *address,
                       char out[IF_NAMESIZE])
{
    char path[DOCTOR_PATH_SIZE];
    const struct dirent *entry;
    bool is_found = false;

    out[0] = '\0';
    snprintf(path, sizeof path, "%s/sys/class/infiniband/%s/device/net", root, port->device);
    DIR *interfaces = opendir(path);
    if (!interfaces)
        return false;
    while (!is_found && (entry = readdir(interfaces))) {
        const char *name = entry->d_name;
        if (strlen(name) >= IF_NAMESIZE || !is_number(root, name, "type", TYPE_INFINIBAND) ||
            !is_number(root, name, "dev_port", port->number - 1))
            continue;
        memcpy(out, name, strlen(name) + 1);
        is_found = has_address(name, address);
    }
    closedir(interfaces);
    return is_found;
}
