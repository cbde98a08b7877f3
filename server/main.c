/* okv-server: sets the parts up from the bottom, waits for a signal, takes them down. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "server/acceptor.h"
#include "server/region.h"
#include "server/worker.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/wire.h"

#define EXIT_CANNOT_SERVE 3

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
        unsigned i = --server->listener_count;
        if (server->endpoints[i])
            server->endpoints[i]->ops->endpoint_destroy(server->endpoints[i]);
        server->listeners[i]->ops->unlisten(server->listeners[i]);
    }
}

static int listeners_open(struct okv_server *server, struct okv_diag *diag)
{
    for (unsigned i = 0; i < server->config.listen_count; i++) {
        const struct okv_uri *uri = &server->config.listen[i];
        const struct okv_transport_ops *ops = okv_transport_for(uri->scheme);
        int rc = ops->listen(uri, &server->region, &server->listeners[i], diag);
        if (!rc) {
            server->listener_count++;
            rc = ops->endpoint_create(server->listeners[i], &server->limits,
                                      server->config.max_clients, &server->endpoints[i], diag);
        }
        if (rc) {
            listeners_close(server);
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
    printf("ready");
    for (unsigned i = 0; i < server->listener_count; i++)
        printf(" %s", server->listeners[i]->where);
    printf("\n");
    fflush(stdout);
}

/* The first signal ends the wait; from then on a second one ends the process. */
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

/* 0 when the server ended because it was told to. */
static int failure_explain(const struct okv_server *server, struct okv_diag *diag)
{
    int failure = atomic_load(&server->failure);

    if (!failure)
        return 0;
    return okv_diag_set(diag, failure, "%s failed (%s): ended; start again when the device is back",
                        server->listeners[atomic_load(&server->failed_listener)]->where,
                        okv_error_text(failure));
}

static int serve(struct okv_server *server, const sigset_t *signals, struct okv_diag *diag)
{
    struct okv_acceptor acceptor;
    struct okv_worker worker;
    int rc = okv_worker_start(&worker, server);

    if (rc)
        return okv_diag_set(diag, rc, "cannot start the worker: %s", okv_error_text(rc));
    rc = okv_acceptor_start(&acceptor, server);
    if (rc) {
        okv_diag_set(diag, rc, "cannot start the acceptor: %s", okv_error_text(rc));
        goto stop_worker;
    }
    announce(server);
    wait_for_signal(server, signals);
    atomic_store(&server->stopping, true);
    okv_worker_stop(&worker);
    okv_acceptor_stop(&acceptor);
    okv_worker_fini(&worker);
    return failure_explain(server, diag);
stop_worker:
    atomic_store(&server->stopping, true);
    okv_worker_stop(&worker);
    okv_worker_fini(&worker);
    return rc;
}

static int run(struct okv_server *server, const sigset_t *signals, struct okv_diag *diag)
{
    int rc = okv_region_create(server->config.memory, server->config.huge, &server->region, diag);

    if (rc)
        return rc;
    rc = store_open(server, diag);
    if (rc)
        goto destroy_region;
    rc = listeners_open(server, diag);
    if (rc)
        goto fini_store;
    rc = serve(server, signals, diag);
    listeners_close(server);
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
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    int rc = run(server, &signals, &diag);
    if (rc)
        fprintf(stderr, "okv-server: %s\n", diag.text[0] ? diag.text : okv_error_text(rc));
    free(server);
    return rc ? EXIT_CANNOT_SERVE : 0;
}
