/* okv doctor --peer: gathers what both ends say of their RDMA ports, and measures gets. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/doctor/checks.h"
#include "client/cli/doctor/compare.h"
#include "client/cli/stats.h"
#include "shared/base/clock.h"
#include "shared/base/resolve.h"

#define WHAT "peer"
#define PORTS_MAX 16
/* A reading of the server takes a tenth of a second, when others have just asked for one. */
#define READING_LOOKS 200
#define READING_PAUSE_MS 10
#define GETS 2000
#define BATCHES 200
#define TTL_MS 60000
/* Below it a NIC's cache holds all translations of small pages. */
#define LARGE_REGION (UINT64_C(1) << 30)

struct peer {
    struct doctor_report *report;
    const char *root;
    struct cli *cli;
    struct okv_uri uri;
    struct doctor_end here, there;
    int huge_pages; /* of the database: 1, 0; -1: unknown */
};

/* ---- this end ----------------------------------------------------------- */

/* The port that the connection has, which its path begins with: "rxe0 port 1, GID ...". If that
 * says nothing, the only one. */
static void find_here(const struct peer *peer, struct doctor_end *end)
{
    struct okv_port_facts ports[PORTS_MAX];
    char device[OKV_DEVICE_SIZE] = "", name[sizeof ports->port] = "";
    struct okv_info info;
    unsigned number;
    int count = okv_facts_read(peer->root, ports, PORTS_MAX);

    *end = (struct doctor_end){.who = "this host"};
    okv_info(peer->cli->handle, &info);
    if (sscanf(info.path, "%63s port %u,", device, &number) == 2)
        snprintf(name, sizeof name, "%s/%u", device, number);
    for (int i = 0; i < count && !end->is_known; i++) {
        end->is_known = count == 1 || strcmp(ports[i].port, name) == 0;
        end->facts = ports[i];
    }
}

/* ---- the other end ------------------------------------------------------ */

/* Has the server read its ports. *text is its answer to free(). Returns the code. */
static int fetch_reading(okv *handle, char **text)
{
    char command[32] = "host ", *number = NULL;
    int rc = cli_fetch_stat(handle, "host", &number);

    if (rc != OKV_OK)
        return rc;
    snprintf(command, sizeof command, "host %.16s", number);
    free(number);
    for (unsigned i = 0; i < READING_LOOKS; i++) {
        rc = cli_fetch_stat(handle, command, text);
        if (rc != OKV_OK || (*text)[0])
            return rc;
        free(*text);
        *text = NULL;
        if (!cli_pause(READING_PAUSE_MS))
            break;
    }
    return OKV_ETIMEDOUT;
}

/* Reads the lines of ports into `out`, and returns their number. */
static unsigned parse_reading(struct peer *peer, const char *text,
                              struct okv_port_facts out[PORTS_MAX])
{
    unsigned count = 0;
    uint64_t huge;

    peer->huge_pages = cli_stat_number(text, "huge_pages", 10, &huge) ? huge == 1 : -1;
    for (const char *line = text; *line && count < PORTS_MAX;) {
        size_t length = strcspn(line, "\n");
        count += okv_facts_parse(line, length, &out[count]);
        line += length + (line[length] == '\n');
    }
    return count;
}

static bool has_one_of(const struct okv_port_facts *port, const struct addrinfo *addresses)
{
    char text[OKV_CHOICE_SIZE];

    for (; addresses; addresses = addresses->ai_next) {
        okv_host_text(addresses->ai_addr, text, sizeof text);
        if (okv_facts_has_address(port, text))
            return true;
    }
    return false;
}

/* The port that has the address of the URI; if none has it, the only one. */
static void choose_there(const struct peer *peer, const struct okv_port_facts *ports,
                         unsigned count, struct doctor_end *end)
{
    struct addrinfo *addresses = NULL;

    if (peer->uri.host[0] && okv_resolve(peer->uri.host, peer->uri.port, 0, &addresses, NULL))
        addresses = NULL;
    for (unsigned i = 0; i < count && !end->is_known; i++) {
        end->is_known = count == 1 || has_one_of(&ports[i], addresses);
        end->facts = ports[i];
    }
    if (addresses)
        freeaddrinfo(addresses);
}

/* Returns the code. With OKV_OK the end may be unknown nevertheless. */
static int find_there(struct peer *peer, struct doctor_end *end)
{
    struct okv_port_facts ports[PORTS_MAX];
    char *text = NULL;
    int rc = fetch_reading(peer->cli->handle, &text);

    *end = (struct doctor_end){.who = "the server"};
    if (rc == OKV_OK)
        choose_there(peer, ports, parse_reading(peer, text, ports), end);
    free(text);
    return rc;
}

/* ---- findings ----------------------------------------------------------- */

static void explain_unknown(struct peer *peer, int rc)
{
    struct doctor_report *report = peer->report;

    if (rc == OKV_EDENIED)
        doctor_add(report, DOCTOR_NOTE, WHAT, "give a user with this right by --user",
                   "what the server's host says of its ports takes the right admin");
    else if (rc == OKV_EINVAL || rc == OKV_EUNSUPPORTED)
        doctor_add(report, DOCTOR_NOTE, WHAT, "use the same release of okv on both hosts",
                   "the server does not tell of its ports: it is of an older release");
    else if (rc != OKV_OK)
        doctor_add(report, DOCTOR_NOTE, WHAT, "run okv doctor on the server's host",
                   "the server does not tell of its ports: %s", okv_strerror(rc));
    else
        doctor_add(report, DOCTOR_NOTE, WHAT, "name the server by the address of its port",
                   "the server has several ports, or none, and none has the address of the URI");
}

static void check_huge_pages(struct peer *peer)
{
    struct okv_info info;

    okv_info(peer->cli->handle, &info);
    if (peer->huge_pages == 0 && info.region_bytes >= LARGE_REGION)
        doctor_add(peer->report, DOCTOR_NOTE, WHAT,
                   "sysctl vm.nr_hugepages=N on the server's host, half of the MiB of all "
                   "--memory, and start the server again",
                   "the server's memory is on small pages, with which NICs are slow");
    else if (peer->huge_pages >= 0)
        doctor_add(peer->report, DOCTOR_OK, WHAT, NULL, "the server: memory on %s pages",
                   peer->huge_pages ? "huge" : "small");
}

static void describe_ends(struct peer *peer)
{
    find_here(peer, &peer->here);
    int rc = find_there(peer, &peer->there);

    if (peer->here.is_known)
        doctor_tell_end(peer->report, &peer->here);
    else
        doctor_add(peer->report, DOCTOR_NOTE, WHAT, "name one by ?device= or ?source=",
                   "which port of this host the connection uses is not known");
    if (peer->there.is_known)
        doctor_tell_end(peer->report, &peer->there);
    else
        explain_unknown(peer, rc);
    check_huge_pages(peer);
    doctor_compare_ends(peer->report, &peer->here, &peer->there);
}

static void compare_counters(struct peer *peer)
{
    struct doctor_end here, there;

    find_here(peer, &here);
    if (peer->here.is_known && here.is_known)
        doctor_compare_counters(peer->report, &peer->here, &here);
    if (peer->there.is_known && find_there(peer, &there) == OKV_OK && there.is_known)
        doctor_compare_counters(peer->report, &peer->there, &there);
}

/* ---- measurement -------------------------------------------------------- */

static const char value[32] = "okv doctor";

static int time_gets(okv *handle, const char *key, struct doctor_figures *out)
{
    static uint64_t samples[GETS];
    char back[sizeof value];
    size_t length;

    for (unsigned i = 0; i < GETS; i++) {
        uint64_t begin_ns = okv_clock_ns();
        int rc = okv_get(handle, key, strlen(key), back, sizeof back, &length, NULL);
        samples[i] = okv_clock_ns() - begin_ns;
        if (rc != OKV_OK)
            return rc;
    }
    cli_samples_sort(samples, GETS);
    out->p50_us = (double)cli_percentile(samples, GETS, 50) / 1000.0;
    return OKV_OK;
}

static int time_batches(okv *handle, const char *key, struct doctor_figures *out)
{
    struct okv_command gets[DOCTOR_BATCH];
    struct okv_result results[DOCTOR_BATCH];
    char back[DOCTOR_BATCH][sizeof value];

    for (unsigned i = 0; i < DOCTOR_BATCH; i++)
        gets[i] = (struct okv_command){.kind = OKV_GET,
                                       .key = key,
                                       .key_length = strlen(key),
                                       .buffer = back[i],
                                       .buffer_size = sizeof back[i]};
    uint64_t begin_ns = okv_clock_ns();
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        int rc = okv_call_many(handle, gets, results, DOCTOR_BATCH);
        for (unsigned i = 0; i < DOCTOR_BATCH && rc == OKV_OK; i++)
            rc = results[i].status;
        if (rc != OKV_OK)
            return rc;
    }
    out->per_second = BATCHES * DOCTOR_BATCH * 1e9 / (double)(okv_clock_ns() - begin_ns);
    return OKV_OK;
}

/* Of an item of its own, which is gone soon if deleting it fails. Returns the code. */
static int measure(okv *handle, struct doctor_figures *out)
{
    const struct okv_put_options options = {.flags = OKV_WITH_TTL, .ttl_ms = TTL_MS};
    char key[DOCTOR_KEY_SIZE];

    doctor_draw_key(key);
    int rc = okv_put_with(handle, key, strlen(key), value, sizeof value, &options, NULL);
    if (rc == OKV_OK) {
        rc = time_gets(handle, key, out);
        if (rc == OKV_OK)
            rc = time_batches(handle, key, out);
        okv_delete(handle, key, strlen(key));
    }
    return rc;
}

void doctor_check_peer(struct doctor_report *report, const char *root, struct cli *cli)
{
    struct peer peer = {.report = report, .root = root, .cli = cli, .huge_pages = -1};
    struct doctor_figures figures;
    struct okv_diag diag;

    bool is_one = okv_uri_parse(cli->server, &peer.uri, &diag) == 0;
    if (!is_one && !cli->handle)
        return; /* connecting said why */
    if (!is_one || peer.uri.scheme != OKV_SCHEME_RDMA) {
        doctor_add(report, DOCTOR_NOTE, WHAT, "name the server by rdma://ADDRESS",
                   "--peer compares the RDMA ports of one server, and %s names none", cli->server);
        return;
    }
    if (!cli->handle)
        return;
    describe_ends(&peer);
    int rc = measure(cli->handle, &figures);
    compare_counters(&peer);
    if (rc == OKV_OK)
        doctor_judge(report, &peer.here, &peer.there, &figures);
    else
        doctor_add(report, DOCTOR_NOTE, "verdict", "see the findings of the server above",
                   "nothing could be measured: %s", okv_strerror(rc));
}
