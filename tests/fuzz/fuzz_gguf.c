/* The input is a model file; whatever it holds, the estimate ends, reads little, and keeps its sums. */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "estimate/estimate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
	uint64_t bytes_read;
};

static int read_input(void *ctx, uint64_t offset, void *out, uint32_t length)
{
	struct input *input = ctx;
	assert(offset <= input->size && length <= input->size - offset);
	memcpy(out, input->data + offset, length);
	input->bytes_read += length;
	return 0;
}

static void check(const struct estimate *e)
{
	assert(e->base_bytes > 0 && e->lower_bytes <= e->base_bytes);
	assert(e->base_bytes <= e->peak_bytes && e->peak_bytes <= e->upper_bytes);
	assert(e->base_bytes <= e->steady_bytes && e->steady_bytes <= e->upper_bytes);
	assert(e->per_request_bytes >= 0 && e->sigma_bytes > 0 && e->missing_bytes >= 0);
	assert(e->device.weights_bytes >= 0 && e->host.weights_bytes >= 0);
	assert(memchr(e->flags, 0, sizeof e->flags) && memchr(e->name, 0, sizeof e->name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (int way = 0; way < 3; way++) {
		struct input input = { data, size, 0 };
		struct byte_source source = { &input, read_input, size };
		struct estimate_params params;
		struct estimate out;
		struct err err = { 0 };

		estimate_defaults(&params);
		params.gpu_layers = way - 1; /* all, none, the output alone */
		params.flash = way == 1 ? FLASH_OFF : FLASH_AUTO;
		params.lazy_kv = way == 1;
		params.slots = way;
		int rc = estimate_gguf(&source, &params, &out, &err);
		assert(rc == 0 || rc == -EBADMSG || rc == -ENODATA || rc == -ENOTSUP || rc == -EFBIG);
		assert(rc == 0 || err.text[0]);
		assert(input.bytes_read <= 4 * size + 64); /* at most two passes, and no window twice */
		if (rc == 0)
			check(&out);
	}
	return 0;
}
