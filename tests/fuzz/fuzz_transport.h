/*
 * The transport of a client whose server is a struct hostile: the whole interface of
 * shared/transport/transport.h, client side. When events come, in which order, and when the
 * connection ends is for the fuzz input to say; what no transport does, it does not.
 *
 * What a client owes a transport is checked: READs into registered memory, requests that
 * can be decoded, everything given back.
 */
#ifndef OKV_TESTS_FUZZ_TRANSPORT_H
#define OKV_TESTS_FUZZ_TRANSPORT_H

#include "tests/fuzz/fuzz_hostile.h"

/* From here on okv_transport_for() is about this server. */
void fuzz_transport_reset(struct hostile *server);
/* Fails unless everything was given back. */
void fuzz_transport_check_end(void);
/* READs that were refused since the reset because they leave the region. */
unsigned fuzz_transport_reads_outside(void);
/* For fuzz_time_begin: whether any connection has an event. */
bool fuzz_transport_is_ready(void *context, int fd);

#endif
