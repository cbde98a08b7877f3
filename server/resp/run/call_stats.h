/*
 * What INFO says about commands: how often each ran, for how long, and with which errors. Each
 * worker counts its own calls, so that none waits for another; INFO adds them.
 */
#ifndef OKV_SERVER_RESP_RUN_CALL_STATS_H
#define OKV_SERVER_RESP_RUN_CALL_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct okv_resp;
struct okv_resp_buffer;
struct okv_resp_command;
struct okv_server;

/* The first words of errors. */
#define OKV_RESP_ERRORS_LIST(X) \
    X(ERR)                      \
    X(NOAUTH)                   \
    X(NOPERM)                   \
    X(WRONGPASS)                \
    X(NOPROTO)                  \
    X(OOM)                      \
    X(TRYAGAIN)                 \
    X(MISCONF)                  \
    X(EXECABORT)                \
    X(NOSCRIPT)                 \
    X(NOTBUSY)                  \
    X(READONLY)                 \
    X(MASTERDOWN)               \
    X(NOREPLICAS)               \
    X(UNKNOWN)
enum okv_resp_error_code {
#define OKV_RESP_ERROR_CODE(name) OKV_RESP_CODE_##name,
    OKV_RESP_ERRORS_LIST(OKV_RESP_ERROR_CODE)
#undef OKV_RESP_ERROR_CODE
        OKV_RESP_ERROR_CODES
};

struct okv_resp_command_stats {
    uint64_t calls;    /* that ended */
    uint64_t steps;    /* okv_clock_steps() that these took, and those that go on */
    uint64_t rejected; /* refused before they ran */
    uint64_t failed;   /* of the calls, those that replied with an error */
};

/* Of a worker, which alone writes; any thread reads. */
struct okv_resp_call_stats {
    atomic_uint_fast64_t errors[OKV_RESP_ERROR_CODES];
    struct okv_resp_command_counts {
        atomic_uint_fast64_t calls, steps, rejected, failed;
    } commands[]; /* of the table */
};

/* OKV_ENOMEM. */
int okv_resp_call_stats_init(struct okv_resp *resp);
void okv_resp_call_stats_fini(struct okv_resp *resp);

/* Counts the reply that begins at `from` if it is an error. Returns whether it is. */
bool okv_resp_count_error(struct okv_resp *resp, const struct okv_resp_buffer *out, size_t from);
/* A part of a call has taken the time since okv_clock_steps() was `began`. */
void okv_resp_count_steps(struct okv_resp *resp, const struct okv_resp_command *command,
                          uint64_t began);
/* A call has ended with a reply from `from` on. `has_run`: it was not refused, or queued, before.
 */
void okv_resp_count_call(struct okv_resp *resp, const struct okv_resp_command *command,
                         const struct okv_resp_buffer *out, size_t from, bool has_run);

/* ---- any thread ---- */

/* Of all workers. */
struct okv_resp_command_stats okv_resp_command_stats(const struct okv_server *server,
                                                     unsigned command);
uint64_t okv_resp_errors(const struct okv_server *server, enum okv_resp_error_code code);
const char *okv_resp_error_name(enum okv_resp_error_code code);
/* The time that steps stand for, by how many of them the server has seen so far. */
uint64_t okv_resp_steps_us(const struct okv_server *server, uint64_t steps);

#endif
