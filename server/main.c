/* okv-server: sets everything up from the bottom, waits for a signal, tears it down. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "server/net/acceptor.h"
#include "server/net/listening.h"
#include "server/store/region.h"
#include "server/worker.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

#define EXIT_CANNOT_SERVE 3
#define REPLY_CACHES_PER_CLIENT 4

static int store_open(struct okv_server *server, struct okv_diag *diag)
{
    uint64_t random[2];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return okv_diag_set(diag, OKV_EIO, "no random bytes from the system: %s", strerror(errno));
    const struct okv_store_params params = {
        .base = server->region.base,
        .length = server->region.length,
        .bucket_size = server->config.bucket_size,
        .inline_max = server->config.inline_max,
        .extra_reads = server->config.extra_reads,
        .index_percent = server->config.index_percent,
        .max_value = server->config.max_value,
        .boot_id = random[0] | 1, /* never 0 */
        .hash_seed = random[1],
    };
    int rc = okv_store_init(&server->store, &params);
    if (rc == OKV_EINVAL)
        return okv_diag_set(diag, rc, "--memory: %llu bytes are too few for a table: raise it",
                            (unsigned long long)params.length);
    return rc ? okv_diag_set(diag, rc, "cannot make a table in %llu bytes: %s",
                             (unsigned long long)params.length, okv_error_text(rc))
              : 0;
}

static void listeners_close(struct okv_server *server)
{
    while (server->listener_count > 0) {
        struct okv_listener *listener = server->listeners[--server->listener_count];
        listener->ops->unlisten(listener);
    }
}

static int listeners_open(struct okv_server *server, struct okv_diag *diag)
{
    for (unsigned i = 0; i < server->config.listen_count; i++) {
        const struct okv_uri *uri = &server->config.listen[i];
        int rc = okv_server_listen(server, okv_transport_for(uri->scheme), uri,
                                   &server->listeners[i], diag);
        if (rc) {
            listeners_close(server);
            return rc;
        }
        server->listener_count++;
    }
    return 0;
}

static void workers_destroy(struct okv_server *server, unsigned count)
{
    while (count-- > 0)
        okv_worker_fini(&server->workers[count]);
    free(server->workers);
}

static int workers_create(struct okv_server *server, struct okv_diag *diag)
{
    server->workers = calloc(server->config.workers, sizeof *server->workers);
    if (!server->workers)
        return OKV_ENOMEM;
    for (unsigned i = 0; i < server->config.workers; i++) {
        int rc = okv_worker_init(&server->workers[i], server, diag);
        if (rc) {
            workers_destroy(server, i);
            return rc;
        }
    }
    return 0;
}

/* The first `count` workers run. */
static void workers_stop(struct okv_server *server, unsigned count)
{
    atomic_store(&server->stopping, true);
    for (unsigned i = 0; i < count; i++)
        okv_worker_wake(&server->workers[i]);
    for (unsigned i = 0; i < count; i++)
        okv_worker_join(&server->workers[i]);
}

static int workers_start(struct okv_server *server)
{
    for (unsigned i = 0; i < server->config.workers; i++) {
        int rc = okv_worker_start(&server->workers[i]);
        if (rc) {
            workers_stop(server, i);
            return rc;
        }
    }
    return 0;
}

static void announce(const struct okv_server *server)
{
    for (unsigned i = 0; i < server->listener_count; i++)
        fprintf(stderr, "okv-server: %s: %s\n", server->listeners[i]->where,
                server->listeners[i]->how);
    if (server->config.group[0])
        fprintf(stderr, "okv-server: announced as %s in group %s\n", server->config.name,
                server->config.group);
    printf("ready");
    for (unsigned i = 0; i < server->listener_count; i++)
        printf(" %s", server->listeners[i]->where);
    printf("\n");
    fflush(stdout);
}

/* The first signal ends the wait. A second one ends the process. */
static void wait_for_signal(const struct okv_server *server, const sigset_t *signals)
{
    int number;

    while (sigwait(signals, &number))
        ;
    if (!atomic_load(&server->failure))
        fprintf(stderr, "okv-server: %s: telling clients and ending\n", strsignal(number));
    sigset_t others = *signals;
    sigdelset(&others, OKV_SERVER_FAILED_SIGNAL);
    pthread_sigmask(SIG_UNBLOCK, &others, NULL);
}

/* Returns 0 if a signal ended the server. */
static int failure_explain(const struct okv_server *server, struct okv_diag *diag)
{
    int failure = atomic_load(&server->failure);

    if (!failure)
        return 0;
    return okv_diag_set(diag, failure, "%s failed (%s): ended; start again when the device is back",
                        server->listeners[atomic_load(&server->failed_listener) - 1]->where,
                        okv_error_text(failure));
}

static int serve(struct okv_server *server, const sigset_t *signals, struct okv_diag *diag)
{
    struct okv_acceptor acceptor;
    int rc = workers_start(server);

    if (rc)
        return okv_diag_set(diag, rc, "cannot start the workers: %s", okv_error_text(rc));
    rc = okv_acceptor_start(&acceptor, server);
    if (rc) {
        workers_stop(server, server->config.workers);
        return okv_diag_set(diag, rc, "cannot start the acceptor: %s", okv_error_text(rc));
    }
    rc = okv_announcer_start(server);
    if (rc) {
        okv_diag_set(diag, rc, "cannot start the announcer: %s", okv_error_text(rc));
    } else {
        announce(server);
        wait_for_signal(server, signals);
    }
    workers_stop(server, server->config.workers);
    okv_acceptor_stop(&acceptor);
    okv_announcer_stop(&server->announcer);
    return rc ? rc : failure_explain(server, diag);
}

static int clients_init(struct okv_server *server)
{
    const struct okv_config *config = &server->config;
    int rc = okv_admission_init(&server->admission, config->max_clients,
                                config->max_clients_per_address);

    if (rc)
        return rc;
    rc = okv_reply_caches_init(&server->reply_caches, config->max_clients * REPLY_CACHES_PER_CLIENT,
                               config->remember_s * UINT64_C(1000), server->store.table.hash_seed);
    if (rc)
        okv_admission_fini(&server->admission);
    return rc;
}

static void clients_fini(struct okv_server *server)
{
    okv_reply_caches_fini(&server->reply_caches);
    okv_admission_fini(&server->admission);
}

static int run(struct okv_server *server, const sigset_t *signals, struct okv_diag *diag)
{
    const struct okv_config *config = &server->config;
    int rc =
        okv_region_create(config->memory, config->pages, config->prefault, &server->region, diag);

    if (rc)
        return rc;
    /* Allocating the region may take minutes, and a signal may end that. From here on only
     * sigwait() takes signals. */
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    rc = store_open(server, diag);
    if (rc)
        goto destroy_region;
    rc = clients_init(server);
    if (rc)
        goto fini_store;
    rc = listeners_open(server, diag);
    if (rc)
        goto fini_clients;
    rc = okv_announcer_open(server, diag);
    if (rc)
        goto close_listeners;
    rc = workers_create(server, diag);
    if (rc)
        goto close_announcer;
    rc = serve(server, signals, diag);
    workers_destroy(server, server->config.workers);
close_announcer:
    okv_announcer_close(&server->announcer);
close_listeners:
    listeners_close(server);
fini_clients:
    clients_fini(server);
fini_store:
    okv_store_fini(&server->store);
destroy_region:
    okv_region_destroy(&server->region);
    return rc;
}

int main(int argc, char **argv)
{
    struct okv_diag diag = {.text = ""};
    sigset_t signals;
    struct okv_server *server = calloc(1, sizeof *server);

    if (!server)
        return EXIT_CANNOT_SERVE;
    okv_config_parse(argc, argv, &server->config);
    server->clock_origin_ms = okv_clock_boot_ms() - 1;
    server->limits = (struct okv_message_limits){
        .slot_size = OKV_SLOT_SIZE_DEFAULT,
        .credits = server->config.credits,
    };
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, OKV_SERVER_FAILED_SIGNAL);

    okv_log_init(&server->log, STDERR_FILENO);
    int rc = run(server, &signals, &diag);
    okv_log_fini(&server->log);
    if (rc)
        fprintf(stderr, "okv-server: %s\n", diag.text[0] ? diag.text : okv_error_text(rc));
    free(server);
    return rc ? EXIT_CANNOT_SERVE : 0;
}
