/* `cotenant serve`: options, then the shell. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/cli.h"
#include "app/shell.h"
#include "base/alloc.h"
#include "base/log.h"

static int usage_error(void)
{
	fprintf(stderr, "try: cotenant serve --help\n");
	return CLI_USAGE;
}

static int parse(int argc, char **argv, struct shell_options *out)
{
	static const struct option options[] = {
		{ "file", required_argument, NULL, 'f' },
		{ "record", required_argument, NULL, 'r' },
		{ "paranoid", no_argument, NULL, 'p' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "takeover", no_argument, NULL, 't' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	optind = 1;
	while ((option = getopt_long(argc, argv, "f:v", options, NULL)) != -1) {
		switch (option) {
		case 'f':
			out->conf_path = optarg;
			break;
		case 'r':
			out->record_path = optarg;
			break;
		case 'p':
			out->paranoid = true;
			break;
		case 'v':
			log_set_level(LOG_LEVEL_DEBUG);
			break;
		case 't':
			fprintf(stderr, "serve: --takeover is not built yet; stop the running "
			                "daemon first\n");
			return usage_error();
		default:
			return usage_error();
		}
	}
	if (optind < argc) {
		fprintf(stderr, "serve: unexpected argument \"%s\"\n", argv[optind]);
		return usage_error();
	}
	return 0;
}

/* What a reload says of the file is read elsewhere than where the daemon was started. */
static void make_absolute(char **path)
{
	char folder[PATH_MAX];

	if (**path == '/' || !getcwd(folder, sizeof(folder)))
		return;
	char *whole = xasprintf("%s/%s", folder, strncmp(*path, "./", 2) == 0 ? *path + 2 : *path);
	free(*path);
	*path = whole;
}

static struct conf *load(const char *given, char **out_path)
{
	struct buf problems = BUF_INIT;
	struct conf *conf;

	*out_path = conf_find(given);
	if (!*out_path) {
		fprintf(stderr, "there is no configuration: no ./cotenant.yaml, ~/.config/cotenant/cotenant.yaml or "
		                "/etc/cotenant/cotenant.yaml; try: cotenant init\n");
		return NULL;
	}
	make_absolute(out_path);
	conf = conf_load(*out_path, &problems);
	if (buf_length(&problems))
		fprintf(stderr, "%s", buf_cstr(&problems));
	if (!conf)
		fprintf(stderr, "nothing was started; try: ${EDITOR:-vi} %s\n", *out_path);
	buf_release(&problems);
	return conf;
}

int cmd_serve(int argc, char **argv)
{
	struct shell_options options = { 0 };
	struct err err = { 0 };
	char *path;
	int status = parse(argc, argv, &options);

	if (status)
		return status;
	/* Before anything else: the keeper is a copy of a process that has done nothing yet. */
	struct keeper *keeper = keeper_fork(&err);
	if (!keeper) {
		fprintf(stderr, "serve: %s\n", err.text);
		return CLI_FAILED;
	}
	struct conf *conf = load(options.conf_path, &path);
	if (!conf) {
		keeper_close(keeper);
		return CLI_FAILED;
	}
	options.conf_path = path;
	struct shell *shell = xcalloc(1, sizeof(*shell));
	if (shell_open(shell, &options, conf, keeper, &err) < 0) {
		log_error("%s", err.text);
		/* The keeper sees our end of its socket close, and ends. */
		return CLI_FAILED;
	}
	status = shell_run(shell);
	free(shell);
	free(path);
	return status;
}
