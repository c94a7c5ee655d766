#ifndef ESTIMATE_SAFETENSORS_H
#define ESTIMATE_SAFETENSORS_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "estimate/estimate.h"

/*
 * safetensors - a walk through the header of such a file.
 *
 * Layout: length of the header (u64), the header (one JSON object: name ->
 * {dtype, shape, data_offsets}, and "__metadata__"), data. The walk hands each
 * tensor to a visitor and keeps nothing but its place and a hash of its name.
 *
 * As strict as the format's own reader: the data is tiled without holes and
 * without overlaps, each place is as long as shape and type say, no name
 * occurs twice; nothing is believed before it was checked against the file's size.
 */
enum {
	SAFETENSORS_HEADER_MOST = 100 * 1000 * 1000,
	SAFETENSORS_TENSORS_MOST = 1 << 14, /* of one file; their places, and a copy while they are sorted, stay below 1 MiB */
	SAFETENSORS_NAME_MOST = 255,
	SAFETENSORS_DIMENSIONS_MOST = 8,
	SAFETENSORS_DEPTH_MOST = 4,
};

struct safetensor {
	struct str name;        /* valid during the visit only; as written, escapes included */
	const char *type;       /* "F16" */
	uint32_t bits;          /* of an element */
	uint32_t dimensions;
	int64_t extent[SAFETENSORS_DIMENSIONS_MOST];
	int64_t elements;
	int64_t bytes;
};

struct safetensors_summary {
	int64_t tensors;
	int64_t data_bytes;
	int64_t missing_bytes;  /* of the data, where the file is shorter than it says */
};

/* 0 and `out` filled, or a negative errno as estimate_gguf() says. */
int safetensors_walk(const struct byte_source *source,
                     void (*visit)(void *ctx, const struct safetensor *tensor), void *ctx,
                     struct safetensors_summary *out, struct err *err);

#endif
