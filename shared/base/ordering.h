/*
 * Memory fences, named by their purpose.
 *
 * A writer fills an extent, then publishes the bucket that refers to it. A reader reads the bucket,
 * then the extent. okv_publish_fence() and okv_snapshot_fence() pair and keep these two steps in
 * order between CPUs, and towards devices that read memory (a device orders its READs by itself).
 * They promise nothing about the bytes inside one RDMA READ: the device may fetch its cache lines
 * in any order, and a retried READ fetches them again (docs/consistency.md section 2). Therefore
 * every image carries a checksum.
 */
#ifndef OKV_SHARED_BASE_ORDERING_H
#define OKV_SHARED_BASE_ORDERING_H

#include <stdatomic.h>

/* Writer: everything stored before is visible before anything stored after. */
static inline void okv_publish_fence(void)
{
#if defined(__aarch64__)
    /* C's fence is dmb ish, which orders between processors alone. A device is in the outer
     * shareable domain (Arm ARM B2.3.12; dma_wmb() of Linux is dmb oshst). */
    __asm__ volatile("dmb osh" ::: "memory");
#else
    atomic_thread_fence(memory_order_release);
#endif
}

/* Reader: everything loaded before was loaded before anything loaded after. */
static inline void okv_snapshot_fence(void)
{
    atomic_thread_fence(memory_order_acquire);
}

#endif
