/* What administrators are told of the cluster. */
#ifndef OKV_SERVER_COPIES_REPORT_H
#define OKV_SERVER_COPIES_REPORT_H

#include "server/copies/state.h"

/* Writes the report that okv_copies_report() copies as it is now. */
void okv_report_renew(struct okv_copies *copies);

#endif
