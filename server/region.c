#include "server/region.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/error.h"
#include "shared/size.h"

#ifndef MFD_HUGE_2MB /* in linux/memfd.h, which does not go with sys/mman.h */
#define MFD_HUGE_2MB (21u << 26)
#endif

static int huge_pages_missing(uint64_t length, struct okv_diag *diag)
{
    unsigned long pages = (unsigned long)((length + OKV_REGION_UNIT - 1) / OKV_REGION_UNIT);

    return okv_diag_set(diag, OKV_EPERM,
                        "--huge needs %lu free huge pages of 2 MiB (%s): reserve them with "
                        "`sysctl vm.nr_hugepages=%lu`, or leave --huge out",
                        pages, strerror(errno), pages);
}

/* Pages of a memfd come with use: a region larger than the memory there is would
 * be found out when the table is being laid out, by the kernel killing processes. */
static int check_length(uint64_t length, struct okv_diag *diag)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    char wanted[OKV_SIZE_TEXT], there[OKV_SIZE_TEXT];

    if (length <= memory)
        return 0;
    okv_size_format(length, wanted, sizeof wanted);
    okv_size_format(memory, there, sizeof there);
    return okv_diag_set(diag, OKV_ENOMEM,
                        "--memory: a region of %s does not fit the %s of this machine: choose less",
                        wanted, there);
}

int okv_region_create(uint64_t length, bool huge, struct okv_exposed_region *out,
                      struct okv_diag *diag)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0);
    int rc = check_length(length, diag);

    if (rc)
        return rc;
    int fd = memfd_create("okv-region", flags);
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
    void *base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        if (huge)
            rc = huge_pages_missing(length, diag);
        else
            rc = okv_diag_set(diag, OKV_ENOMEM,
                              "cannot map a region of %llu bytes: %s; lower --memory",
                              (unsigned long long)length, strerror(errno));
        goto close_fd;
    }
    /* A child would otherwise get copies of the pinned pages (man ibv_fork_init). */
    if (madvise(base, length, MADV_DONTFORK)) {
        rc = okv_diag_set(diag, OKV_EIO, "cannot keep the region out of child processes: %s",
                          strerror(errno));
        goto unmap;
    }
    *out = (struct okv_exposed_region){.base = base, .length = length, .fd = fd};
    return 0;
unmap:
    munmap(base, length);
close_fd:
    close(fd);
    return rc;
}

void okv_region_destroy(struct okv_exposed_region *region)
{
    munmap(region->base, region->length);
    close(region->fd);
}
