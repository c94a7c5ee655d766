#include "probe/zones.h"

#include "probe/lines.h"

/* No zone has more; sums of many still fit. */
#define PAGES_MOST (INT64_C(1) << 40)

struct zone {
	int64_t high;
	int64_t managed;
};

static int64_t number_behind(struct str text, size_t skip)
{
	int64_t value = 0;

	lines_number((struct str){ text.data + skip, text.length - skip }, &value, NULL);
	return value < PAGES_MOST ? value : PAGES_MOST;
}

/* "(0, 2880, 23874)": the largest. */
static int64_t largest_of(struct str list)
{
	int64_t most = 0;

	for (struct str rest = list; rest.data && rest.length;) {
		struct str item = str_cut(rest, ',', &rest);
		if (item.length && (item.data[0] == ' ' || item.data[0] == '('))
			item = (struct str){ item.data + 1, item.length - 1 };
		int64_t value = number_behind(item, 0);
		most = value > most ? value : most;
	}
	return most;
}

/* One line of a zone: its own names are followed by a blank, those of its processors by ':'. */
static void take_line(struct str text, struct zone *zone, struct zones *sum)
{
	if (str_starts(text, "low "))
		sum->low_bytes += number_behind(text, 4);
	else if (str_starts(text, "count:"))
		sum->pcp_bytes += number_behind(text, 6);
	else if (str_starts(text, "high ")) {
		zone->high = number_behind(text, 5);
		sum->high_bytes += zone->high;
	} else if (str_starts(text, "managed "))
		zone->managed = number_behind(text, 8);
	else if (str_starts(text, "protection: (")) {
		int64_t kept =
		        zone->high + largest_of((struct str){ text.data + 13, text.length - 13 });
		sum->total_reserve_bytes += kept < zone->managed ? kept : zone->managed;
	}
}

/* Of hundreds of lines few begin as one does that is looked for. */
static struct str without_indent(struct str line)
{
	size_t i = 0;

	while (i < line.length && line.data[i] == ' ')
		i++;
	return (struct str){ line.data + i, line.length - i };
}

static int64_t in_bytes(int64_t pages, int64_t page_bytes)
{
	return pages < PAGES_MOST ? pages * page_bytes : 0;
}

enum input_state zones_read(struct handles *handles, const char *root, int32_t node, int64_t page_bytes, struct zones *out)
{
	struct lines lines;
	struct str line;
	struct zone zone = { 0 };
	bool wanted = true;

	*out = (struct zones){ 0 };
	int code = handles_lines(handles, &lines, root, "/proc/zoneinfo");
	while (code == 0 && lines_next(&lines, &line)) {
		struct str text = without_indent(line);
		if (str_starts(text, "Node ")) {
			wanted = node == ZONES_ALL_NODES || number_behind(text, 5) == node;
			zone = (struct zone){ 0 };
		} else if (wanted)
			take_line(text, &zone, out);
	}
	size_t bytes = code == 0 ? lines.total : 0;
	if (code == 0)
		lines_close(&lines);
	/* Each machine has a zone with watermarks. */
	bool made_sense = out->high_bytes > 0 && out->low_bytes > 0;
	out->low_bytes = in_bytes(out->low_bytes, page_bytes);
	out->high_bytes = in_bytes(out->high_bytes, page_bytes);
	out->total_reserve_bytes = in_bytes(out->total_reserve_bytes, page_bytes);
	out->pcp_bytes = in_bytes(out->pcp_bytes, page_bytes);
	return input_state_of(code, bytes, made_sense);
}

/* "Node 0, zone   Normal  12  3 ...": blocks by order. False for other lines. */
static bool add_blocks(struct str line, int64_t page_bytes, int64_t *free_2m, int64_t *blocks_4m)
{
	enum { ORDERS = 32 };
	static const int64_t two_mib = 2 << 20;
	struct str rest;
	int64_t count;

	str_cut(line, ',', &rest);
	if (!rest.data || !str_starts(line, "Node "))
		return false;
	rest = str_trim(rest);
	if (!str_is(str_cut(rest, ' ', &rest), "zone"))
		return false;
	rest = rest.data ? str_trim(rest) : (struct str){ "", 0 };
	struct str name = str_cut(rest, ' ', &rest);
	if (!rest.data)
		return false;
	if (str_is(name, "DMA"))
		return true;
	int order = 0;
	for (; order < ORDERS && lines_number(rest, &count, &rest); order++) {
		int64_t block = page_bytes << order;
		if (block < two_mib || count > PAGES_MOST / (1 << 10) || block > INT64_C(1) << 40)
			continue;
		if (count > (INT64_C(1) << 50) / block)
			continue;
		*free_2m += count * block;
		*blocks_4m += block >= 2 * two_mib ? count * (block / (2 * two_mib)) : 0;
	}
	return order > 0;
}

int64_t zones_free_2m_bytes(struct handles *handles, const char *root, int64_t page_bytes, int64_t *blocks_4m,
                            enum input_state *state)
{
	struct lines lines;
	struct str line;
	int64_t free_2m = 0, blocks = 0;
	bool any = false;

	int code = handles_lines(handles, &lines, root, "/proc/buddyinfo");
	for (int i = 0; code == 0 && i < 1024 && lines_next(&lines, &line); i++)
		any = add_blocks(line, page_bytes, &free_2m, &blocks) || any;
	enum input_state how = input_state_of(code, code == 0 ? lines.total : 0, any);
	if (code == 0)
		lines_close(&lines);
	if (blocks_4m)
		*blocks_4m = blocks;
	if (state)
		*state = how;
	return how == INPUT_OK ? free_2m : -1;
}
