#include "shared/devices/facts.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/number.h"

#define PATH_SIZE 512
#define LINE_SIZE 128

const char *const okv_facts_counter_names[OKV_FACTS_COUNTERS] = {
    "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err"};

/* ---- reading ------------------------------------------------------------ */

/* A path below `root`, which sysfs keeps far shorter than the buffer. */
__attribute__((format(printf, 3, 4))) static void path_of(char path[PATH_SIZE], const char *root,
                                                          const char *format, ...)
{
    int length = snprintf(path, PATH_SIZE, "%.120s/sys/class/", root);
    va_list args;

    va_start(args, format);
    vsnprintf(path + length, PATH_SIZE - (size_t)length, format, args);
    va_end(args);
}

/* The first line of a file up to its first space; "" when there is none. */
static void read_word(const char *path, char *out, size_t size)
{
    char line[LINE_SIZE] = "";
    FILE *stream = fopen(path, "re");

    if (stream && !fgets(line, sizeof line, stream))
        line[0] = '\0';
    if (stream)
        fclose(stream);
    snprintf(out, size, "%.*s", (int)strcspn(line, " \n"), line);
}

static uint64_t number_of(const char *word)
{
    int64_t number;

    return okv_number_parse(word, strlen(word), &number) && number >= 0 ? (uint64_t)number
                                                                        : OKV_FACTS_UNKNOWN;
}

static uint64_t read_number(const char *path)
{
    char word[LINE_SIZE];

    read_word(path, word, sizeof word);
    return number_of(word);
}

/* Also soft-RoCE on a NIC shows that NIC's PCI device; only soft-RoCE has a parent, a network
 * device (drivers/infiniband/sw/rxe/rxe_verbs.c, parent_show). */
static bool is_soft(const char *root, const char *device)
{
    char vendor[PATH_SIZE], parent[PATH_SIZE];

    path_of(vendor, root, "infiniband/%s/device/vendor", device);
    path_of(parent, root, "infiniband/%s/parent", device);
    return access(vendor, F_OK) != 0 || access(parent, F_OK) == 0;
}

static void read_pcie(const char *root, const char *device, struct okv_port_facts *out)
{
    char path[PATH_SIZE], lanes[8], speed[8];

    path_of(path, root, "infiniband/%s/device/current_link_width", device);
    read_word(path, lanes, sizeof lanes);
    path_of(path, root, "infiniband/%s/device/current_link_speed", device);
    read_word(path, speed, sizeof speed);
    if (lanes[0] && speed[0])
        snprintf(out->pcie, sizeof out->pcie, "%sx%s", lanes, speed);
}

/* Unless the connection manager takes another GID for the same address, or none of this host. */
static void add_address(const struct okv_port *port, const struct okv_gid *gid,
                        struct okv_port_facts *out)
{
    struct okv_facts_address *address = &out->addresses[out->address_count];

    if (out->address_count == OKV_FACTS_ADDRESSES)
        return;
    okv_gid_address(gid, address->text);
    address->gid = gid->index;
    out->address_count += okv_port_gid_of(port, address->text) == gid;
}

static void read_addresses(const struct okv_port *port, struct okv_port_facts *out)
{
    const struct okv_gid *best = okv_port_best_gid(port, AF_UNSPEC);

    if (best)
        add_address(port, best, out);
    for (unsigned i = 0; i < port->gid_count; i++)
        if (&port->gids[i] != best)
            add_address(port, &port->gids[i], out);
}

/* That of the interface that the port's best address belongs to. */
static uint64_t read_mtu(const char *root, const struct okv_port *port)
{
    const struct okv_gid *best = okv_port_best_gid(port, AF_UNSPEC);
    char path[PATH_SIZE];

    if (!best)
        return OKV_FACTS_UNKNOWN;
    path_of(path, root, "net/%s/mtu", best->interface);
    return read_number(path);
}

static void read_counters(const char *root, const struct okv_port *port, struct okv_port_facts *out)
{
    char path[PATH_SIZE];

    for (unsigned i = 0; i < OKV_FACTS_COUNTERS; i++) {
        path_of(path, root, "infiniband/%s/ports/%u/hw_counters/%s", port->device, port->number,
                okv_facts_counter_names[i]);
        out->counters[i] = read_number(path);
    }
}

static void read_port(const char *root, const struct okv_port *port, struct okv_port_facts *out)
{
    char path[PATH_SIZE], rate[sizeof port->rate];

    *out = (struct okv_port_facts){.is_soft = is_soft(root, port->device)};
    snprintf(out->port, sizeof out->port, "%s/%u", port->device, port->number % 1000);
    snprintf(rate, sizeof rate, "%.*s", (int)strcspn(port->rate, ". "), port->rate);
    out->rate_gbps = number_of(rate);
    out->mtu = read_mtu(root, port);
    path_of(path, root, "infiniband/%s/device/numa_node", port->device);
    out->numa = read_number(path);
    path_of(path, root, "infiniband/%s/fw_ver", port->device);
    read_word(path, out->firmware, sizeof out->firmware);
    read_pcie(root, port->device, out);
    read_addresses(port, out);
    read_counters(root, port, out);
}

int okv_facts_read(const char *root, struct okv_port_facts *out, unsigned room)
{
    struct okv_ports ports;
    unsigned count = 0;
    int rc = okv_ports_read(root, &ports, NULL);

    if (rc)
        return rc;
    for (unsigned i = 0; i < ports.count && count < room; i++)
        if (ports.list[i].is_active)
            read_port(root, &ports.list[i], &out[count++]);
    okv_ports_fini(&ports);
    return (int)count;
}

/* ---- writing ------------------------------------------------------------ */

struct text {
    char *out;
    unsigned length;
};

static void put(struct text *text, const char *name, const char *value)
{
    text->length +=
        (unsigned)snprintf(text->out + text->length, OKV_FACTS_LINE_SIZE - text->length, "%s%s %s",
                           text->length ? " " : "", name, value[0] ? value : "-");
}

static void put_number(struct text *text, const char *name, uint64_t number)
{
    char value[24] = "";

    if (number != OKV_FACTS_UNKNOWN)
        snprintf(value, sizeof value, "%" PRIu64, number);
    put(text, name, value);
}

_Static_assert(OKV_FACTS_LINE_SIZE > 512 + OKV_FACTS_ADDRESSES * (OKV_CHOICE_SIZE + 34), "it fits");

unsigned okv_facts_write(const struct okv_port_facts *facts, char line[OKV_FACTS_LINE_SIZE])
{
    struct text text = {.out = line};

    put(&text, "port", facts->port);
    for (unsigned i = 0; i < facts->address_count; i++) {
        put(&text, "address", facts->addresses[i].text);
        put_number(&text, "gid", facts->addresses[i].gid);
    }
    put_number(&text, "rate_gbps", facts->rate_gbps);
    put_number(&text, "mtu", facts->mtu);
    put(&text, "pcie", facts->pcie);
    put_number(&text, "numa_node", facts->numa);
    put(&text, "firmware", facts->firmware);
    put_number(&text, "soft", facts->is_soft);
    for (unsigned i = 0; i < OKV_FACTS_COUNTERS; i++)
        put_number(&text, okv_facts_counter_names[i], facts->counters[i]);
    line[text.length++] = '\n';
    line[text.length] = '\0';
    return text.length;
}

/* ---- parsing ------------------------------------------------------------ */

/* Cuts the next word off a line. False: there is none, or it is longer than the room. */
static bool cut_word(char **line, char *out, size_t size)
{
    size_t length = strcspn(*line, " ");

    if (length == 0 || length >= size)
        return false;
    memcpy(out, *line, length);
    out[length] = '\0';
    *line += length;
    if (**line == ' ' && (*line)[1] != '\0')
        ++*line; /* a space at the end stays, and is no word */
    return true;
}

static bool take_text(const char *value, char *out, size_t size)
{
    if (strcmp(value, "-") == 0)
        value = "";
    return (size_t)snprintf(out, size, "%s", value) < size;
}

static bool take_number(const char *value, uint64_t *out)
{
    *out = number_of(value);
    return *out != OKV_FACTS_UNKNOWN || strcmp(value, "-") == 0;
}

static bool take_address(const char *value, struct okv_port_facts *out)
{
    if (out->address_count == OKV_FACTS_ADDRESSES)
        return false;
    struct okv_facts_address *address = &out->addresses[out->address_count++];
    address->gid = OKV_FACTS_UNKNOWN;
    return take_text(value, address->text, sizeof address->text);
}

static bool take_gid(const char *value, struct okv_port_facts *out)
{
    return out->address_count > 0 &&
           take_number(value, &out->addresses[out->address_count - 1].gid);
}

static bool take_soft(const char *value, struct okv_port_facts *out)
{
    out->is_soft = strcmp(value, "1") == 0;
    return out->is_soft || strcmp(value, "0") == 0;
}

static bool take(const char *name, const char *value, struct okv_port_facts *out)
{
    for (unsigned i = 0; i < OKV_FACTS_COUNTERS; i++)
        if (strcmp(name, okv_facts_counter_names[i]) == 0)
            return take_number(value, &out->counters[i]);
    if (strcmp(name, "address") == 0)
        return take_address(value, out);
    if (strcmp(name, "gid") == 0)
        return take_gid(value, out);
    if (strcmp(name, "rate_gbps") == 0)
        return take_number(value, &out->rate_gbps);
    if (strcmp(name, "mtu") == 0)
        return take_number(value, &out->mtu);
    if (strcmp(name, "pcie") == 0)
        return take_text(value, out->pcie, sizeof out->pcie);
    if (strcmp(name, "numa_node") == 0)
        return take_number(value, &out->numa);
    if (strcmp(name, "firmware") == 0)
        return take_text(value, out->firmware, sizeof out->firmware);
    if (strcmp(name, "soft") == 0)
        return take_soft(value, out);
    return true;
}

/* Whether all bytes may be shown on a terminal. */
static bool is_plain(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (line[i] < ' ' || line[i] > '~')
            return false;
    return true;
}

bool okv_facts_parse(const char *line, size_t length, struct okv_port_facts *out)
{
    char copy[OKV_FACTS_LINE_SIZE], name[LINE_SIZE], value[LINE_SIZE];
    char *rest = copy;

    *out = (struct okv_port_facts){
        .rate_gbps = OKV_FACTS_UNKNOWN, .mtu = OKV_FACTS_UNKNOWN, .numa = OKV_FACTS_UNKNOWN};
    for (unsigned i = 0; i < OKV_FACTS_COUNTERS; i++)
        out->counters[i] = OKV_FACTS_UNKNOWN;
    if (length >= sizeof copy || !is_plain(line, length))
        return false;
    memcpy(copy, line, length);
    copy[length] = '\0';
    if (!cut_word(&rest, name, sizeof name) || strcmp(name, "port") != 0 ||
        !cut_word(&rest, value, sizeof value) || !take_text(value, out->port, sizeof out->port))
        return false;
    while (*rest)
        if (!cut_word(&rest, name, sizeof name) || !cut_word(&rest, value, sizeof value) ||
            !take(name, value, out))
            return false;
    return true;
}

bool okv_facts_has_address(const struct okv_port_facts *facts, const char *address)
{
    for (unsigned i = 0; i < facts->address_count; i++) {
        const char *own = facts->addresses[i].text;
        size_t length = strcspn(own, "%");
        if (strcmp(own, address) == 0 || (strncmp(own, address, length) == 0 && !address[length]))
            return true;
    }
    return false;
}
