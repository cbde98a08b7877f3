#include "bench/floor/floor_copy.h"

#include <okv.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/format/hash.h"

/* The limit of the source: many times any cache. */
#define MEMORY_MAX (UINT64_C(1) << 30)
/* Fits a bucket of any server. */
#define BUCKET_MAX 65536

/* A shared mapping costs a reader as much as the server's region. */
int floor_copy_init(struct floor_copy *copy, uint64_t buckets, uint32_t bucket_bytes)
{
    uint64_t most = MEMORY_MAX / bucket_bytes;

    *copy = (struct floor_copy){.buckets = buckets < most ? buckets : most,
                                .bucket_bytes = bucket_bytes};
    size_t size = copy->buckets * bucket_bytes;
    int fd = memfd_create("kv-bench", MFD_CLOEXEC);
    if (fd < 0)
        return OKV_ENOMEM;
    void *memory = MAP_FAILED;
    if (bucket_bytes <= BUCKET_MAX && ftruncate(fd, (off_t)size) == 0)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return OKV_ENOMEM;
    copy->memory = memory;
    return OKV_OK;
}

void floor_copy_fini(struct floor_copy *copy)
{
    if (copy->memory)
        munmap(copy->memory, copy->buckets * copy->bucket_bytes);
    copy->memory = NULL;
}

uint64_t floor_copy_run(struct floor_copy *copy, struct workload_random *random, uint32_t count,
                        struct histogram *latency)
{
    uint8_t image[BUCKET_MAX];
    uint64_t start_ns = okv_clock_ns();
    uint64_t end_ns = start_ns;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t bucket = workload_random_below(random, copy->buckets);
        uint64_t begun_ns = okv_clock_ns();
        memcpy(image, copy->memory + bucket * copy->bucket_bytes, copy->bucket_bytes);
        copy->hash ^= okv_hash_checksum(image, copy->bucket_bytes, 0);
        end_ns = okv_clock_ns();
        if (latency)
            histogram_record(latency, end_ns - begun_ns);
    }
    return end_ns - start_ns;
}
