#ifndef APP_CLI_H
#define APP_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/*
 * cli - the command line: a table of verbs.
 *
 * A verb is a row: its name, its options, its help, what it does. Parsing,
 * `--help` and spelling help are made from the rows, so they cannot disagree.
 * Verbs that ask the daemon do so over its HTTP API and print either its JSON
 * (--json) or a text for people. Every error ends with one command to type.
 */
enum cli_exit {
	CLI_DONE = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,
	CLI_NO_DAEMON = 3,
	CLI_NO_FIT = 4,
};

enum cli_kind {
	CLI_FLAG,
	CLI_TEXT,
	CLI_NUMBER,   /* decimal, not negative */
	CLI_SIZE,     /* "4GiB" */
	CLI_DURATION, /* "2h"; microseconds */
};

struct cli_option {
	const char *name; /* without the dashes; NULL ends a table */
	char letter;      /* 0 = none */
	enum cli_kind kind;
	const char *value; /* what the help calls the argument; NULL for a flag */
	const char *help;
};

enum { CLI_OPTIONS_MAX = 32, CLI_OPERANDS_MAX = 256 };

struct cli_value {
	bool given;
	const char *text;
	int64_t number; /* NUMBER, SIZE, DURATION */
};

struct cli_args {
	const struct cli_verb *verb;
	const char *operand[CLI_OPERANDS_MAX];
	int operands;
	struct cli_value value[CLI_OPTIONS_MAX]; /* in the order of the verb's table */
	bool json;
	const char *socket; /* --socket; NULL = search */
	const char *url;    /* --url; NULL = the socket */
};

struct cli_verb {
	const char *name;
	const char *operands; /* for the help: "MODEL" */
	const char *summary;  /* one line */
	const char *help;     /* what it does, then examples */
	const struct cli_option *options; /* NULL = none of its own */
	int least, most;      /* operands */
	bool reads;           /* takes --json */
	bool asks;            /* takes --socket and --url */
	int (*run)(const struct cli_args *args);
};

/* Run the command line; the exit code. */
int cli_main(int argc, char **argv);

/* The option's value; `name` must be in the verb's table. */
const struct cli_value *cli_value(const struct cli_args *args, const char *name);

/* "cotenant: text" on stderr, then "  try: command" where one is given. Returns `code`. */
int cli_fail(int code, const char *command, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* `text` to stdout with control bytes shown as '?', so that a peer cannot write to the terminal. */
void cli_put(const char *text);
void cli_put_str(struct str text);

/* cli_config.c: there is no configuration; the one at `path` cannot be used, of which its problems were said. CLI_FAILED. */
int cli_no_config(void);
int cli_bad_config(const char *path);

/* serve.c: the daemon. */
int cmd_serve(const struct cli_args *args);

/* The rows, by file. */
extern const struct cli_verb verb_ps, verb_ls, verb_show;                    /* cli_models.c */
extern const struct cli_verb verb_load, verb_unload, verb_stop;              /* cli_command.c */
extern const struct cli_verb verb_pin, verb_unpin, verb_reload, verb_cancel; /* cli_command.c */
extern const struct cli_verb verb_plan, verb_why;                            /* cli_why.c */
extern const struct cli_verb verb_events, verb_history;                      /* cli_events.c */
extern const struct cli_verb verb_logs;                                      /* cli_logs.c */
extern const struct cli_verb verb_run;                                       /* cli_run.c */
extern const struct cli_verb verb_top;                                       /* cli_top.c */
extern const struct cli_verb verb_memory;                                    /* cli_memory.c */
extern const struct cli_verb verb_doctor; /* cli_doctor.c */
extern const struct cli_verb verb_check, verb_config;                        /* cli_config.c */
extern const struct cli_verb verb_init;                                      /* cli_init.c */
extern const struct cli_verb verb_estimate;                                  /* cli_estimate.c */
extern const struct cli_verb verb_lab;                                       /* cli_lab.c */

#endif
