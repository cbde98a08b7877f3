#include "shared/devices/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "shared/base/error.h"

static uint32_t not_negative(int number)
{
    return number > 0 ? (uint32_t)number : 0;
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
