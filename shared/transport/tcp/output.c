#include "shared/transport/tcp/output.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "shared/base/error.h"

/* Frames of one write. */
#define FRAMES_MAX 64u

int okv_tcp_output_create(struct okv_tcp_output *output, unsigned size)
{
    output->ring = calloc(size, sizeof *output->ring);
    output->size = size;
    return output->ring ? 0 : OKV_ENOMEM;
}

void okv_tcp_output_destroy(struct okv_tcp_output *output)
{
    free(output->ring);
}

bool okv_tcp_output_add(struct okv_tcp_output *output, const struct okv_tcp_frame *frame,
                        const uint8_t *body, uint32_t index)
{
    if (output->count == output->size)
        return false;
    struct okv_tcp_out *out = &output->ring[(output->first + output->count++) % output->size];
    okv_tcp_frame_put(out->header, frame);
    out->body = body;
    out->body_length = body ? frame->length : 0;
    out->index = index;
    return true;
}

static uint64_t length_of(const struct okv_tcp_out *out)
{
    return OKV_TCP_HEADER + (uint64_t)out->body_length;
}

const struct okv_tcp_out *okv_tcp_output_first_that_left(const struct okv_tcp_output *output)
{
    const struct okv_tcp_out *first = &output->ring[output->first];

    return output->count > 0 && output->done >= length_of(first) ? first : NULL;
}

void okv_tcp_output_pop(struct okv_tcp_output *output)
{
    output->done -= length_of(&output->ring[output->first]);
    output->first = (output->first + 1) % output->size;
    output->count--;
}

/* Adds what is left of a part, of which `*done` bytes have left, within `*room`. */
static unsigned add_part(struct iovec *vector, const uint8_t *bytes, uint64_t length,
                         uint64_t *done, uint64_t *room)
{
    uint64_t skip = *done < length ? *done : length;
    uint64_t use = length - skip < *room ? length - skip : *room;

    *done -= skip;
    if (use == 0)
        return 0;
    *vector = (struct iovec){(void *)(uintptr_t)(bytes + skip), use};
    *room -= use;
    return 1;
}

/* Returns the number of vectors; `*room` is what the step still has. */
static unsigned gather(const struct okv_tcp_output *output, struct iovec *vectors, uint64_t *room)
{
    uint64_t done = output->done;
    unsigned count = 0;

    for (unsigned i = 0; i < output->count && i<FRAMES_MAX && * room> 0; i++) {
        const struct okv_tcp_out *out = &output->ring[(output->first + i) % output->size];
        count += add_part(&vectors[count], out->header, OKV_TCP_HEADER, &done, room);
        count += add_part(&vectors[count], out->body, out->body_length, &done, room);
    }
    return count;
}

static bool is_everything(const struct okv_tcp_output *output)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < output->count && total <= output->done; i++)
        total += length_of(&output->ring[(output->first + i) % output->size]);
    return total <= output->done;
}

ssize_t okv_tcp_output_write(struct okv_tcp_output *output, struct okv_stream *stream)
{
    struct iovec vectors[2 * FRAMES_MAX];
    uint64_t room = OKV_TCP_STEP;
    unsigned count = gather(output, vectors, &room);
    ssize_t n;

    output->is_blocked = false;
    if (count == 0)
        return 0;
    errno = EPIPE; /* TLS has errors of its own */
    n = okv_stream_writev(stream, vectors, count);
    if (n < 0 && errno != ENOBUFS)
        return -1;
    n = n < 0 ? 0 : n;
    output->done += (uint64_t)n;
    output->is_blocked = !is_everything(output);
    return n;
}
