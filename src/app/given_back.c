#include "app/given_back.h"

#define LEAST_BYTES (INT64_C(256) << 20)

enum { PART = 20, LATE_US = 10000000, NEVER_US = 60000000 };

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool is_enough(int64_t missing, int64_t whole)
{
	return missing <= LEAST_BYTES || missing <= whole / PART;
}

void given_back_begin(struct given_back *g, int64_t now_us, int64_t had_bytes, int64_t whole_bytes,
                      int64_t before_bytes, int64_t unowned_bytes)
{
	int64_t missing = smaller(unowned_bytes - before_bytes, had_bytes);

	*g = (struct given_back){ 0 };
	if (is_enough(missing, whole_bytes))
		return;
	g->ended_at_us = now_us;
	g->had_bytes = whole_bytes;
	g->before_bytes = before_bytes;
	g->missing_bytes = missing;
}

enum given_back_news given_back_look(struct given_back *g, int64_t now_us, int64_t unowned_bytes)
{
	if (g->ended_at_us == 0)
		return GIVEN_BACK_NO_NEWS;
	g->missing_bytes = smaller(g->missing_bytes, unowned_bytes - g->before_bytes);
	if (is_enough(g->missing_bytes, g->had_bytes)) {
		bool told = g->late_told;
		*g = (struct given_back){ 0 };
		return told ? GIVEN_BACK_WHOLE : GIVEN_BACK_NO_NEWS;
	}
	if (!g->given_up && now_us - g->ended_at_us >= NEVER_US) {
		g->given_up = g->late_told = true;
		return GIVEN_BACK_NEVER;
	}
	if (g->late_told || now_us - g->ended_at_us < LATE_US)
		return GIVEN_BACK_NO_NEWS;
	g->late_told = true;
	return GIVEN_BACK_LATE;
}
