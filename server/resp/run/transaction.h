/* MULTI, EXEC and WATCH. A transaction is memory of its client until EXEC runs it, alone. */
#ifndef OKV_SERVER_RESP_RUN_TRANSACTION_H
#define OKV_SERVER_RESP_RUN_TRANSACTION_H

#include "server/resp/run/call.h"

/* Whether MULTI was given, and neither EXEC nor DISCARD since. */
bool okv_resp_transaction_is_open(const struct okv_resp_client *client);
/* Whether EXEC would have to wait for the log of a key that is watched in another database. */
bool okv_resp_transaction_waits(const struct okv_resp_client *client);
/* Copies a command for EXEC, and replies so. */
void okv_resp_transaction_queue(struct okv_resp_call *call);
/* A command was refused: EXEC runs none, if the transaction is open. */
void okv_resp_transaction_spoil(struct okv_resp_client *client);
/* Bytes of its memory. */
size_t okv_resp_transaction_bytes(const struct okv_resp_client *client);
/* Bytes of records of the log for what it queued. */
uint64_t okv_resp_transaction_log_bytes(const struct okv_resp_client *client);
/* Forgets commands and watched keys. */
void okv_resp_transaction_drop(struct okv_resp_client *client);

#endif
