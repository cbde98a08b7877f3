/* The client's advertised buffers. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_ADVERT_H
#define OKV_SHARED_TRANSPORT_LOCAL_ADVERT_H

#include "shared/transport/transport.h"

int okv_local_advertise(struct okv_conn *conn, const void *base, size_t length,
                        struct okv_advert **out);
void okv_local_withdraw(struct okv_advert *advert);

#endif
