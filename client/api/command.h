/* Checks commands and turns them into operations. */
#ifndef OKV_CLIENT_API_COMMAND_H
#define OKV_CLIENT_API_COMMAND_H

#include "client/handle.h"

/* 0 when the command is one that okv.h allows on this handle; OKV_EINVAL, OKV_EKEYSIZE,
 * OKV_EVALUESIZE, OKV_ETTL: `fault` (may be NULL) then names the field and says what is wrong. */
int command_check(const okv *handle, const struct okv_command *command, struct okv_diag *fault);
/* For a command that ended with `rc`: if command_check() returns it too, or it is OKV_EFULL, sets
 * the sentence of okv_why(), which names `call` and the field. Returns `rc`. */
int command_explain(okv *handle, int rc, const struct okv_command *command, const char *call)
    __attribute__((cold));
/* The same for one of an array. */
int command_explain_nth(okv *handle, int rc, const struct okv_command *commands, size_t n,
                        const char *call) __attribute__((cold));
/* Begins a call that starts operations; fast_get() does without it. Returns the clock. An idle
 * handle that was not polled for a while catches up first: it may learn that its connection has
 * ended. */
uint64_t call_begin(okv *handle);
/* Checks and starts it; its time began at `begun_ns`. Its READs are in the batch: the caller calls
 * engine_flush(). `place` is for DELIVER_TO_ARRAY, `started` for DELIVER_TO_CALLER; otherwise NULL.
 * Also returns the errors of operation_acquire(). */
int command_start(okv *handle, const struct okv_command *command, uint64_t begun_ns,
                  enum operation_delivery delivery, struct okv_result *place,
                  struct operation **started);

/* Starts an operation from its beginning on a new connection, whose server may have other limits.
 * 0, OKV_EKEYSIZE, OKV_EVALUESIZE. */
int command_begin_again(okv *handle, struct operation *operation);

#endif
