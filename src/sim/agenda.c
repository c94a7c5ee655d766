#include "sim/agenda.h"

#include "base/alloc.h"

static bool comes_before(const struct happening *x, const struct happening *y)
{
	return x->at_us != y->at_us ? x->at_us < y->at_us : x->order < y->order;
}

void agenda_note(struct agenda *agenda, int64_t at_us, uint32_t kind, uint32_t index, uint64_t life)
{
	struct happening item = { at_us, agenda->noted++, kind, index, life };

	if (agenda->count == agenda->capacity) {
		agenda->capacity = agenda->capacity ? 2 * agenda->capacity : 256;
		agenda->items = xrealloc(agenda->items, agenda->capacity * sizeof(item));
	}
	uint32_t place = agenda->count++;
	while (place > 0 && comes_before(&item, &agenda->items[(place - 1) / 2])) {
		agenda->items[place] = agenda->items[(place - 1) / 2];
		place = (place - 1) / 2;
	}
	agenda->items[place] = item;
}

bool agenda_next(struct agenda *agenda, struct happening *out)
{
	if (!agenda->count)
		return false;
	*out = agenda->items[0];
	struct happening item = agenda->items[--agenda->count];
	uint32_t place = 0;
	for (;;) {
		uint32_t child = 2 * place + 1;
		if (child >= agenda->count)
			break;
		if (child + 1 < agenda->count &&
		    comes_before(&agenda->items[child + 1], &agenda->items[child]))
			child++;
		if (!comes_before(&agenda->items[child], &item))
			break;
		agenda->items[place] = agenda->items[child];
		place = child;
	}
	agenda->items[place] = item;
	return true;
}

void agenda_delay(struct agenda *agenda, int64_t by_us)
{
	for (uint32_t i = 0; i < agenda->count; i++)
		agenda->items[i].at_us += by_us;
}

void agenda_free(struct agenda *agenda)
{
	free(agenda->items);
	*agenda = (struct agenda){ 0 };
}
