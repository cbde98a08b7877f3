/* Certificate and key of the server, as resps:// and tcps:// show them. */
#ifndef OKV_SERVER_CORE_CERTIFICATES_H
#define OKV_SERVER_CORE_CERTIFICATES_H

#include "shared/base/diag.h"
#include "shared/stream/stream.h"

struct okv_server;

/* What listeners for this use begin TLS with, read from the files of the configuration the first
 * time; *out is the server's. Main's, at start. OKV_EINVAL: no file is named, or one is wrong; what
 * okv_tls_create() returns. */
int okv_certificates_open(struct okv_server *server, enum okv_tls_use use, struct okv_tls **out,
                          struct okv_diag *diag);
/* Reads them again, for clients that come from now on; a mistake in them changes nothing. Logs
 * either. False: no listener has TLS. */
bool okv_certificates_renew(struct okv_server *server);
/* After all streams. */
void okv_certificates_close(struct okv_server *server);

#endif
