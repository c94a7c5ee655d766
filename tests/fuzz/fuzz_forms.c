/* The input is a model file of a form that is no GGUF: the estimate ends and keeps its sums. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "estimate/forms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
};

static int read_input(void *ctx, uint64_t offset, void *out, uint32_t length)
{
	struct input *input = ctx;

	assert(offset <= input->size && length <= input->size - offset);
	memcpy(out, input->data + offset, length);
	return 0;
}

static void check(const struct estimate *e)
{
	assert(e->base_bytes > 0 && e->lower_bytes <= e->base_bytes && e->lower_bytes >= 0);
	assert(e->base_bytes <= e->steady_bytes && e->steady_bytes <= e->upper_bytes);
	assert(e->per_request_bytes >= 0 && e->sigma_bytes > 0 && e->missing_bytes >= 0);
	assert(e->host.weights_bytes >= 0 && e->parameters >= 0);
	assert(memchr(e->flags, 0, sizeof e->flags) && memchr(e->quantisation, 0, sizeof e->quantisation));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size };
	struct byte_source source = { &input, read_input, size };
	struct estimate out;
	struct estimate_params params;
	struct err err = { 0 };

	estimate_defaults(&params);
	form_of(&source);
	if (estimate_whisper(&source, &params, &out, &err) == 0)
		check(&out);
	else
		assert(err.text[0]);
	err = (struct err){ 0 };
	if (estimate_checkpoint(&source, &params, &out, &err) == 0)
		check(&out);
	else
		assert(err.text[0]);
	return 0;
}
