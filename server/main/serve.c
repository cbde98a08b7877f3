/* Sets everything up from the bottom, waits for a signal, tears it down. */
#include "server/main/serve.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "server/clients/admission.h"
#include "server/clients/client_table.h"
#include "server/config/databases.h"
#include "server/copies/cluster_files.h"
#include "server/copies/copies.h"
#include "server/core/certificates.h"
#include "server/core/notify.h"
#include "server/core/processors.h"
#include "server/core/takeover.h"
#include "server/database/database.h"
#include "server/database/durable.h"
#include "server/identity/authority.h"
#include "server/main/descriptors.h"
#include "server/main/reload.h"
#include "server/main/status_log.h"
#include "server/main/unnamed_logs.h"
#include "server/metrics/metrics.h"
#include "server/net/acceptor.h"
#include "server/net/announcer.h"
#include "server/net/devices.h"
#include "server/net/listening.h"
#include "server/resp/net/listen.h"
#include "server/resp/run/client_list.h"
#include "server/store/region.h"
#include "server/worker/worker.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

static void databases_close(struct okv_server *server)
{
    while (server->database_count > 0)
        okv_database_fini(&server->databases[--server->database_count]);
}

static int boot_id_draw(struct okv_server *server, struct okv_diag *diag)
{
    if (getrandom(&server->boot_id, sizeof server->boot_id, 0) != sizeof server->boot_id)
        return okv_diag_set(diag, OKV_EIO, "no random bytes from the system: %s", strerror(errno));
    server->boot_id |= 1; /* never 0 */
    return 0;
}

/* While another process has its directory: waits for it. */
static int database_open(struct okv_server *server, unsigned index, struct okv_diag *diag)
{
    const struct okv_config *config = &server->config;
    struct okv_takeover takeover = {&server->log, "database", 0};
    char what[OKV_LOG_TEXT_MAX];
    int rc;

    snprintf(what, sizeof what, "--data %.300s", config->data ? config->data : "");
    do
        rc = okv_database_init(&server->databases[index], config, index, server->boot_id, diag);
    while (rc == OKV_EAGAIN && okv_takeover_wait(&takeover, what));
    return rc;
}

static int databases_open(struct okv_server *server, struct okv_diag *diag)
{
    uint64_t memory = okv_config_memory(&server->config);
    int rc = okv_region_check(memory, okv_config_memory_limit(&server->config), diag);

    while (rc == 0 && server->database_count < server->config.database_count) {
        rc = database_open(server, server->database_count, diag);
        server->database_count += rc == 0;
    }
    if (rc)
        databases_close(server);
    return rc;
}

/* The clock goes on where that of the durable databases ended, so that items expire when they
 * should. */
static void clock_begin(struct okv_server *server)
{
    uint64_t clock_ms = 1;

    for (unsigned i = 0; i < server->database_count; i++) {
        const struct okv_durable *durable = server->databases[i].durable;
        uint64_t least_ms = durable ? okv_durable_clock_ms(durable) : 0;
        clock_ms = least_ms > clock_ms ? least_ms : clock_ms;
    }
    okv_databases_set_clock(server, clock_ms);
}

static void logs_stop(struct okv_server *server, unsigned count)
{
    while (count-- > 0)
        okv_database_stop(&server->databases[count]);
}

static int logs_start(struct okv_server *server, struct okv_diag *diag)
{
    for (unsigned i = 0; i < server->database_count; i++) {
        okv_database_report_to(&server->databases[i], &server->log);
        int rc = okv_database_start(&server->databases[i], server->config.snapshot_ratio,
                                    okv_server_wake_all, server, diag);
        if (rc) {
            logs_stop(server, i);
            return rc;
        }
        if (server->databases[i].durable)
            okv_status_log_found(server, &server->databases[i]);
        else
            okv_status_log_memory_only(server, &server->databases[i]);
    }
    return 0;
}

static int authority_open(struct okv_server *server, struct okv_diag *diag)
{
    if (!server->config.users)
        return 0;
    for (unsigned i = 0; i < server->database_count; i++)
        server->database_names[i] = server->config.databases[i].name;
    int rc = okv_identity_init();
    if (rc)
        return okv_diag_set(diag, rc,
                            "libsodium cannot be used here: see that the system has "
                            "random bytes");
    return okv_authority_init(server->authority, server->config.users, server->database_names,
                              server->database_count, diag);
}

static void authority_close(struct okv_server *server)
{
    if (server->config.users)
        okv_authority_fini(server->authority);
}

static void listeners_close(struct okv_server *server)
{
    while (server->listener_count > 0) {
        struct okv_listener *listener = server->listeners[--server->listener_count];
        if (listener) /* its door is open */
            listener->ops->unlisten(listener);
    }
    okv_certificates_close(server);
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

static int sockets_open(struct okv_server *server, struct okv_diag *diag)
{
    int rc = listeners_open(server, diag);

    if (rc)
        return rc;
    rc = okv_resp_open(server, diag);
    if (rc)
        listeners_close(server);
    return rc;
}

static void sockets_close(struct okv_server *server)
{
    okv_resp_close(server);
    listeners_close(server);
}

/* In a cluster the logs begin when it is known which cluster that is. */
static int begin_databases(struct okv_server *server, struct okv_diag *diag)
{
    if (!server->config.cluster.name[0])
        return logs_start(server, diag);
    for (unsigned i = 0; i < server->database_count; i++)
        okv_database_report_to(&server->databases[i], &server->log);
    return okv_copies_create(server, &server->copies, diag);
}

static void end_databases(struct okv_server *server)
{
    okv_copies_stop(server->copies);
    logs_stop(server, server->database_count);
    okv_copies_destroy(server->copies);
    server->copies = NULL;
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
        okv_server_wake(server, i);
    for (unsigned i = 0; i < count; i++)
        okv_worker_join(&server->workers[i]);
}

static int workers_start(struct okv_server *server, struct okv_diag *why)
{
    for (unsigned i = 0; i < server->config.workers; i++) {
        int rc = okv_worker_start(&server->workers[i], why);
        if (rc) {
            workers_stop(server, i);
            return rc;
        }
    }
    return 0;
}

/* Does what a signal asks for. True: the server is to end. */
static bool take_signal(struct okv_acceptor *acceptor, int number)
{
    struct okv_server *server = acceptor->server;

    switch (number) {
    case SIGHUP:
        if (!okv_certificates_renew(server) && !server->config.settings.file &&
            !server->config.users)
            okv_log_say(&server->log, OKV_LOG_NOTICE, "config",
                        "SIGHUP: there is nothing to read again without --config, --users or "
                        "--tls-cert");
        okv_reload(server);
        okv_acceptor_reload(acceptor);
        return false;
    case SIGUSR1:
        okv_status_log_status(server);
        return false;
    case OKV_SERVER_END_SIGNAL: /* anybody may send it */
        return atomic_load(&server->end_is_asked);
    default:
        return true;
    }
}

/* Waits for a signal. Meanwhile the service manager learns that all workers go on, and lines of the
 * log that wait are written. */
static int next_signal(struct okv_server *server, const sigset_t *signals)
{
    uint64_t watchdog_ns = server->notify->watchdog_ns;
    uint64_t ns = watchdog_ns && watchdog_ns < OKV_LOG_TICK_NS ? watchdog_ns : OKV_LOG_TICK_NS;
    const struct timespec interval = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    int number;

    while ((number = sigtimedwait(signals, NULL, &interval)) < 0) {
        if (errno != EAGAIN)
            continue;
        okv_log_tick(&server->log, okv_clock_ns());
        if (watchdog_ns && okv_workers_go_on(server))
            okv_notify_send(server->notify, "WATCHDOG=1");
    }
    return number;
}

/* The first signal that ends the server ends the wait; a second one ends the process. */
static void wait_for_signal(struct okv_acceptor *acceptor, const sigset_t *signals)
{
    struct okv_server *server = acceptor->server;
    int number;

    while (!take_signal(acceptor, number = next_signal(server, signals)))
        continue;
    okv_notify_send(server->notify, "STOPPING=1\nSTATUS=telling clients and ending");
    okv_log_say(&server->log, OKV_LOG_NOTICE, "server", "%s: telling clients and ending",
                number == OKV_SERVER_END_SIGNAL ? "SHUTDOWN" : strsignal(number));
    sigset_t others = *signals;
    sigdelset(&others, OKV_SERVER_END_SIGNAL);
    sigdelset(&others, SIGHUP);
    sigdelset(&others, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &others, NULL);
}

static int cannot_start(const char *what, int rc, const struct okv_diag *why, struct okv_diag *diag)
{
    return okv_diag_set(diag, rc, "cannot start %s: %s", what,
                        why->text[0] ? why->text : okv_error_text(rc));
}

static int serve(struct okv_server *server, const sigset_t *signals, struct okv_diag *diag)
{
    struct okv_diag why = {.text = ""};
    struct okv_acceptor acceptor;
    int rc = workers_start(server, &why);

    if (rc)
        return cannot_start("the workers", rc, &why, diag);
    rc = okv_acceptor_start(&acceptor, server, &why);
    if (rc) {
        workers_stop(server, server->config.workers);
        return cannot_start("the acceptor", rc, &why, diag);
    }
    const char *what = "the thread of the cluster";
    rc = server->copies ? okv_copies_start(server->copies, &why) : 0;
    if (rc == 0) {
        what = "the announcer";
        rc = okv_announcer_start(server, &why);
    }
    if (rc) {
        cannot_start(what, rc, &why, diag);
    } else {
        okv_status_log_ready(server);
        okv_metrics_set_ready(server->metrics, true);
        okv_notify_send(server->notify, "READY=1\nSTATUS=serving");
        wait_for_signal(&acceptor, signals);
        okv_metrics_set_ready(server->metrics, false);
    }
    okv_copies_leave(server->copies, atomic_load(&server->config.drain_ms));
    workers_stop(server, server->config.workers);
    okv_acceptor_stop(&acceptor);
    okv_resp_stop(server);
    okv_announcer_stop(server->announcer);
    return rc;
}

static int run(struct okv_server *server, const sigset_t *signals, struct okv_diag *diag)
{
    okv_status_log_begin(server);
    okv_unnamed_logs_report(server);
    if (server->config.data)
        okv_notify_send(server->notify, "STATUS=reading the log");
    int rc = databases_open(server, diag);

    if (rc)
        return rc;
    clock_begin(server);
    /* Allocating the regions may take minutes, and a signal may end that. From here on only
     * okv_takeover_wait() and sigtimedwait() take signals. */
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    okv_client_table_init(server->clients);
    rc = authority_open(server, diag);
    if (rc)
        goto fini_clients;
    const struct okv_admission_limits limits = okv_admission_limits_of(&server->config);
    rc = okv_admission_init(server->admission, &limits);
    if (rc)
        goto close_authority;
    rc = sockets_open(server, diag);
    if (rc)
        goto fini_admission;
    rc = okv_announcer_open(server, diag);
    if (rc)
        goto close_doors;
    rc = workers_create(server, diag);
    if (rc)
        goto close_announcer;
    okv_status_log_little_room(server);
    rc = begin_databases(server, diag);
    if (rc == 0) {
        rc = serve(server, signals, diag);
        end_databases(server);
        for (unsigned i = 0; i < server->database_count && !server->config.cluster.name[0]; i++)
            okv_status_log_lost(server, &server->databases[i]);
    }
    workers_destroy(server, server->config.workers);
close_announcer:
    okv_announcer_close(server->announcer);
close_doors:
    sockets_close(server);
fini_admission:
    okv_admission_fini(server->admission);
close_authority:
    authority_close(server);
fini_clients:
    okv_client_table_fini(server->clients);
    databases_close(server);
    return rc;
}

static int run_with_metrics(struct okv_server *server, const sigset_t *signals,
                            struct okv_diag *diag)
{
    if (okv_descriptors_raise(&server->config, diag))
        okv_log_say(&server->log, OKV_LOG_WARNING, "server", "%s", diag->text);
    diag->text[0] = '\0';
    int rc = boot_id_draw(server, diag);
    if (rc == 0)
        rc = okv_metrics_start(server->metrics, server, diag);
    if (rc == 0)
        rc = run(server, signals, diag);
    okv_metrics_stop(server->metrics);
    return rc;
}

static int run_with_cluster_files(struct okv_server *server, const sigset_t *signals,
                                  struct okv_diag *diag)
{
    struct okv_cluster_files files;
    int rc = okv_cluster_files_open(&server->config.cluster, &files, diag);

    if (rc)
        return rc;
    server->cluster_files = &files;
    rc = run_with_metrics(server, signals, diag);
    server->cluster_files = NULL;
    okv_cluster_files_close(&files);
    return rc;
}

static void end_by_signal(int number)
{
    _exit(128 + number);
}

/* The kernel drops signals that have no handler when they are for process 1, which okv-server is in
 * a container. */
static void signals_end_process_1(void)
{
    if (getpid() != 1)
        return;
    signal(SIGTERM, end_by_signal);
    signal(SIGINT, end_by_signal);
}

int okv_serve(struct okv_server *server, struct okv_diag *diag)
{
    sigset_t signals;

    server->limits = (struct okv_message_limits){
        .slot_size = OKV_SLOT_SIZE_DEFAULT,
        .credits = server->config.credits,
    };
    /* Of a device that is gone, objects can be freed (rdma-core, libibverbs/cmd.c). */
    setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 0);
    okv_processors_avoid(&server->config.worker_cpus);
    signal(SIGPIPE, SIG_IGN);
    signals_end_process_1();
    sigemptyset(&signals);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* both wait until it serves */
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, OKV_SERVER_END_SIGNAL);

    okv_notify_init(server->notify);
    okv_log_init(&server->log, STDERR_FILENO, server->config.log_format);
    int rc = okv_listen_devices(&server->config, "", &server->log, diag);
    if (rc == 0)
        rc = run_with_cluster_files(server, &signals, diag);
    if (rc)
        okv_log_say(&server->log, OKV_LOG_ERROR, "server", "%s",
                    diag->text[0] ? diag->text : okv_error_text(rc));
    okv_notify_fini(server->notify);
    okv_log_fini(&server->log);
    return rc;
}
