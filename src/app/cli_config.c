#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/value.h"
#include "app/catalogue.h"
#include "app/cli.h"
#include "app/cli_client.h"
#include "app/cli_json.h"
#include "conf/conf.h"

static const struct cli_option file_options[] = {
	{ "file", 'f', CLI_TEXT, "FILE", "the configuration, instead of the one that serve would find" },
	{ 0 },
};

#define WHERE_IT_LOOKS                                                                           \
	"Without -f the file is $COTENANT_CONFIG, else ./cotenant.yaml,\n"                       \
	"~/.config/cotenant/cotenant.yaml or /etc/cotenant/cotenant.yaml."

int cli_no_config(void)
{
	return cli_fail(CLI_FAILED, "cotenant init",
	                "there is no configuration: no $COTENANT_CONFIG, ./cotenant.yaml, "
	                "~/.config/cotenant/cotenant.yaml or /etc/cotenant/cotenant.yaml");
}

/* What is wrong was said, with its lines: there is nothing left but to mend it, or to write one. */
int cli_bad_config(const char *path)
{
	char command[300];
	struct stat file;

	if (stat(path, &file) == 0 && !S_ISREG(file.st_mode))
		return cli_fail(CLI_FAILED, "cotenant config --help", "%s is no file", path);
	if (access(path, F_OK) < 0) {
		snprintf(command, sizeof(command), "cotenant init -f %.200s", path);
		return cli_fail(CLI_FAILED, command, "%s is not there", path);
	}
	snprintf(command, sizeof(command), "${EDITOR:-vi} %.200s", path);
	return cli_fail(CLI_FAILED, command, "%s cannot be used as it is", path);
}

/* ---- check ---- */

static json_t *lines_json(struct buf *text)
{
	struct str rest = buf_str(text);
	json_t *lines = json_array();

	while (rest.length) {
		struct str line = str_cut(rest, '\n', &rest);
		if (line.length)
			json_array_append_new(lines, json_lossy(line));
	}
	return lines;
}

static void warn(struct buf *problems, const char *path, const struct conf_model *model,
                 const struct conf_place *at, const char *text)
{
	buf_printf(problems, "%s:%u:%u: warning: models.%s: %s\n", path, at->line, at->column, model->name, text);
}

/* What the configuration names must be there, but may still come: a warning each. */
static void look_at_files(const struct conf *conf, const char *path, struct buf *problems)
{
	const struct catalogue_ground ground = { .room_bytes = INT64_MAX, .files_alone = true };
	struct catalogue catalogue;
	struct err err;

	catalogue_build(conf, &ground, &catalogue);
	for (size_t i = 0; i < catalogue.count; i++) {
		const struct conf_model *model = &conf->models[i];
		if (!conf_is_outside(model) && catalogue_check_program(model, &err) < 0)
			warn(problems, path, model, &model->program_at, err.text);
		if (catalogue.rows[i].error[0])
			warn(problems, path, model, &model->file_at, catalogue.rows[i].error);
	}
	catalogue_release(&catalogue);
}

static int run_check(const struct cli_args *args)
{
	struct buf problems = BUF_INIT;

	char *path = conf_find(cli_value(args, "file")->text);
	if (!path)
		return cli_no_config();
	struct conf *conf = conf_load(path, &problems);
	if (conf)
		look_at_files(conf, path, &problems);
	if (args->json) {
		json_print(json_pack("{s:b, s:s, s:I, s:o}", "ok", conf != NULL, "file", path, "models",
		                     (json_int_t)(conf ? conf->model_count : 0), "problems",
		                     lines_json(&problems)));
	} else {
		cli_put(buf_cstr(&problems));
		if (conf)
			printf("%s: good, %zu model%s\n", path, conf->model_count,
			       conf->model_count == 1 ? "" : "s");
	}
	int code = conf ? CLI_DONE : cli_bad_config(path);
	conf_free(conf);
	buf_release(&problems);
	free(path);
	return code;
}

const struct cli_verb verb_check = {
	.name = "check",
	.operands = "",
	.summary = "whether the configuration is good, and where it is not",
	.help = "Reads the configuration and says every problem with file:line:column, what is wrong and\n"
	        "what to write instead; then looks at the files and programs that it names, and warns of\n"
	        "those that are not there or cannot be used. Needs no daemon. Exit code 1: it cannot be\n"
	        "used.\n" WHERE_IT_LOOKS
	        "\n\n"
	        "Examples:\n"
	        "  cotenant check -f cotenant.yaml\n"
	        "  cotenant check && cotenant reload",
	.options = file_options,
	.reads = true,
	.run = run_check,
};

/* ---- config ---- */

static const struct cli_option config_options[] = {
	{ "file", 'f', CLI_TEXT, "FILE", "the configuration, instead of the one that serve would find" },
	{ "running", 'r', CLI_FLAG, NULL, "what the daemon runs with, not what a file says" },
	{ 0 },
};

static int print_running(const struct cli_args *args)
{
	struct client_reply reply;
	const char *path = args->json ? "/api/v1/config" : "/api/v1/config?yaml=1";

	int code = client_ask(args, "GET", path, NULL, CLIENT_QUICK_MS, &reply);
	if (code != CLI_DONE)
		return code;
	if (reply.status == 200)
		cli_put(buf_cstr(&reply.body));
	else
		code = client_refused(args, &reply);
	buf_release(&reply.body);
	return code;
}

static int run_config(const struct cli_args *args)
{
	struct buf problems = BUF_INIT, text = BUF_INIT;

	char *path = conf_find(cli_value(args, "file")->text);
	if (cli_value(args, "running")->given || (!path && client_reachable(args))) {
		free(path);
		return print_running(args);
	}
	if (!path)
		return cli_no_config();
	struct conf *conf = conf_load(path, &problems);
	int code = CLI_DONE;
	if (!conf) {
		fputs(buf_cstr(&problems), stderr);
		code = cli_bad_config(path);
	} else {
		if (args->json)
			conf_print_json(conf, &text);
		else
			conf_print(conf, &text);
		cli_put(buf_cstr(&text));
	}
	conf_free(conf);
	buf_release(&problems);
	buf_release(&text);
	free(path);
	return code;
}

const struct cli_verb verb_config = {
	.name = "config",
	.operands = "",
	.summary = "the whole configuration as it takes effect, defaults included",
	.help = "Prints the configuration with every default filled in and secrets as ***. Where no file\n"
	        "is found it asks the daemon; --running always does.\n" WHERE_IT_LOOKS "\n\n"
	        "The least that such a file has is a model (doc/config.md has all keys):\n"
	        "  models:\n"
	        "    chat: {file: ~/models/NAME.gguf}\n\n"
	        "Examples:\n"
	        "  cotenant config -f cotenant.yaml\n"
	        "  cotenant config --running --json | jq .memory",
	.options = config_options,
	.reads = true,
	.asks = true,
	.run = run_config,
};
