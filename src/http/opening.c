#include "http/opening.h"

static const uint64_t prime = UINT64_C(0x100000001b3);

static void mix(struct opening *opening, unsigned char byte)
{
	opening->hash = (opening->hash ^ byte) * prime;
}

void opening_value(struct opening *opening, uint32_t salt)
{
	*opening = (struct opening){ .hash = UINT64_C(0xcbf29ce484222325), .open = true };
	mix(opening, (unsigned char)salt);
}

void opening_string(struct opening *opening)
{
	opening->of_string = 0;
	if (opening->open)
		mix(opening, 0);
}

void opening_text(struct opening *opening, const char *bytes, size_t count)
{
	if (!opening->open)
		return;
	for (size_t i = 0; i < count; i++) {
		if (opening->of_string == OPENING_TEXT_MAX || opening->taken == OPENING_BYTES_MAX)
			return;
		mix(opening, (unsigned char)bytes[i]);
		opening->of_string++;
		opening->taken++;
	}
}

void opening_message(struct opening *opening)
{
	if (opening->of_user)
		opening->open = false;
	opening->of_user = false;
}

uint64_t opening_value_end(struct opening *opening)
{
	/* FNV leaves the high bits of short texts alike; XOR of several would keep that. */
	uint64_t hash = opening->hash;

	hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
	hash ^= hash >> 32;
	bool has_text = opening->taken > 0;
	*opening = (struct opening){ 0 };
	return has_text ? hash : 0;
}
