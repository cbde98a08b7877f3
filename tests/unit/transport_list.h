/* What the files of the transport list share. */
#ifndef OKV_TESTS_TRANSPORT_LIST_H
#define OKV_TESTS_TRANSPORT_LIST_H

#include "tests/support/transport_fixture.h"

/* Several clients of the server at the fixture's connect_uri, each with a thread, messages and
 * READs; returns how many there were. Fails the test when one of them failed. */
unsigned run_several_clients(struct fixture *fixture);

/* Changes the URI to an address that the fixture's own server does not use. */
void choose_other_address(struct okv_uri *uri);

#endif
