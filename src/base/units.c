#include "base/units.h"

#include <stdio.h>

struct unit {
	const char *name;
	int64_t factor;
};

static const struct unit sizes[] = {
	{ "KiB", INT64_C(1) << 10 }, { "MiB", INT64_C(1) << 20 }, { "GiB", INT64_C(1) << 30 },
	{ "TiB", INT64_C(1) << 40 }, { "KB", 1000 }, { "MB", 1000000 },
	{ "GB", 1000000000 }, { "TB", INT64_C(1000000000000) }, { "B", 1 }, { "", 1 },
	{ NULL, 0 },
};

static const struct unit durations[] = {
	{ "us", 1 }, { "ms", US_PER_MS }, { "s", US_PER_S },
	{ "m", 60 * US_PER_S }, { "h", 3600 * US_PER_S }, { "d", 86400 * US_PER_S },
	{ NULL, 0 },
};

static const struct unit *find(const struct unit *units, struct str name)
{
	for (; units->name; units++)
		if (str_equal_nocase(name, str_from(units->name)))
			return units;
	return NULL;
}

/* Digits, at most one point, at most nine digits behind it; then the unit. */
static bool parse(struct str text, const struct unit *units, int64_t *out)
{
	int64_t whole = 0, fraction = 0, scale = 1;
	size_t i = 0, digits = 0;

	text = str_trim(text);
	for (; i < text.length && text.data[i] >= '0' && text.data[i] <= '9'; i++, digits++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, text.data[i] - '0', &whole))
			return false;
	if (i < text.length && text.data[i] == '.') {
		for (i++; i < text.length && text.data[i] >= '0' && text.data[i] <= '9'; i++, digits++) {
			if (scale == 1000000000)
				return false;
			fraction = fraction * 10 + (text.data[i] - '0');
			scale *= 10;
		}
	}
	if (digits == 0)
		return false;

	struct str name = str_trim((struct str){ text.data + i, text.length - i });
	const struct unit *unit = find(units, name);
	if (!unit && name.length == 0 && whole == 0 && fraction == 0)
		unit = &units[0]; /* zero is zero in every unit */
	int64_t product;
	if (!unit || __builtin_mul_overflow(whole, unit->factor, &product))
		return false;
	/* Long double holds 64 bits exactly; the fraction is below one unit. */
	int64_t part = (int64_t)((long double)fraction * (long double)unit->factor / (long double)scale);
	return !__builtin_add_overflow(product, part, out);
}

bool units_parse_size(struct str text, int64_t *out_bytes)
{
	return parse(text, sizes, out_bytes);
}

bool units_parse_duration(struct str text, int64_t *out_us)
{
	return parse(text, durations, out_us);
}

const char *units_size(char out[UNITS_TEXT], int64_t bytes)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	double magnitude = value < 0 ? -value : value;
	int power = 0;

	while (magnitude >= 1023.5 && power < 6) {
		magnitude /= 1024;
		value /= 1024;
		power++;
	}
	int decimals = power == 0 || magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : 2;
	snprintf(out, UNITS_TEXT, "%.*f %s", decimals, value, names[power]);
	return out;
}

const char *units_duration(char out[UNITS_TEXT], int64_t us)
{
	long long s = us / US_PER_S;

	if (us < US_PER_MS)
		snprintf(out, UNITS_TEXT, "%lld us", (long long)us);
	else if (us < US_PER_S)
		snprintf(out, UNITS_TEXT, "%lld ms", (long long)(us / US_PER_MS));
	else if (us < 60 * US_PER_S)
		snprintf(out, UNITS_TEXT, "%.1f s", (double)us / (double)US_PER_S);
	else if (s < 3600)
		snprintf(out, UNITS_TEXT, "%lld m %lld s", s / 60, s % 60);
	else if (s < 86400)
		snprintf(out, UNITS_TEXT, "%lld h %lld m", s / 3600, s / 60 % 60);
	else
		snprintf(out, UNITS_TEXT, "%lld d %lld h", s / 86400, s / 3600 % 24);
	return out;
}
