#include "app/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <app/version.h> /* made by the build */

#include "app/cli_args.h"
#include "app/version.h"
#include "base/str.h"

static const struct cli_option serve_options[] = {
	{ "file", 'f', CLI_TEXT, "FILE", "the configuration (else searched: see cotenant config --help)" },
	{ "record", 0, CLI_TEXT, "FILE", "write everything the arbiter learns, for cotenant lab replay" },
	{ "paranoid", 0, CLI_FLAG, NULL, "prove the arbiter's invariants after every step" },
	{ "verbose", 'v', CLI_FLAG, NULL, "tell each request's place and way in the log, too" },
	{ "takeover", 0, CLI_FLAG, NULL, "not built yet: stop the running daemon first" },
	{ 0 },
};

static const struct cli_verb verb_serve = {
	.name = "serve",
	.operands = "",
	.summary = "run the daemon",
	.help = "Runs the daemon in the foreground: it listens, starts engines as requests need them,\n"
	        "and makes room by what will be missed least. SIGTERM drains and ends it; SIGHUP reads\n"
	        "the configuration again.\n\n"
	        "The least that a configuration has is a model (doc/config.md has all keys):\n"
	        "  models:\n"
	        "    chat: {file: ~/models/NAME.gguf}\n\n"
	        "Examples:\n"
	        "  cotenant serve -f cotenant.yaml\n"
	        "  curl -s localhost:8778/v1/models",
	.options = serve_options,
	.run = cmd_serve,
};

struct group {
	const char *title;
	const struct cli_verb *verbs[8];
};

static const struct group groups[] = {
	{ "The daemon", { &verb_init, &verb_serve, &verb_check, &verb_config, &verb_reload } },
	{ "What is so", { &verb_top, &verb_ps, &verb_ls, &verb_show, &verb_memory, &verb_doctor, &verb_logs } },
	{ "Why it is so", { &verb_why, &verb_plan, &verb_estimate, &verb_events, &verb_history } },
	{ "Commands",
	  { &verb_run, &verb_load, &verb_unload, &verb_stop, &verb_pin, &verb_unpin, &verb_cancel } },
	{ "The laboratory", { &verb_lab } },
};

#define GROUPS (sizeof(groups) / sizeof(groups[0]))
#define EACH_VERB(at, g)                                                                         \
	for (size_t g = 0; g < GROUPS; g++)                                                      \
		for (const struct cli_verb *const *at = groups[g].verbs; *at; at++)

static void put_bytes(FILE *to, struct str text)
{
	for (size_t i = 0; i < text.length; i++) {
		unsigned char c = (unsigned char)text.data[i];
		bool control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
		putc(control ? '?' : c, to);
	}
}

static void put_plain(FILE *to, const char *text)
{
	put_bytes(to, str_from(text));
}

void cli_put(const char *text)
{
	put_plain(stdout, text);
}

void cli_put_str(struct str text)
{
	put_bytes(stdout, text);
}

int cli_fail(int code, const char *command, const char *format, ...)
{
	char text[4096];
	va_list args;

	fflush(stdout);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fputs("cotenant: ", stderr);
	put_plain(stderr, text);
	if (command) {
		fputs("\n  try: ", stderr);
		put_plain(stderr, command);
	}
	putc('\n', stderr);
	return code;
}

static const struct cli_verb *find_verb(const char *name)
{
	EACH_VERB(verb, g)
		if (strcmp((*verb)->name, name) == 0)
			return *verb;
	return NULL;
}

/* The verb that was meant, where one is near enough to say so. */
static const char *nearest_verb(const char *name)
{
	const char *best = NULL;

	EACH_VERB(verb, g)
		best = str_nearer(str_from(name), best, (*verb)->name);
	return best;
}

static void print_usage(FILE *to)
{
	fputs("cotenant - many models, one memory\n\nUsage: cotenant VERB [options]\n", to);
	for (size_t g = 0; g < GROUPS; g++) {
		fprintf(to, "\n%s\n", groups[g].title);
		for (const struct cli_verb *const *verb = groups[g].verbs; *verb; verb++)
			fprintf(to, "  %-9s %s\n", (*verb)->name, (*verb)->summary);
	}
	fputs("\nEach verb explains itself: cotenant VERB --help; cotenant --version tells which this is\n"
	      "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon answers, 4 does not fit\n",
	      to);
}

/* Verbs that are to come: who read of them is told so, and not that he mistyped. */
static bool is_unbuilt(const char *name)
{
	static const char *const names[] = { "import", "lease", "leases", "hold", "resume" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* What other programs call it; NULL: none of them does. */
static const char *verb_elsewhere(const char *name)
{
	static const char *const names[][2] = {
		{ "list", "ls" },       { "models", "ls" },    { "status", "ps" },     { "running", "ps" },
		{ "start", "load" },    { "kill", "stop" },    { "rm", "unload" },     { "info", "show" },
		{ "describe", "show" }, { "tail", "logs" },    { "log", "logs" },      { "chat", "run" },
		{ "up", "serve" },      { "daemon", "serve" }, { "validate", "check" }, { "explain", "why" },
		{ "free", "memory" },   { "size", "estimate" }, { "restart", "reload" }, { "watch", "top" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i][0]) == 0)
			return names[i][1];
	return NULL;
}

/* Nothing here fetches models: they are files that somebody has. */
static bool is_fetching(const char *name)
{
	return strcmp(name, "pull") == 0 || strcmp(name, "download") == 0 || strcmp(name, "get") == 0;
}

static int unknown_verb(const char *name)
{
	const char *meant = verb_elsewhere(name), *near = meant ? meant : nearest_verb(name);
	char command[64] = "cotenant --help";

	if (near)
		snprintf(command, sizeof(command), "cotenant %s --help", near);
	if (is_unbuilt(name))
		return cli_fail(CLI_USAGE, "cotenant --help", "'%s' is not built yet in this version", name);
	if (name[0] == '-')
		return cli_fail(CLI_USAGE, "cotenant --help", "unknown option '%s'", name);
	if (is_fetching(name))
		return cli_fail(CLI_USAGE, "cotenant init ~/models",
		                "unknown verb '%s': models are files that you have; init writes down those that are there", name);
	if (near)
		return cli_fail(CLI_USAGE, command, "unknown verb '%s'; did you mean '%s'?", name, near);
	return cli_fail(CLI_USAGE, command, "unknown verb '%s'", name);
}

static bool wants_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int run_verb(const struct cli_verb *verb, int argc, char **argv)
{
	struct cli_args args;

	int code = cli_args_parse(verb, argc, argv, &args);
	return code == CLI_ARGS_RUN ? verb->run(&args) : code;
}

int cli_main(int argc, char **argv)
{
	if (argc < 2) {
		print_usage(stderr);
		return CLI_USAGE;
	}
	const char *name = argv[1];
	if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
		printf("cotenant %s\n", COTENANT_VERSION);
		return CLI_DONE;
	}
	bool help = wants_help(name) || strcmp(name, "help") == 0;
	if (help && argc < 3) {
		print_usage(stdout);
		return CLI_DONE;
	}
	const struct cli_verb *verb = find_verb(help ? argv[2] : name);
	if (!verb)
		return unknown_verb(help ? argv[2] : name);
	if (help) {
		cli_args_help(verb);
		return CLI_DONE;
	}
	int code = run_verb(verb, argc - 1, argv + 1);
	/* A reader that went away (cotenant ps | head) is no failure; a full disk is. */
	if (fflush(stdout) != 0 && code == CLI_DONE)
		return cli_fail(CLI_FAILED, NULL, "the output could not be written");
	return code;
}
