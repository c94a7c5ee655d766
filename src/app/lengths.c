#include "app/lengths.h"

#include <stddef.h>

static uint64_t kept_count(const struct lengths *lengths)
{
	return lengths->next < LENGTHS_KEPT ? lengths->next : LENGTHS_KEPT;
}

void lengths_note(struct lengths *lengths, uint64_t conversation, int64_t tokens)
{
	uint64_t count = kept_count(lengths), at = 0;

	if (tokens <= 0)
		return;
	while (at < count && (!conversation || lengths->kept[at].conversation != conversation))
		at++;
	if (at == count) {
		at = lengths->next++ % LENGTHS_KEPT;
		lengths->kept[at].conversation = conversation;
		lengths->kept[at].tokens = 0;
	}
	if (lengths->kept[at].tokens < (uint64_t)tokens)
		lengths->kept[at].tokens = (uint64_t)tokens;
}

int64_t lengths_usual(const struct lengths *lengths)
{
	uint64_t count = kept_count(lengths), beyond = count / 20;
	uint64_t least = 0;

	/* The largest that no more than `beyond` of them exceed. */
	for (uint64_t i = 0; i < count; i++) {
		uint64_t tokens = lengths->kept[i].tokens, longer = 0;
		for (uint64_t j = 0; j < count; j++)
			longer += lengths->kept[j].tokens > tokens;
		if (longer <= beyond && (least == 0 || tokens < least))
			least = tokens;
	}
	return (int64_t)least;
}
