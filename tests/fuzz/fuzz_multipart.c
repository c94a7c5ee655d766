/*
 * A form is read alike however it is cut, and where it is accepted its model is
 * the text between the field's head and the next boundary.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "http/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_form(struct multipart *form, struct str bytes, size_t step)
{
	multipart_init(form, "b");
	for (size_t at = 0; at < bytes.length; at += step) {
		size_t left = bytes.length - at;
		if (!multipart_feed(form, (struct str){ bytes.data + at, left < step ? left : step }))
			return false;
	}
	return multipart_end(form);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct multipart whole, drips;
	struct str bytes = { (const char *)data, size };
	char boundary[MULTIPART_BOUNDARY_MAX + 1];

	bool is_form = read_form(&whole, bytes, SIZE_MAX / 2);
	assert(read_form(&drips, bytes, 1) == is_form);
	assert(whole.facts.has_model == drips.facts.has_model);
	assert(strcmp(whole.facts.model, drips.facts.model) == 0);
	assert(whole.facts.stream == drips.facts.stream);
	if (!is_form)
		assert(strcmp(whole.fault, drips.fault) == 0);
	if (is_form && whole.facts.has_model && whole.facts.model[0])
		assert(memmem(data, size, whole.facts.model, strlen(whole.facts.model)));
	multipart_boundary(bytes, boundary);
	return 0;
}
