/* The functions that the engine calls above it. */
#ifndef OKV_CLIENT_API_ENGINE_OPS_H
#define OKV_CLIENT_API_ENGINE_OPS_H

#include "client/engine/engine_ops.h"

extern const struct engine_ops client_engine_ops;

#endif
