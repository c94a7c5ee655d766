#include "app/cli_json.h"

#include <stdio.h>

#include "app/cli.h"
#include "base/units.h"

const char *json_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

int64_t json_int(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

double json_real_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

bool json_yes(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

int json_print(json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(value);
	return CLI_DONE;
}

const char *json_when(char out[JSON_WHEN_BYTES], int64_t at_ms)
{
	struct timespec now;
	char text[UNITS_TEXT];

	if (at_ms == 0) {
		snprintf(out, JSON_WHEN_BYTES, "never");
		return out;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	int64_t age_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - at_ms;
	units_duration(text, (age_ms < 0 ? -age_ms : age_ms) * US_PER_MS);
	snprintf(out, JSON_WHEN_BYTES, age_ms < 0 ? "in %s" : "%s ago", text);
	return out;
}
