#include "server/store/region.h"

#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/base/mapping.h"
#include "shared/base/size.h"
#include "shared/base/thread.h"

#ifndef MFD_HUGE_2MB /* in linux/memfd.h, which does not go with sys/mman.h */
#define MFD_HUGE_2MB (21u << 26)
#endif
#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE /* Linux 6.1 */
#define MADV_COLLAPSE 25
#endif

/* A thread for each of these, at most so many. */
#define SLICE_LEAST (UINT64_C(64) << 20)
#define SLICES_MAX 16
#define COLLAPSE_TRIES 20
#define COLLAPSE_PAUSE_NS 1000000

static int huge_pages_missing(uint64_t length, struct okv_diag *diag)
{
    unsigned long pages = (unsigned long)((length + OKV_HUGE_PAGE - 1) / OKV_HUGE_PAGE);

    return okv_diag_set(diag, OKV_EPERM,
                        "--huge needs %lu free huge pages of 2 MiB (%s): reserve them with "
                        "`sysctl vm.nr_hugepages=%lu`, or leave --huge out",
                        pages, strerror(errno), pages);
}

/* The kernel provides pages of a memfd on first use. Without this check, regions larger than the
 * memory would end in the OOM killer. */
int okv_region_check(uint64_t length, uint64_t limit, struct okv_diag *diag)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    char wanted[OKV_SIZE_TEXT], there[OKV_SIZE_TEXT];
    bool is_limited = limit < memory;

    if (is_limited)
        memory = limit;
    if (length <= memory)
        return 0;
    okv_size_format(length, wanted, sizeof wanted);
    okv_size_format(memory, there, sizeof there);
    return okv_diag_set(
        diag, OKV_ENOMEM,
        is_limited
            ? "--memory: %s in all do not fit the %s that the control group may "
              "use: choose less, or raise its limit (memory.max, MemoryMax=); pages of --huge do "
              "not count"
            : "--memory: %s in all do not fit the %s of this machine: choose less",
        wanted, there);
}

static int map_failed(uint64_t length, enum okv_region_pages pages, struct okv_diag *diag)
{
    if (pages == OKV_REGION_RESERVED)
        return huge_pages_missing(length, diag);
    return okv_diag_set(diag, OKV_ENOMEM, "cannot map a region of %llu bytes: %s; lower --memory",
                        (unsigned long long)length, strerror(errno));
}

static int collapse_failed(uint64_t done, uint64_t length, struct okv_diag *diag)
{
    unsigned long long here = done >> 20, all = length >> 20;

    if (errno == ENOMEM || errno == EBUSY)
        return okv_diag_set(diag, OKV_ENOMEM,
                            "--huge=transparent: the kernel made %llu of %llu MiB into huge pages "
                            "and has no memory for more (%s): lower --memory, raise the limit of "
                            "its control group, reserve pages for --huge, or leave it out",
                            here, all, strerror(errno));
    return okv_diag_set(diag, OKV_EPERM,
                        "--huge=transparent: the kernel made %llu of %llu MiB into huge pages "
                        "(%s); it takes Linux 6.1 with transparent huge pages: reserve pages for "
                        "--huge instead, or leave it out",
                        here, all, strerror(errno));
}

int okv_region_check_transparent(const char *root, struct okv_diag *diag)
{
    unsigned long long bytes = OKV_HUGE_PAGE;
    char path[256];

    snprintf(path, sizeof path, "%.120s/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%llu", &bytes) != 1)
        bytes = OKV_HUGE_PAGE;
    fclose(file);
    if (bytes == OKV_HUGE_PAGE)
        return 0;
    return okv_diag_set(
        diag, OKV_EUNSUPPORTED,
        "--huge=transparent takes huge pages of 2 MiB, and those of this kernel have "
        "%llu MiB: reserve pages of 2 MiB for --huge (hugepagesz=2M hugepages=N on "
        "the kernel's command line), or leave it out",
        bytes >> 20);
}

/* EAGAIN: the kernel is busy with the page for a moment. */
static int collapse_one(uint8_t *page)
{
    int rc = -1;

    for (int i = 0; i < COLLAPSE_TRIES && rc; i++) {
        if (i > 0)
            nanosleep(&(struct timespec){.tv_nsec = COLLAPSE_PAUSE_NS}, NULL);
        rc = madvise(page, OKV_HUGE_PAGE, MADV_COLLAPSE);
        if (rc && errno != EAGAIN)
            break;
    }
    return rc;
}

/* The kernel collapses only ranges with a page in use, so a byte is written first. For a range that
 * is not aligned to huge pages it does nothing and reports success. */
static int collapse(uint8_t *base, uint64_t length, struct okv_diag *diag)
{
    if ((uintptr_t)base % OKV_HUGE_PAGE)
        return okv_diag_set(diag, OKV_ENOMEM,
                            "--huge=transparent: there is no address space for %llu bytes and the "
                            "alignment of huge pages: raise the limit on it (ulimit -v)",
                            (unsigned long long)length);
    int rc = okv_region_check_transparent("", diag);
    if (rc)
        return rc;
    for (uint64_t at = 0; at < length; at += OKV_HUGE_PAGE) {
        *(volatile uint8_t *)(base + at) = 0;
        if (collapse_one(base + at))
            return collapse_failed(at, length, diag);
    }
    return 0;
}

/* A part of a region, whose pages one thread has the kernel provide: it zeroes them. */
struct slice {
    uint8_t *base;
    uint64_t length;
    pthread_t thread;
    int errnum;
};

static void *populate_slice(void *user)
{
    struct slice *slice = user;

    slice->errnum = madvise(slice->base, slice->length, MADV_POPULATE_WRITE) ? errno : 0;
    return NULL;
}

static unsigned slice_count(uint64_t length)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t slices = length / SLICE_LEAST;

    if (processors > 0 && slices > (unsigned long)processors)
        slices = (unsigned long)processors;
    return slices < 1 ? 1 : slices > SLICES_MAX ? SLICES_MAX : (unsigned)slices;
}

/* Returns 0 or an errno. A slice without a thread is done here. */
static int populate_slices(uint8_t *base, uint64_t length)
{
    struct slice slices[SLICES_MAX];
    unsigned count = slice_count(length), threads = 0;
    uint64_t each = length / count / OKV_HUGE_PAGE * OKV_HUGE_PAGE;
    int errnum = 0;

    for (unsigned i = 0; i < count; i++)
        slices[i] = (struct slice){.base = base + i * each,
                                   .length = i + 1 < count ? each : length - i * each};
    while (threads + 1 < count &&
           okv_thread_start(&slices[threads].thread, populate_slice, &slices[threads], NULL) == 0)
        threads++;
    for (unsigned i = threads; i < count; i++)
        populate_slice(&slices[i]);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(slices[i].thread, NULL);
    for (unsigned i = 0; i < count; i++)
        errnum = errnum ? errnum : slices[i].errnum;
    return errnum;
}

static int populate(void *base, uint64_t length, struct okv_diag *diag)
{
    int errnum = populate_slices(base, length);

    if (errnum == 0)
        return 0;
    if (errnum == EINVAL)
        return okv_diag_set(diag, OKV_EUNSUPPORTED, "--prefault takes Linux 5.14: leave it out");
    return okv_diag_set(diag, OKV_ENOMEM,
                        "--prefault: the kernel does not give %llu bytes (%s); lower --memory",
                        (unsigned long long)length, strerror(errnum));
}

/* Otherwise a child would get copies of the pinned pages (man ibv_fork_init). */
static int keep_from_children(void *base, uint64_t length, struct okv_diag *diag)
{
    if (madvise(base, length, MADV_DONTFORK))
        return okv_diag_set(diag, OKV_EIO, "cannot keep the region out of child processes: %s",
                            strerror(errno));
    return 0;
}

static int create(uint64_t length, enum okv_region_pages pages, bool prefault,
                  struct okv_region *out, struct okv_diag *diag)
{
    unsigned huge = pages == OKV_REGION_RESERVED ? MFD_HUGETLB | MFD_HUGE_2MB : 0;
    int rc;
    int fd = memfd_create("okv-region", MFD_CLOEXEC | MFD_ALLOW_SEALING | huge);
    if (fd < 0)
        return huge ? huge_pages_missing(length, diag)
                    : okv_diag_set(diag, okv_error_from_errno(errno),
                                   "cannot create the region's memfd: %s", strerror(errno));
    if (ftruncate(fd, (off_t)length)) {
        rc = okv_diag_set(diag, OKV_ENOMEM,
                          "cannot size the region to %llu bytes: %s; lower --memory",
                          (unsigned long long)length, strerror(errno));
        goto close_fd;
    }
    void *base = okv_map_shared(fd, length, PROT_READ | PROT_WRITE);
    if (base == MAP_FAILED) {
        rc = map_failed(length, pages, diag);
        goto close_fd;
    }
    rc = keep_from_children(base, length, diag);
    if (rc == 0 && pages == OKV_REGION_TRANSPARENT)
        rc = collapse(base, length, diag);
    if (rc == 0 && prefault)
        rc = populate(base, length, diag);
    if (rc)
        goto unmap;
    *out = (struct okv_region){.base = base, .length = length, .fd = fd};
    return 0;
unmap:
    munmap(base, length);
close_fd:
    close(fd);
    return rc;
}

/* The pages are taken at once: a control group that has none would end the process with SIGBUS
 * later. A device pins all of them anyway. */
int okv_region_create(uint64_t length, enum okv_region_pages pages, bool prefault,
                      struct okv_region *out, struct okv_diag *diag)
{
    if (pages == OKV_REGION_AUTO && length % OKV_HUGE_PAGE == 0 &&
        create(length, OKV_REGION_RESERVED, true, out, NULL) == 0)
        return 0;
    return create(length, pages, prefault, out, diag);
}

bool okv_region_is_huge(const struct okv_region *region)
{
    struct statfs status;

    return fstatfs(region->fd, &status) == 0 && status.f_type == HUGETLBFS_MAGIC;
}

void okv_region_destroy(struct okv_region *region)
{
    munmap(region->base, region->length);
    close(region->fd);
}
