/*
 * okv-server as a child process, for end-to-end tests.
 *
 * Where it listens: $OKV_TEST_LISTEN, else $OKV_TEST_URI, else a local socket
 * in a fresh directory; clients use $OKV_TEST_URI or the same. An RDMA address without a port gets
 * one of this process. The program is
 * $OKV_SERVER_BIN, else the one that was built with the tests; the words of
 * $OKV_TEST_SERVER_ARGS are arguments in front of those that the test gives. With $OKV_TEST_DATA
 * each server is durable: its log is in a fresh directory below that one and goes with it.
 *
 * A server ends with its test: when the process ends, however it does, and when another is started
 * at the same place.
 */
#ifndef OKV_TESTS_SERVER_PROCESS_H
#define OKV_TESTS_SERVER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <okv.h>

struct server_process {
    pid_t pid;
    char uri[256];       /* for clients */
    char listen[256];    /* for the server */
    char directory[128]; /* of the socket; "" when the URI was given */
    char data[128];      /* of the log; "" without $OKV_TEST_DATA */
};

/* Its path. */
const char *server_program(void);
/* Starts a server with further arguments (NULL-terminated, may be NULL) and
 * waits for its "ready" line. Fails the test when it does not come. */
void server_start(struct server_process *server, const char *const *arguments);
/* The same beside that one: always on a socket of its own. */
void server_start_local(struct server_process *server, const char *const *arguments);
/* The same at the address of one that still runs; its directory stays that one's. */
void server_start_after(struct server_process *server, const struct server_process *there,
                        const char *const *arguments);
/* Its process is there and has not ended. */
bool server_is_running(const struct server_process *server);
/* SIGTERM, also to a server that stands still; returns the exit status, or 128 + the signal.
 * Removes the directory. */
int server_stop(struct server_process *server);
/* The same of a server that ends by itself or had its signal. */
int server_wait(struct server_process *server);
/* Sends a signal; SIGKILL also reaps, SIGSTOP returns when every
 * thread of the server stands still: once until a SIGCONT. */
void server_signal(struct server_process *server, int signal);

/* CPU time of the server so far, user and system, in clock ticks (10 ms). */
uint64_t server_cpu_ticks(const struct server_process *server);
/* How often its threads went to sleep so far: each time one is woken it does that once. */
uint64_t server_sleeps(const struct server_process *server);

/* What the tests run over: "rdma", "ofi", "tcp" or "local". */
const char *server_scheme(void);
bool server_is_rdma(void);
/* True where tests do less: over RDMA, which mostly is soft-RoCE, and in the guest. */
bool server_is_slow(void);
bool server_is_local(void);
/* Whether a device or libfabric does the transport's work: one of its READs that fails ends the
 * connection. */
bool server_is_fabric(void);
/* tcps. */
bool server_has_tls(void);
/* Whether gets go on while the server is stopped. */
bool server_is_one_sided(const okv *handle);

/* patient_open(), or fails the test with the library's sentence. */
okv *server_connect(const struct server_process *server, const struct okv_options *options);

/* One figure of okv_stat; fails the test when the server has none of that name. */
uint64_t server_stat(okv *handle, const char *name);
/* Waits until the figure is at least `value`; fails the test when it never is. */
void server_await_stat_from(okv *handle, const char *name, uint64_t value);
/* Waits until the figure is `value`; fails the test when it never is. For what the
 * server counts when it comes to it, a moment after the client knows. */
void server_await_stat(okv *handle, const char *name, uint64_t value);

#endif
