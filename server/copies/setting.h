/* Changes the settings of a cluster. */
#ifndef OKV_SERVER_COPIES_SETTING_H
#define OKV_SERVER_COPIES_SETTING_H

#include "server/copies/state.h"

/* As of order `number`, with the words of okv_settings_read(); what they do not name stays. */
void okv_setting_begin(struct okv_copies *copies, const char *words, uint64_t number);
/* As etcd has the cluster by now. Nothing of another cluster counts. */
void okv_setting_note(struct okv_copies *copies, const struct okv_cluster_document *cluster);

#endif
