#ifndef ENGINE_PROBE_MODEL_H
#define ENGINE_PROBE_MODEL_H

#include <stdint.h>

#include "base/err.h"

/*
 * probe_model - a small model file by which an engine is tried out.
 *
 * A llama of two layers with random weights (always the same) and the KV cache of
 * a large one: at PROBE_CONTEXT tokens it is 64 MiB, 8 KiB a token, beside 3 MiB
 * of file. Every token is a byte; what it answers depends on the whole prompt.
 */
enum {
	PROBE_CONTEXT = 8192,
	PROBE_KV_BYTES = 64 << 20,
};

/* 0 or a negative errno. */
int probe_model_write(const char *path, struct err *err);

#endif
