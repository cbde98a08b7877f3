/* Moves operations from a lost connection to the next one. */
#ifndef OKV_CLIENT_CONNECTION_RESEND_H
#define OKV_CLIENT_CONNECTION_RESEND_H

#include "client/handle.h"

/* Detaches memory and operations from a connection before it is destroyed. */
void resend_detach(okv *handle);
/* Resumes the waiting operations on a new connection. `resumed`: the server remembers our writes.
 * `same_table`: its table is the one of the last connection. */
void resend_resume(okv *handle, bool resumed, bool same_table);

#endif
