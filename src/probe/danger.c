#include "probe/danger.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define SECOND_US INT64_C(1000000)

enum {
	LOOK_MOST_MS = 1000,
	LOOK_CALM_MS = 100,  /* nothing grows: no oftener than that */
	LOOK_LEAST_MS = 20,
	WINDOW_US = 250000,  /* growth is measured over at least so long: counters tremble */
	LASTS_WARN_US = 2000000,
	LASTS_CRIT_US = 500000,
};

static const int64_t fastest = 512 * MIB; /* bytes a second */
static const int64_t growing = 64 * MIB;

/* What can run out. */
struct place {
	int64_t left;
	int64_t reserve;
	int64_t grows; /* bytes a second, unpromised */
	int64_t whole;
	int64_t some_centi, full_centi; /* PSI */
};

enum { MACHINE, GROUP, PLACES };

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t danger_group_reserve(int64_t limit_bytes, int64_t reserve_bytes)
{
	return smaller(limit_bytes / 8, reserve_bytes);
}

/* Bytes a second since the youngest point that is old enough, else since the oldest. */
static int64_t growth(const struct danger_watch *watch, int64_t at_us, uint32_t place, int64_t now)
{
	uint32_t kept = watch->points < DANGER_POINTS ? watch->points : DANGER_POINTS;

	for (uint32_t back = 1; back <= kept; back++) {
		uint32_t i = (watch->points - back) % DANGER_POINTS;
		int64_t passed = at_us - watch->point[i].at_us;
		if (passed <= 0 || (passed < WINDOW_US && back < kept))
			continue;
		int64_t grown = now - watch->point[i].unpromised_bytes[place];
		if (grown <= 0 || grown > INT64_MAX / SECOND_US)
			return 0;
		return grown * SECOND_US / larger(passed, WINDOW_US);
	}
	return 0;
}

static void keep_point(struct danger_watch *watch, int64_t at_us, const int64_t unpromised[PLACES])
{
	uint32_t i = watch->points++ % DANGER_POINTS;

	watch->point[i].at_us = at_us;
	for (uint32_t place = 0; place < PLACES; place++)
		watch->point[i].unpromised_bytes[place] = unpromised[place];
}

static uint32_t look_places(struct danger_watch *watch, const struct danger_facts *facts,
                            struct place place[PLACES])
{
	const struct sample *s = facts->sample;
	/* What is not known is no reason to end anybody. */
	bool bounded = s->cgroup_limit_bytes < s->total_bytes && !s->cgroup_use_unknown;
	int64_t unpromised[PLACES] = { s->unreclaimable_bytes - facts->promised_bytes,
		                       s->cgroup_hard_bytes - facts->promised_bytes };

	place[MACHINE] = (struct place){
		.left = s->total_bytes - s->unreclaimable_bytes,
		.reserve = facts->reserve_bytes,
		.grows = growth(watch, facts->at_us, MACHINE, unpromised[MACHINE]),
		.whole = s->total_bytes,
		.some_centi = s->psi_some_avg10_centi,
		.full_centi = s->psi_full_avg10_centi,
	};
	/* Who stalls in the group stalls on the machine: that tells where the group itself does not. */
	bool told = s->cgroup_some_avg10_centi >= 0;
	place[GROUP] = (struct place){
		.left = s->cgroup_limit_bytes - s->cgroup_hard_bytes,
		.reserve = danger_group_reserve(s->cgroup_limit_bytes, facts->reserve_bytes),
		.grows = growth(watch, facts->at_us, GROUP, unpromised[GROUP]),
		.whole = s->cgroup_limit_bytes,
		.some_centi = told ? s->cgroup_some_avg10_centi : s->psi_some_avg10_centi,
		.full_centi = told ? s->cgroup_full_avg10_centi : s->psi_full_avg10_centi,
	};
	keep_point(watch, facts->at_us, unpromised);
	return bounded ? PLACES : PLACES - 1;
}

static void speaks_for(struct danger *out, enum danger_level level, const char *sign)
{
	if (level <= out->level)
		return;
	out->level = level;
	out->sign = sign;
}

static bool lasts_less(const struct place *place, int64_t us)
{
	return place->left < 2 * place->reserve && place->grows >= growing &&
	       place->left / 1024 < place->grows / 1024 * us / SECOND_US;
}

/* Little enough is left that what the kernel does to get at more concerns us. */
static bool has_little(const struct place *place)
{
	return place->left < larger(2 * place->reserve, place->whole / 4);
}

static void judge_stalls(const struct place *place, struct danger *out)
{
	if (place->some_centi > 4000 || place->full_centi > 1000)
		speaks_for(out, DANGER_CRIT, "stalls");
	else if (place->some_centi > 1000)
		speaks_for(out, DANGER_WARN, "stalls");
}

static void judge_place(const struct place *place, const char *what, struct danger *out)
{
	if (place->left < place->reserve / 3)
		speaks_for(out, DANGER_CRIT, what);
	else if (place->left < place->reserve / 2)
		speaks_for(out, DANGER_WARN, what);
	if (lasts_less(place, LASTS_CRIT_US))
		speaks_for(out, DANGER_CRIT, "growth");
	else if (lasts_less(place, LASTS_WARN_US))
		speaks_for(out, DANGER_WARN, "growth");
}

/* Per second since the last sample. */
static int64_t rate(int64_t *kept, int64_t now, int64_t passed_us)
{
	int64_t before = *kept;

	*kept = now;
	if (before <= 0 || now < before || passed_us <= 0 || now - before > INT64_MAX / SECOND_US)
		return 0;
	return (now - before) * SECOND_US / passed_us;
}

struct signs {
	int64_t refaults, stalls; /* a second */
	int64_t swap_permille;    /* full; 0 where it tells nothing */
	bool little, very_little; /* left */
};

/* A small swap fills up with what nobody needs and stays full: that is no sign. */
static int64_t swap_permille(const struct sample *s)
{
	int64_t left = s->total_bytes - s->unreclaimable_bytes;

	if (s->swap_total_bytes < s->total_bytes / 8 || s->swap_total_bytes == 0 || left > s->total_bytes / 2)
		return 0;
	return 1000 - s->swap_free_bytes / (s->swap_total_bytes / 1000 + 1);
}

static void judge_signs(const struct danger_facts *facts, const struct signs *signs, struct danger *out)
{
	const struct sample *s = facts->sample;
	int64_t swappable = s->anon_bytes + s->shmem_bytes;

	if (signs->swap_permille >= 920 && swappable > s->total_bytes / 10 * 6)
		speaks_for(out, DANGER_CRIT, "swap");
	else if (signs->swap_permille > 800)
		speaks_for(out, DANGER_WARN, "swap");
	if (signs->very_little && signs->refaults > 100000)
		speaks_for(out, DANGER_CRIT, "refaults");
	else if (signs->little && signs->refaults > 20000)
		speaks_for(out, DANGER_WARN, "refaults");
	if (signs->very_little && signs->stalls > 50)
		speaks_for(out, DANGER_CRIT, "compaction");
	if (!facts->nvidia_unified)
		return;
	/* Free pages alone run out wherever a file is read. */
	bool waits = signs->stalls > 5 || signs->refaults > 20000 || s->psi_some_avg10_centi > 1000;
	if (facts->loading && s->free_bytes < GIB)
		speaks_for(out, signs->very_little || waits ? DANGER_CRIT : DANGER_WARN, "MemFree");
	if (facts->free_2m_bytes >= 0 && facts->free_2m_bytes < GIB)
		speaks_for(out, DANGER_WARN, "fragmentation");
}

/* Before a quarter of it can be gone. */
static uint32_t look_ms(const struct place *place)
{
	int64_t least = place->grows >= growing ? LOOK_LEAST_MS : LOOK_CALM_MS;
	int64_t left = larger(0, place->left);
	int64_t ms = left / 4 / (larger(fastest, place->grows) / 1000);

	return (uint32_t)smaller(LOOK_MOST_MS, larger(least, ms));
}

void danger_judge(struct danger_watch *watch, const struct danger_facts *facts, struct danger *out)
{
	const struct sample *s = facts->sample;
	struct place place[PLACES];
	uint32_t last = (watch->points + DANGER_POINTS - 1) % DANGER_POINTS;
	int64_t passed = watch->points ? facts->at_us - watch->point[last].at_us : 0;
	uint32_t places = look_places(watch, facts, place);
	struct signs signs = { .refaults = rate(&watch->refaults, s->file_refaults, passed),
		               .stalls = rate(&watch->stalls, s->allocation_stalls, passed),
		               .swap_permille = swap_permille(s) };

	*out = (struct danger){ .sign = "", .left_bytes = INT64_MAX, .look_ms = LOOK_MOST_MS };
	signs.little = signs.very_little = signs.swap_permille > 800;
	for (uint32_t i = 0; i < places; i++) {
		uint32_t ms = look_ms(&place[i]);
		signs.little |= has_little(&place[i]);
		signs.very_little |= place[i].left < place[i].reserve;
		out->left_bytes = smaller(out->left_bytes, place[i].left);
		out->look_ms = ms < out->look_ms ? ms : out->look_ms;
		judge_place(&place[i], i == GROUP ? "the control group" : "memory left", out);
	}
	for (uint32_t i = 0; i < places; i++)
		if (has_little(&place[i]) || signs.swap_permille > 800)
			judge_stalls(&place[i], out);
	judge_signs(facts, &signs, out);
	if (out->level != DANGER_CRIT)
		return;
	for (uint32_t i = 0; i < places; i++)
		out->short_bytes = larger(out->short_bytes,
		                          place[i].reserve - place[i].left + place[i].grows);
	out->short_bytes = larger(1, out->short_bytes);
}
