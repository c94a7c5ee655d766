/* `cotenant serve`: options, then the shell. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/cli.h"
#include "app/shell.h"
#include "base/alloc.h"
#include "base/log.h"

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

/* NULL: what is wrong is said. */
static struct conf *load(const char *given, char **out_path)
{
	struct buf problems = BUF_INIT;

	*out_path = conf_find(given);
	if (!*out_path) {
		cli_no_config();
		return NULL;
	}
	make_absolute(out_path);
	struct conf *conf = conf_load(*out_path, &problems);
	if (conf || access(*out_path, F_OK) == 0)
		fputs(buf_cstr(&problems), stderr);
	if (!conf)
		cli_bad_config(*out_path);
	buf_release(&problems);
	return conf;
}

int cmd_serve(const struct cli_args *args)
{
	struct shell_options options = { .record_path = cli_value(args, "record")->text,
		                         .paranoid = cli_value(args, "paranoid")->given };
	struct err err = { 0 };
	char *path;

	if (cli_value(args, "takeover")->given)
		return cli_fail(CLI_USAGE, "cotenant serve --help", "serve: --takeover is not built yet; stop the running "
		                                                    "daemon first");
	if (cli_value(args, "verbose")->given)
		log_set_level(LOG_LEVEL_DEBUG);
	/* Before anything else: the keeper is a copy of a process that has done nothing yet. */
	struct keeper *keeper = keeper_fork(&err);
	if (!keeper)
		return cli_fail(CLI_FAILED, NULL, "serve: %s", err.text);
	struct conf *conf = load(cli_value(args, "file")->text, &path);
	if (!conf) {
		keeper_close(keeper);
		free(path);
		return CLI_FAILED;
	}
	options.conf_path = path;
	struct shell *shell = xcalloc(1, sizeof(*shell));
	if (shell_open(shell, &options, conf, keeper, &err) < 0) {
		log_error("%s", err.text);
		/* The keeper sees our end of its socket close, and ends. */
		return CLI_FAILED;
	}
	int status = shell_run(shell);
	if (shell->lost) {
		fflush(NULL);
		_exit(status);
	}
	free(shell);
	free(path);
	return status;
}
