/* Memory and operations when a connection goes and when another comes. */
#ifndef OKV_CLIENT_CONNECTION_RESEND_H
#define OKV_CLIENT_CONNECTION_RESEND_H

#include "client/handle.h"

/* The connection is about to be destroyed: takes memory and operations from it. */
void resend_detach(okv *handle);
/* The operations that waited for a connection go on; `resumed`: the server knows what became of
 * the writes among them. `same_table`: it is the one of the last connection. */
void resend_resume(okv *handle, bool resumed, bool same_table);

#endif
