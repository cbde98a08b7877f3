#include "server/copies/copies.h"

#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "server/copies/cluster_files.h"
#include "server/copies/copy.h"
#include "server/copies/keys.h"
#include "server/copies/leaving.h"
#include "server/copies/links.h"
#include "server/copies/mail.h"
#include "server/copies/marking.h"
#include "server/copies/orders.h"
#include "server/copies/placement.h"
#include "server/copies/registry.h"
#include "server/copies/report.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/etcd/etcd.h"
#include "server/peers/inbox.h"
#include "server/store/status.h"
#include "server/store/store.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/random.h"
#include "shared/base/thread.h"
#include "shared/format/hash.h"

/* Between two reports for administrators. */
#define REPORT_US 100000
/* Told to those who observe, while the cluster is not known. */
#define LEASE_UNKNOWN_MS 1000
/* Between two looks at etcd while messages come. */
#define ETCD_STEP_NS 1000000
/* A window of the lateness that is reported. */
#define LATENESS_US 60000000
/* Between two looks at a hand-over before the end. */
#define LEAVE_LOOK_US 5000
#define FDS_MAX (2 + OKV_DATABASES_MAX * OKV_COPIES_MAX)

/* ---- the thread ---- */

static int ms_until(uint64_t due_us)
{
    uint64_t now_us = okv_clock_lease_us(), ms = 0;

    if (due_us == UINT64_MAX)
        return -1;
    if (due_us > now_us)
        ms = (due_us - now_us + 999) / 1000;
    return ms < 60000 ? (int)ms : 60000;
}

static uint64_t spin_until_ns(const struct okv_copies *copies)
{
    return copies->busy_ns + copies->server->config.spin_us * UINT64_C(1000);
}

/* Messages and steps of the log come soon after each other: asleep, the thread would have to be
 * woken several times for each batch. Returns whether something has come. */
static bool poll_briefly(const struct okv_copies *copies, struct pollfd *fds, unsigned count)
{
    uint64_t until_ns = spin_until_ns(copies);

    until_ns = until_ns < copies->etcd_ns ? until_ns : copies->etcd_ns;
    while (okv_clock_ns() < until_ns) {
        if (poll(fds, count, 0) > 0)
            return true;
        sched_yield();
    }
    return false;
}

static bool have_come(const struct pollfd *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (fds[i].revents)
            return true;
    return false;
}

static void await_any(struct okv_copies *copies, struct pollfd *fds, unsigned count, int timeout_ms)
{
    if (!poll_briefly(copies, fds, count)) {
        bool spins = okv_clock_ns() < spin_until_ns(copies);
        okv_etcd_wait(copies->etcd, fds, count, spins ? 0 : timeout_ms);
        copies->etcd_ns = okv_clock_ns() + ETCD_STEP_NS;
    }
    if (have_come(fds, count))
        copies->busy_ns = okv_clock_ns();
}

/* Returns when the thread was to go on: when something came, or was due. */
static uint64_t await(struct okv_copies *copies)
{
    struct pollfd fds[FDS_MAX] = {{.fd = copies->inbox->fd, .events = POLLIN},
                                  {.fd = copies->log_fd, .events = POLLIN}};
    uint64_t due_us = okv_registry_due_us(copies), wake_ns = UINT64_MAX;
    unsigned count = 2;

    for (unsigned i = 0; i < copies->server->database_count; i++) {
        const struct okv_copy *copy = &copies->of[i];
        if (!copy->has_begun)
            continue;
        if (okv_copy_due_us(copy) < due_us)
            due_us = okv_copy_due_us(copy);
        okv_links_wait(copy, fds, &count, &wake_ns);
    }
    if (copies->report_at_us < due_us)
        due_us = copies->report_at_us;
    int timeout_ms = ms_until(due_us);
    if (wake_ns != UINT64_MAX)
        timeout_ms = okv_clock_sooner_ms(timeout_ms, okv_clock_ms_until(wake_ns));
    uint64_t began_us = okv_clock_lease_us();
    await_any(copies, fds, count, timeout_ms);
    uint64_t woke_us = okv_clock_lease_us();
    if (fds[1].revents) {
        eventfd_t value;
        eventfd_read(copies->log_fd, &value);
    }
    due_us = due_us > began_us ? due_us : began_us;
    return due_us < woke_us ? due_us : woke_us;
}

/* A copy that is late by half a lease leaves the set; a primary that is late by more than a lease
 * is replaced. */
static void note_lateness(struct okv_copies *copies, uint64_t due_us)
{
    struct okv_lateness *lateness = &copies->lateness;
    uint64_t now_us = okv_clock_lease_us();

    if (now_us - lateness->began_us >= LATENESS_US) {
        lateness->before_us = lateness->now_us;
        lateness->now_us = 0;
        lateness->began_us = now_us;
    }
    if (now_us - due_us > lateness->now_us)
        lateness->now_us = now_us - due_us;
}

static void begin_copies(struct okv_copies *copies)
{
    struct okv_server *server = copies->server;
    struct okv_diag why = {.text = ""};
    uint64_t now_ms = okv_clock_wall_ms(), began_ms = copies->cluster.began_wall_ms;

    copies->has_begun = true;
    okv_databases_set_clock(server, now_ms > began_ms ? now_ms - began_ms : 1);
    for (unsigned i = 0; i < server->database_count; i++) {
        struct okv_copy *copy = &copies->of[i];
        int rc = okv_copy_begin(copy, &why);
        if (rc)
            okv_log_say(&server->log, OKV_LOG_ERROR, "cluster", "database %s has no copy here: %s",
                        copy->database->config->name, why.text[0] ? why.text : okv_error_text(rc));
    }
}

static void report(struct okv_copies *copies, uint64_t now_us)
{
    if (now_us < copies->report_at_us)
        return;
    copies->report_at_us = now_us + REPORT_US;
    for (unsigned i = 0; i < copies->server->database_count; i++)
        okv_placement_run(&copies->of[i], now_us);
    okv_report_renew(copies);
}

static void pass(struct okv_copies *copies)
{
    uint64_t now_us = okv_clock_lease_us();

    okv_mail_take(copies);
    for (unsigned i = 0; i < copies->server->database_count; i++) {
        struct okv_copy *copy = &copies->of[i];
        if (!copy->has_begun)
            continue;
        okv_copy_run(copy);
        okv_links_run(copy, now_us);
    }
    okv_orders_take(copies);
    okv_leaving_run(copies);
    okv_registry_run(copies, now_us);
    if (copies->has_cluster && !copies->has_begun)
        begin_copies(copies);
    report(copies, now_us);
}

static void *run(void *user)
{
    struct okv_copies *copies = user;

    while (!atomic_load(&copies->has_to_stop)) {
        uint64_t due_us = await(copies);
        pass(copies);
        note_lateness(copies, due_us);
    }
    for (unsigned i = 0; i < copies->server->database_count; i++)
        okv_copy_end(&copies->of[i]);
    okv_registry_end(copies);
    return NULL;
}

/* ---- what it begins with ---- */

/* Servers of a cluster have it in common, or a copy could not take over. */
static uint64_t digest(const struct okv_server *server)
{
    char text[256];
    uint64_t sum = 0;

    for (unsigned i = 0; i < server->database_count; i++) {
        const struct okv_database_config *config = server->databases[i].config;
        int length = snprintf(text, sizeof text, "%s %llu %u %u %u %d %llu %u %u", config->name,
                              (unsigned long long)config->memory, config->bucket_size,
                              config->max_value, server->limits.credits, (int)config->full,
                              (unsigned long long)config->sync_within_ns, server->limits.slot_size,
                              server->config.remember_s);
        sum = okv_hash_checksum(text, (size_t)length, sum);
    }
    return sum;
}

/* The name of the host, or of the container: copies on one host are of little use. */
static void name_host(char *out, size_t size)
{
    if (gethostname(out, size) < 0)
        out[0] = '\0';
    out[size - 1] = '\0';
}

/* A server is who is reached at its first address: one that comes back is the same. */
static void describe_self(struct okv_copies *copies)
{
    const struct okv_cluster_config *config = &copies->server->config.cluster;
    struct okv_server_document *self = &copies->self;
    const char *first = config->advertise_texts[0];

    self->id = copies->id = okv_hash_checksum(first, strlen(first), 0) | 1;
    self->boot = copies->boot;
    for (unsigned i = 0; i < config->advertise_count; i++)
        snprintf(self->uris[self->uri_count++], OKV_ADVERTISED_SIZE, "%s",
                 config->advertise_texts[i]);
    name_host(self->host, sizeof self->host);
    snprintf(self->version, sizeof self->version, "%s", OKV_VERSION);
}

static int draw(struct okv_copies *copies, struct okv_diag *diag)
{
    uint64_t drawn[3 + OKV_DATABASES_MAX];

    if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn)
        return okv_diag_set(diag, OKV_EIO, "no random bytes from the system");
    copies->boot = drawn[0];
    copies->client_id = drawn[1];
    copies->random = drawn[2];
    copies->creation_id = okv_random_next(&copies->random) | 1;
    for (unsigned i = 0; i < OKV_DATABASES_MAX; i++)
        copies->of[i].incarnation = drawn[3 + i] >> 1;
    return 0;
}

static int create_etcd(struct okv_copies *copies, struct okv_diag *diag)
{
    const struct okv_cluster_config *config = &copies->server->config.cluster;
    const struct okv_etcd_options options = {
        .urls = config->etcd,
        .ca = config->etcd_ca,
        .cert = config->etcd_cert,
        .key = config->etcd_key,
        .user = config->etcd_user,
        .password = copies->server->cluster_files->etcd_password,
    };

    return okv_etcd_create(&options, &copies->etcd, diag);
}

static int begin_copy(struct okv_copies *copies, unsigned index, struct okv_diag *diag)
{
    struct okv_copy *copy = &copies->of[index];
    const struct okv_store_lease lease = {.table = {.flags = OKV_LEASE_MEMBER},
                                          .longest_ms = LEASE_UNKNOWN_MS};

    copy->copies = copies;
    copy->database = &copies->server->databases[index];
    copy->is_shown = true;
    STAILQ_INIT(&copy->mail.list);
    STAILQ_INIT(&copy->loading.list);
    okv_keys_name_shard(copies, copy->database->config->name, copy->key);
    okv_store_set_lease(&copy->database->store, &lease);
    copy->work = calloc(1, sizeof *copy->work);
    int rc = copy->work ? okv_store_work_init(copy->work, copy->database->config->bucket_size)
                        : OKV_ENOMEM;
    return rc ? rc : okv_marking_open(copy, diag);
}

static void end_copy(struct okv_copy *copy)
{
    if (copy->work)
        okv_store_work_fini(copy->work);
    free(copy->work);
}

int okv_copies_create(struct okv_server *server, struct okv_copies **out, struct okv_diag *diag)
{
    struct okv_copies *copies = calloc(1, sizeof *copies);

    if (!copies)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for a cluster");
    copies->server = server;
    copies->step = okv_copy_step;
    copies->key = server->cluster_files->peer_key;
    pthread_mutex_init(&copies->lock, NULL);
    STAILQ_INIT(&copies->orders);
    copies->log_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = copies->log_fd < 0 ? okv_diag_set(diag, OKV_EIO, "no descriptor for a cluster") : 0;
    if (rc == 0)
        rc = draw(copies, diag);
    if (rc == 0)
        rc = create_etcd(copies, diag);
    if (rc == 0)
        rc = okv_peer_inbox_create(server, &copies->inbox);
    for (unsigned i = 0; i < server->database_count && rc == 0; i++)
        rc = begin_copy(copies, i, diag);
    if (rc) {
        okv_copies_destroy(copies);
        return rc;
    }
    describe_self(copies);
    copies->options = digest(server);
    server->peer_inbox = copies->inbox;
    *out = copies;
    return 0;
}

void okv_copies_destroy(struct okv_copies *copies)
{
    if (!copies)
        return;
    okv_etcd_destroy(&copies->etcd);
    okv_orders_end(copies);
    copies->server->peer_inbox = NULL;
    okv_peer_inbox_destroy(copies->inbox);
    if (copies->log_fd >= 0)
        close(copies->log_fd);
    pthread_mutex_destroy(&copies->lock);
    for (unsigned i = 0; i < OKV_DATABASES_MAX; i++)
        end_copy(&copies->of[i]);
    free(copies->ship);
    free(copies->report);
    free(copies);
}

int okv_copies_start(struct okv_copies *copies, struct okv_diag *why)
{
    int rc = okv_registry_begin(copies);

    if (rc == 0)
        rc = okv_thread_start(&copies->thread, run, copies, why);
    copies->is_started = rc == 0;
    return rc;
}

void okv_copies_leave(struct okv_copies *copies, uint32_t ms)
{
    uint64_t until_ns = okv_clock_ns() + ms * UINT64_C(1000000);

    if (!copies || !copies->is_started)
        return;
    atomic_store(&copies->led, UINT_MAX);
    atomic_store(&copies->has_to_leave, true);
    eventfd_write(copies->log_fd, 1);
    while (atomic_load(&copies->led) > 0 && okv_clock_ns() < until_ns)
        usleep(LEAVE_LOOK_US);
}

void okv_copies_stop(struct okv_copies *copies)
{
    if (!copies || !copies->is_started)
        return;
    atomic_store(&copies->has_to_stop, true);
    okv_etcd_wake(copies->etcd);
    pthread_join(copies->thread, NULL);
    copies->is_started = false;
}
