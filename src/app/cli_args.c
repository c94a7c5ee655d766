#include "app/cli_args.h"

#include <assert.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/units.h"

/* What verbs take besides their own options; `reads` and `asks` tell which apply. */
static const struct cli_option option_json = { "json", 0, CLI_FLAG, NULL, "print JSON, for programs" };
static const struct cli_option option_socket = { "socket", 0, CLI_TEXT, "PATH",
	                                         "the daemon's control socket (else searched)" };
static const struct cli_option option_url = { "url", 0, CLI_TEXT, "URL",
	                                      "ask this http:// address instead, with $COTENANT_KEY" };
static const struct cli_option option_help = { "help", 'h', CLI_FLAG, NULL, "this text" };

/* The verb's own options, then the common ones; returns how many. */
static int gather(const struct cli_verb *verb, const struct cli_option *out[CLI_OPTIONS_MAX])
{
	int count = 0;

	for (const struct cli_option *own = verb->options; own && own->name; own++)
		out[count++] = own;
	if (verb->reads)
		out[count++] = &option_json;
	if (verb->asks) {
		out[count++] = &option_socket;
		out[count++] = &option_url;
	}
	out[count++] = &option_help;
	assert(count < CLI_OPTIONS_MAX);
	return count;
}

const struct cli_value *cli_value(const struct cli_args *args, const char *name)
{
	const struct cli_option *option = args->verb->options;
	int i = 0;

	while (strcmp(option[i].name, name) != 0)
		i++;
	return &args->value[i];
}

/* As wide as the longest, "--flash-attn on|off|auto". */
enum { LEFT_WIDTH = 24 };

void cli_args_help(const struct cli_verb *verb)
{
	const struct cli_option *options[CLI_OPTIONS_MAX];
	int count = gather(verb, options);

	printf("Usage: cotenant %s [options]%s%s\n\n%s\n\nOptions:\n", verb->name,
	       *verb->operands ? " " : "", verb->operands, verb->help);
	for (int i = 0; i < count; i++) {
		const struct cli_option *option = options[i];
		char left[48], letter[8] = "";
		if (option->letter)
			snprintf(letter, sizeof(letter), "-%c, ", option->letter);
		snprintf(left, sizeof(left), "%s--%s %s", letter, option->name,
		         option->value ? option->value : "");
		printf("  %-*s  %s\n", LEFT_WIDTH, left, option->help);
	}
}

__attribute__((format(printf, 2, 3))) static int misused(const struct cli_verb *verb,
                                                         const char *format, ...)
{
	char text[256], command[64];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(command, sizeof(command), "cotenant %s --help", verb->name);
	return cli_fail(CLI_USAGE, command, "%s: %s", verb->name, text);
}

static bool read_value(const struct cli_option *option, struct cli_value *value)
{
	struct str text = str_from(value->text);
	uint64_t number;

	switch (option->kind) {
	case CLI_NUMBER:
		if (!str_to_u64(text, &number) || number > INT64_MAX)
			return false;
		value->number = (int64_t)number;
		return true;
	case CLI_SIZE:
		return units_parse_size(text, &value->number);
	case CLI_DURATION:
		return units_parse_duration(text, &value->number);
	case CLI_FLAG:
	case CLI_TEXT:
		break;
	}
	return true;
}

static const char *expected(enum cli_kind kind)
{
	switch (kind) {
	case CLI_NUMBER:
		return "a number such as 4096";
	case CLI_SIZE:
		return "a size such as 4GiB";
	case CLI_DURATION:
		return "a time such as 30m";
	case CLI_FLAG:
	case CLI_TEXT:
		break;
	}
	return "a text";
}

/* Both forms of a table, for getopt_long(3): ':' first, so that a missing value is told apart. */
static void to_getopt(const struct cli_option *const *options, int count, struct option *long_options,
                      char *short_options)
{
	char *letter = short_options;

	*letter++ = ':';
	for (int i = 0; i < count; i++) {
		bool takes = options[i]->kind != CLI_FLAG;
		long_options[i] = (struct option){ options[i]->name,
			                           takes ? required_argument : no_argument, NULL, 256 + i };
		if (options[i]->letter) {
			*letter++ = options[i]->letter;
			if (takes)
				*letter++ = ':';
		}
	}
	*letter = '\0';
	long_options[count] = (struct option){ 0 };
}

/* The nearest option's name, for a misspelt one; NULL where none is near. */
static const char *nearest_option(const struct cli_option *const *options, int count, const char *word)
{
	const char *best = NULL;

	while (*word == '-')
		word++;
	struct str rest, name = str_cut(str_from(word), '=', &rest);
	for (int i = 0; i < count; i++)
		best = str_nearer(name, best, options[i]->name);
	return best;
}

static int take_option(const struct cli_option *option, int i, struct cli_args *args)
{
	struct cli_value *value = &args->value[i];

	value->given = true;
	value->text = optarg;
	if (!read_value(option, value))
		return misused(args->verb, "--%s '%.60s' is not %s", option->name, optarg,
		               expected(option->kind));
	if (option == &option_json)
		args->json = true;
	else if (option == &option_socket)
		args->socket = optarg;
	else if (option == &option_url)
		args->url = optarg;
	return CLI_ARGS_RUN;
}

static int take_operands(int argc, char **argv, struct cli_args *args)
{
	const struct cli_verb *verb = args->verb;

	for (int i = optind; i < argc; i++) {
		if (args->operands == verb->most || args->operands == CLI_OPERANDS_MAX)
			return misused(verb, "'%.80s' is too much", argv[i]);
		args->operand[args->operands++] = argv[i];
	}
	if (args->operands < verb->least)
		return misused(verb, "needs %s", verb->operands);
	return CLI_ARGS_RUN;
}

static int bad_option(const struct cli_verb *verb, const struct cli_option *const *options, int count,
                      int code, char **argv)
{
	const char *word = argv[optind - 1];
	const char *near = nearest_option(options, count, word);

	if (code == ':')
		return misused(verb, "%.60s needs a value", word);
	if (optopt > 0 && optopt < 256)
		return misused(verb, "unknown option '-%c'", optopt);
	if (near)
		return misused(verb, "unknown option '%.60s'; did you mean --%s?", word, near);
	return misused(verb, "unknown option '%.60s'", word);
}

int cli_args_parse(const struct cli_verb *verb, int argc, char **argv, struct cli_args *args)
{
	const struct cli_option *options[CLI_OPTIONS_MAX];
	struct option long_options[CLI_OPTIONS_MAX];
	char short_options[2 + 2 * CLI_OPTIONS_MAX];
	int count = gather(verb, options);
	int code;

	*args = (struct cli_args){ .verb = verb };
	to_getopt(options, count, long_options, short_options);
	optind = 1;
	opterr = 0;
	while ((code = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
		if (code == '?' || code == ':')
			return bad_option(verb, options, count, code, argv);
		int i = code - 256;
		if (code < 256)
			for (i = 0; options[i]->letter != code; i++)
				;
		if (options[i] == &option_help) {
			cli_args_help(verb);
			return CLI_DONE;
		}
		int verdict = take_option(options[i], i, args);
		if (verdict != CLI_ARGS_RUN)
			return verdict;
	}
	return take_operands(argc, argv, args);
}
