#include <stdio.h>
#include <string.h>

#include "app/cli.h"
#include "app/cli_client.h"
#include "app/cli_json.h"
#include "base/units.h"

/*
 * show - one model, as a list of names and values.
 *
 * They are those of --json, and each number has its unit: by its name, whose ending says it for programs
 * ("last used: 5 m 4 s ago" needs none). What is not there (0, "", nothing known) is left out: a list of
 * nothings hides the rest.
 */
enum { NAME_WIDTH = 24 };

struct unit {
	const char *ending; /* of the name */
	bool is_said;       /* by the value, and not again by the name */
	void (*put)(const json_t *value);
};

static void put_size(const json_t *value)
{
	char text[UNITS_TEXT];

	fputs(units_size(text, json_integer_value(value)), stdout);
}

static void put_when(const json_t *value)
{
	char text[JSON_WHEN_BYTES];

	fputs(json_when(text, json_integer_value(value)), stdout);
}

static void put_span(const json_t *value)
{
	char text[UNITS_TEXT];

	fputs(units_duration(text, (int64_t)(json_number_value(value) * US_PER_MS)), stdout);
}

static void put_tokens(const json_t *value)
{
	printf("%lld tokens", (long long)json_integer_value(value));
}

static void put_share(const json_t *value)
{
	printf("%.0f %%", 100 * json_number_value(value));
}

static void put_permille(const json_t *value)
{
	printf("%.0f %%", json_number_value(value) / 10);
}

/* As estimate prints them. */
static void put_many(const json_t *value)
{
	double number = json_number_value(value);
	bool large = number >= 1e9;

	printf("%.3g %s", number / (large ? 1e9 : 1e6), large ? "billion" : "million");
}

/* The unit of a number: by its name's ending, or because its group holds nothing but bytes. */
static const struct unit *unit_of(const char *group, struct str key)
{
	static const struct unit bytes = { "_bytes", false, put_size };
	static const struct unit units[] = {
		{ "_bytes_per_token", false, put_size }, { "_ms_per_token", false, put_span },
		{ "_at_ms", true, put_when },            { "_ms", true, put_span },
		{ "context", false, put_tokens },        { "context_min", false, put_tokens },
		{ "context_max", false, put_tokens },    { "context_now", false, put_tokens },
		{ "cached_tokens", false, put_tokens },  { "ubatch", false, put_tokens },
		{ "confidence", false, put_share },      { "progress", false, put_share },
		{ "permille", false, put_permille },     { "parameters", false, put_many },
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (str_ends(key, units[i].ending))
			return &units[i];
	bool holds_bytes = strcmp(group, "by_pool") == 0 || strcmp(group, "claim_by_pool") == 0;
	return holds_bytes || str_ends(key, bytes.ending) ? &bytes : NULL;
}

static bool is_nothing(const json_t *value)
{
	const char *key;
	json_t *member;

	json_object_foreach((json_t *)value, key, member)
		if (!is_nothing(member))
			return false;
	return json_is_null(value) || json_is_object(value) || (json_is_array(value) && json_array_size(value) == 0) ||
	       (json_is_string(value) && json_string_length(value) == 0) ||
	       (json_is_number(value) && json_number_value(value) == 0);
}

static void put_value(const json_t *value)
{
	const json_t *item;
	size_t i;

	if (json_is_string(value))
		cli_put(json_string_value(value));
	else if (json_is_boolean(value))
		fputs(json_is_true(value) ? "yes" : "no", stdout);
	else if (json_is_real(value))
		printf("%.6g", json_real_value(value));
	else if (json_is_integer(value))
		printf("%lld", (long long)json_integer_value(value));
	json_array_foreach((json_t *)value, i, item) {
		if (i)
			putchar(' ');
		put_value(item);
	}
}

/* One "name  value" line for each member, groups indented below their name. */
static void put_members(const json_t *object, const char *group, int depth)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) {
		const struct unit *unit = json_is_number(value) ? unit_of(group, str_from(key)) : NULL;
		size_t length = strlen(key) - (unit && unit->is_said ? strlen(unit->ending) : 0);
		bool was_told = depth == 0 && strcmp(key, "text") == 0;
		if (is_nothing(value) || was_told)
			continue;
		printf("%*s%-*.*s ", depth * 2, "", NAME_WIDTH - depth * 2, (int)length, key);
		if (json_is_object(value)) {
			putchar('\n');
			put_members(value, key, depth + 1);
			continue;
		}
		if (unit)
			unit->put(value);
		else
			put_value(value);
		putchar('\n');
	}
}

static int run_show(const struct cli_args *args)
{
	json_t *root;
	int code = client_get_named(args, "/api/v1/models/", args->operand[0], "", &root);
	if (code != CLI_DONE)
		return code;
	if (args->json)
		return json_print(root);
	cli_put(json_text(root, "text"));
	putchar('\n');
	put_members(root, "", 0);
	json_decref(root);
	return CLI_DONE;
}

const struct cli_verb verb_show = {
	.name = "show",
	.operands = "MODEL",
	.summary = "one model: its settings, its footprint, where each number comes from",
	.help = "Shows all that is known of one model: what it was configured with, what the file says,\n"
	        "what it is expected to take and from which source, and its present state. base_bytes is loaded\n"
	        "and idle (IDLE in ls, ESTIMATE in ps), peak_bytes what its load claims, full_bytes the most\n"
	        "there can be (FULL in ls), lower_bytes the least that it takes. What is 0 or\n"
	        "not known is left out; --json has every field, with its unit in the name.\n\n"
	        "Examples:\n"
	        "  cotenant show chat\n"
	        "  cotenant show chat --json | jq .estimate",
	.least = 1,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_show,
};
