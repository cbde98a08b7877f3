/*
 * A descriptor whose last close takes longer than anybody waits, and packets that carry
 * descriptors. What should go well and does not fails the test.
 */
#ifndef OKV_TESTS_LINGERING_H
#define OKV_TESTS_LINGERING_H

#include <stdbool.h>
#include <stddef.h>

/* A TCP socket with SO_LINGER of an hour, and bytes under way that its peer does not take. */
struct lingering {
    int fd; /* the test's; -1 once it is closed */
    int peer;
};

void lingering_open(struct lingering *lingering);
/* Closes the test's own descriptor, which must not be the last. */
void lingering_leave(struct lingering *lingering);
/* Ends the peer, so that no close takes long any more, and closes what is open. */
void lingering_end(struct lingering *lingering);

/* Sends one packet with these descriptors. False when the kernel refuses descriptors there, or the
 * peer takes no packet. */
bool descriptors_send(int sock, const void *bytes, size_t length, const int *fds, unsigned count);
/* Has the kernel take them on sockets that are accepted from this one. */
void descriptors_allow(int listening);

/* Waits until no thread but those of before is left; a count is of threads_running(). */
unsigned threads_running(void);
void threads_expect(unsigned before);

/* From here on a hang ends the program; 0: no more. */
void hang_guard(bool on);

#endif
