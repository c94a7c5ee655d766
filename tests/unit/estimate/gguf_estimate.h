#ifndef TEST_GGUF_ESTIMATE_H
#define TEST_GGUF_ESTIMATE_H

#include "../cmocka_all.h"
#include "gguf_maker.h"

/* What the estimator makes of these bytes, as a file; none of them is fetched again and again. */
static inline int estimate_bytes(const char *data, size_t size, struct estimate *out, struct err *err)
{
	struct memory_source memory = { .data = data, .size = size };
	struct byte_source source = { &memory, memory_read, size };
	struct estimate_params params;

	estimate_defaults(&params);
	params.context = 4096;
	params.slots = 1;
	int rc = estimate_gguf(&source, &params, out, err);
	assert_in_range(memory.bytes, 0, 2 * size + 64 * 1024);
	return rc;
}

#endif
