/* Accepts RESP clients. The acceptor's thread calls. */
#ifndef OKV_SERVER_RESP_NET_ACCEPT_H
#define OKV_SERVER_RESP_NET_ACCEPT_H

struct okv_server;

/* Accepts some of the clients that wait at a struct okv_resp_listener, and assigns them to workers.
 * Those without an admission ticket get an error, and are closed. */
void okv_resp_accept(struct okv_server *server, void *listener);

#endif
