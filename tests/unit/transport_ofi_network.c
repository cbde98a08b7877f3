/* Part of transport_ofi_test.c: a server at an address that is not of the loopback interface. */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "tests/support/network_address.h"
#include "tests/support/ofi_attacker.h"
#include "tests/support/transport_client.h"
#include "tests/unit/transport_ofi_list.h"

static bool is_loopback(const struct okv_uri *uri)
{
    return ntohl(ofi_control_address(uri).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* A port at this address that nobody has. */
static unsigned free_port(struct in_addr at)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = at};
    socklen_t length = sizeof address;
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(sock >= 0);
    assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(sock, (struct sockaddr *)&address, &length), 0);
    close(sock);
    return ntohs(address.sin_port);
}

static void expect_nobody_on_loopback(const struct okv_uri *uri)
{
    struct sockaddr_in address = ofi_control_address(uri);
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(sock >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int rc = connect(sock, (struct sockaddr *)&address, sizeof address);
    int errnum = errno;
    close(sock);
    assert_int_equal(rc, -1);
    assert_int_equal(errnum, ECONNREFUSED);
}

/* The address of the server's endpoint, as a welcome tells it. */
static struct in_addr endpoint_address(const struct fixture *fixture)
{
    uint8_t hello[FIXTURE_HELLO] = {FIXTURE_ACCEPT};
    struct ofi_attacker client;
    struct sockaddr_in name;

    for (unsigned i = 1; i < FIXTURE_HELLO; i++)
        hello[i] = fixture_hello_byte(i);
    unsigned closed = atomic_load(&fixture->closed);
    ofi_attacker_join(&client, &fixture->connect_uri, hello, sizeof hello);
    memcpy(&name, client.answer.body.welcome.place.name, sizeof name);
    ofi_attacker_read(&client, 0, 64);
    ofi_attacker_leave(&client);
    assert_true(fixture_reaches(&fixture->closed, closed + 1));
    return name.sin_addr;
}

TEST(a_server_on_the_network)
{
    const struct fixture *own = *state;
    static struct fixture fixture;
    char host[INET_ADDRSTRLEN], where[64], listen_text[128];
    void *other = &fixture;
    struct in_addr at;

    if (!is_loopback(&own->connect_uri)) {
        print_message("all tests of this run have a server on the network\n");
        skip();
    }
    if (!network_address(0, &at)) {
        print_message("no interface beside the loopback interface\n");
        skip();
    }
    inet_ntop(AF_INET, &at, host, sizeof host);
    snprintf(where, sizeof where, "ofi://%s:%u", host, free_port(at));
    snprintf(listen_text, sizeof listen_text, "%s?provider=%s", where, own->listen_uri.provider);
    fixture_start(&fixture, listen_text, where);
    assert_string_equal(fixture.listener->where, where);
    expect_nobody_on_loopback(&fixture.connect_uri);
    assert_int_equal(endpoint_address(&fixture).s_addr, at.s_addr);
    struct client *client = client_create(&other);
    client_read(client, 4099, 777, 1);
    client_echo(client, 1, 100, 1);
    client_destroy(client);
    fixture_stop(&fixture);
}
