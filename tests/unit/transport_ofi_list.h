/* What the files of transport_ofi_test share. The state of its tests is a struct fixture. */
#ifndef OKV_TESTS_TRANSPORT_OFI_LIST_H
#define OKV_TESTS_TRANSPORT_OFI_LIST_H

#include "tests/support/transport_client.h"

/* For a server whose process serves READs: from now on it does nothing, until server_go_on() or the
 * guard. False: its progress thread was not stopped. */
bool server_stand_still(struct client *client);
void server_go_on(struct client *client);

#endif
