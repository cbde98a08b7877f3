#include "shared/devices/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "shared/base/error.h"

static uint32_t not_negative(int number)
{
    return number > 0 ? (uint32_t)number : 0;
}

/* The device says it of a queue pair that it has made (ibv_create_qp(3)). */
static uint32_t read_inline(struct ibv_context *verbs)
{
    struct ibv_pd *pd = ibv_alloc_pd(verbs);
    struct ibv_cq *cq = ibv_create_cq(verbs, 1, NULL, NULL, 0);
    struct ibv_qp *qp = NULL;
    static const uint32_t sizes[] = OKV_INLINE_SIZES;
    uint32_t bytes = 0;

    for (const uint32_t *wanted = sizes; pd && cq && !qp && *wanted > 0; wanted++) {
        struct ibv_qp_init_attr attr = {.send_cq = cq,
                                        .recv_cq = cq,
                                        .cap = {.max_send_wr = 1,
                                                .max_recv_wr = 1,
                                                .max_send_sge = 1,
                                                .max_recv_sge = 1,
                                                .max_inline_data = *wanted},
                                        .qp_type = IBV_QPT_RC};
        qp = ibv_create_qp(pd, &attr);
        if (qp)
            bytes = attr.cap.max_inline_data;
    }
    if (qp)
        ibv_destroy_qp(qp);
    if (cq)
        ibv_destroy_cq(cq);
    if (pd)
        ibv_dealloc_pd(pd);
    return bytes;
}

const char *okv_iwarp_cure(const char *root, const char *device)
{
    char link[256], driver[256];

    snprintf(link, sizeof link, "%.120s/sys/class/infiniband/%.64s/device/driver", root, device);
    ssize_t length = readlink(link, driver, sizeof driver - 1);
    driver[length > 0 ? length : 0] = '\0';
    const char *name = strrchr(driver, '/') ? strrchr(driver, '/') + 1 : driver;
    /* Intel E810. X722, of i40e, has iWARP alone. */
    if (strcmp(name, "ice") == 0)
        return "switch it to RoCE: 'devlink dev param set pci/ADDRESS name enable_iwarp value "
               "false cmode runtime', then the same with enable_roce and true";
    if (strcmp(name, "erdma") == 0)
        return "use a kernel whose erdma offers RoCE v2 (6.14 or later), or tcp://";
    return "use an InfiniBand or RoCE device, or tcp://";
}

static int read_open(struct ibv_context *verbs, struct okv_device_limits *out,
                     struct okv_diag *diag)
{
    struct ibv_device_attr attr;
    int errnum = ibv_query_device(verbs, &attr);

    if (errnum)
        return okv_diag_set(diag, OKV_EIO, "it does not answer a query: %s", strerror(errnum));
    *out = (struct okv_device_limits){
        .max_region = attr.max_mr_size,
        .max_connections = not_negative(attr.max_qp),
        .max_completions = not_negative(attr.max_cqe),
        .max_work = not_negative(attr.max_qp_wr),
        .max_sge = not_negative(attr.max_sge),
        .max_inline = read_inline(verbs),
        .reads_out = not_negative(attr.max_qp_init_rd_atom),
        .reads_in = not_negative(attr.max_qp_rd_atom),
        .is_iwarp = verbs->device->transport_type == IBV_TRANSPORT_IWARP,
    };
    snprintf(out->firmware, sizeof out->firmware, "%.63s", attr.fw_ver);
    return 0;
}

static int open_and_read(struct ibv_device *device, struct okv_device_limits *out,
                         struct okv_diag *diag)
{
    struct ibv_context *verbs = ibv_open_device(device);

    if (!verbs)
        return okv_diag_set(diag, OKV_ENODEVICE, "it cannot be opened: %s", strerror(errno));
    int rc = read_open(verbs, out, diag);
    ibv_close_device(verbs);
    return rc;
}

int okv_device_limits_read(const char *device, struct okv_device_limits *out, struct okv_diag *diag)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    int rc = OKV_ENODEVICE;

    okv_diag_set(diag, rc, "libibverbs has no driver for it");
    for (int i = 0; list && list[i]; i++)
        if (strcmp(ibv_get_device_name(list[i]), device) == 0)
            rc = open_and_read(list[i], out, diag);
    if (list)
        ibv_free_device_list(list);
    return rc;
}
