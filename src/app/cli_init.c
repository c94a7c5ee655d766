#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/value.h"
#include "app/catalogue.h"
#include "app/cli.h"
#include "app/cli_json.h"
#include "base/alloc.h"
#include "conf/text.h"
#include "estimate/estimate.h"
#include "http/utf8.h"

/*
 * init - a first configuration, from the model files that are there.
 *
 * It writes down what a person would: each file under a name, nothing else, for
 * everything else has a default. It never touches a file that exists.
 */
enum { MODELS_MOST = 200, DEPTH_MOST = 4 };

struct found {
	char *path[MODELS_MOST];
	int count;
	bool more;    /* there were too many */
	int unnamed;  /* left out: YAML cannot hold their names */
	json_t *broken; /* left out: by their names models, and none by what they hold; each with why */
};

static const struct cli_option init_options[] = {
	{ "file", 'f', CLI_TEXT, "FILE", "where to write it (./cotenant.yaml)" },
	{ 0 },
};

/* Parts beside a model (projectors, adapters, the further pieces of one that is split) are no models. */
static bool is_model(const char *name, const char *path)
{
	static const char *const parts[] = { "mmproj", "adapter", "model.safetensors" };

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (str_starts(str_from(name), parts[i]))
			return false;
	if (strstr(name, "mmproj"))
		return false;
	if (strstr(name, "-of-") && (!strstr(name, "-00001-of-") || !str_ends(str_from(name), ".gguf")))
		return false;
	return conf_engine_of_file(path) != NULL;
}

static bool is_utf8(const char *text)
{
	size_t count = strlen(text), at = 0, length;

	while (at < count && (length = utf8_length(text + at, count - at)) > 0)
		at += length;
	return at == count;
}

/* Links to files are followed, as some caches keep them; links to folders are not, as they may go in circles. */
static void search(const char *folder, int depth, struct found *found)
{
	DIR *dir = depth < DEPTH_MOST ? opendir(folder) : NULL;

	if (!dir)
		return;
	for (struct dirent *entry; (entry = readdir(dir));) {
		struct stat file, link;
		char *path = xasprintf("%s/%s", folder, entry->d_name);
		bool there = entry->d_name[0] != '.' && stat(path, &file) == 0 && lstat(path, &link) == 0;
		if (there && S_ISDIR(link.st_mode))
			search(path, depth + 1, found);
		if (!there || !S_ISREG(file.st_mode) || !is_model(entry->d_name, path)) {
			free(path);
		} else if (!is_utf8(path)) {
			found->unnamed++;
			free(path);
		} else if (found->count == MODELS_MOST) {
			found->more = true;
			free(path);
		} else {
			found->path[found->count++] = path;
		}
	}
	closedir(dir);
}

/* Is it one by what it holds? Says why not. */
static bool can_be_read(const char *path, json_t *broken)
{
	struct estimate_params params;
	struct estimate estimate;
	struct err err = { 0 };

	estimate_defaults(&params);
	if (estimate_file(path, &params, &estimate, &err) == 0 && estimate.missing_bytes > 0)
		err_set(&err, -ENODATA, "%s is cut short: %lld bytes are missing", path, (long long)estimate.missing_bytes);
	if (!err.text[0])
		return true;
	fprintf(stderr, "left out: %s\n", err.text);
	json_array_append_new(broken, json_pack("{s:o, s:o}", "file", json_lossy(str_from(path)), "why",
	                                        json_lossy(str_from(err.text))));
	return false;
}

static void leave_broken_out(struct found *found)
{
	int kept = 0;

	for (int i = 0; i < found->count; i++) {
		if (can_be_read(found->path[i], found->broken))
			found->path[kept++] = found->path[i];
		else
			free(found->path[i]);
	}
	found->count = kept;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In order, and each once: folders that were named may lie in each other. */
static void settle(struct found *found)
{
	int kept = 0;

	qsort(found->path, (size_t)found->count, sizeof(found->path[0]), by_path);
	for (int i = 0; i < found->count; i++) {
		if (kept && strcmp(found->path[kept - 1], found->path[i]) == 0)
			free(found->path[i]);
		else
			found->path[kept++] = found->path[i];
	}
	found->count = kept;
}

/* Where people keep models, so far as it is there; returns what was looked at, for a refusal. */
static const char *search_usual(struct found *found)
{
	static const char *const usual[] = { "models", ".cache/llama.cpp", ".lmstudio/models" };
	const char *home = getenv("HOME");

	for (size_t i = 0; home && *home && i < sizeof(usual) / sizeof(usual[0]); i++) {
		char *folder = xasprintf("%s/%s", home, usual[i]);
		search(folder, 0, found);
		free(folder);
	}
	search("/var/lib/models", 0, found);
	return "~/models, ~/.cache/llama.cpp, ~/.lmstudio/models and /var/lib/models";
}

/* "Qwen2.5-7B-Instruct-Q4_K_M-00001-of-00002.gguf" -> "qwen2.5-7b-instruct-q4_k_m". */
static void name_of_file(const char *path, char *out, size_t out_bytes)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	const char *piece = strstr(base, "-00001-of-"), *dot = strrchr(base, '.');
	const char *end = piece ? piece : dot && dot > base ? dot : base + strlen(base);

	str_copy(out, out_bytes, (struct str){ base, (size_t)(end - base) });
	for (char *at = out; *at; at++) {
		bool upper = *at >= 'A' && *at <= 'Z';
		bool keeps = (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || strchr("._-", *at);
		*at = upper ? (char)(*at - 'A' + 'a') : keeps ? *at : '-';
	}
	size_t dashes = strspn(out, "-"); /* a name begins with none */
	memmove(out, out + dashes, strlen(out + dashes) + 1);
	if (!*out)
		str_copy(out, out_bytes, STR("model"));
}

static bool is_taken(char (*names)[80], int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* "${" in a name is no macro. */
static void put_path(const char *path, struct buf *out)
{
	struct buf text = BUF_INIT;

	for (; *path; path++) {
		if (path[0] == '$' && path[1] == '{')
			buf_append_char(&text, '$');
		buf_append_char(&text, *path);
	}
	text_quote(buf_str(&text), out);
	buf_release(&text);
}

static void write_down(const struct found *found, struct buf *out)
{
	char(*names)[80] = xcalloc(MODELS_MOST, sizeof(*names));

	buf_printf(out, "# Written by cotenant init. All else has a default: cotenant config prints it.\n"
	                "listen: 127.0.0.1:8778\n"
	                "models:\n");
	for (int i = 0; i < found->count; i++) {
		char base[72];
		name_of_file(found->path[i], base, sizeof(base));
		str_copy(names[i], sizeof(names[i]), str_from(base));
		for (int k = 2; is_taken(names, i, names[i]); k++)
			snprintf(names[i], sizeof(names[i]), "%s-%d", base, k);
		buf_printf(out, "  ");
		text_quote(str_from(names[i]), out);
		buf_printf(out, ": {file: ");
		put_path(found->path[i], out);
		buf_printf(out, "}\n");
	}
	free(names);
}

/* 0, or a negative errno. Nothing that exists is written to. */
static int create(const char *path, struct str text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int code = fd < 0 ? -errno : 0;

	for (size_t done = 0; code == 0 && done < text.length;) {
		ssize_t written = write(fd, text.data + done, text.length - done);
		if (written < 0 && errno != EINTR)
			code = -errno;
		done += written > 0 ? (size_t)written : 0;
	}
	if (fd >= 0 && close(fd) < 0 && code == 0)
		code = -errno;
	if (fd >= 0 && code)
		unlink(path);
	return code;
}

/* One for each kind of engine whose program is missing, not one for each model. */
static json_t *missing_programs(const struct conf *conf)
{
	json_t *missing = json_array();
	struct err err;

	for (size_t i = 0; i < conf->model_count; i++) {
		const char *engine = conf->models[i].engine_name;
		size_t first = 0;
		while (strcmp(conf->models[first].engine_name, engine) != 0)
			first++;
		if (first == i && catalogue_check_program(&conf->models[i], &err) < 0)
			json_array_append_new(missing, json_lossy(str_from(err.text)));
	}
	return missing;
}

/* What was written, as serve will read it. */
static json_t *written_json(const char *path, const struct conf *conf, const struct found *found)
{
	json_t *models = json_array();

	for (size_t i = 0; i < conf->model_count; i++)
		json_array_append_new(models, json_pack("{s:o, s:s, s:o}", "name", json_lossy(str_from(conf->models[i].name)),
		                                        "engine", conf->models[i].engine_name, "file",
		                                        json_lossy(str_from(conf->models[i].file))));
	return json_pack("{s:o, s:o, s:O, s:i, s:b, s:o}", "file", json_lossy(str_from(path)), "models", models, "left_out",
	                 found->broken, "unnamed", found->unnamed, "more", found->more, "missing", missing_programs(conf));
}

static void print_written(const char *path, const json_t *json)
{
	json_t *models = json_object_get(json, "models"), *item;
	size_t count = json_array_size(models), i;

	printf("%s: %zu model%s%s\n", path, count, count == 1 ? "" : "s",
	       json_yes(json, "more") ? ", as many as are taken at once" : "");
	int64_t unnamed = json_int(json, "unnamed");
	if (unnamed)
		printf("left out: %lld file%s whose name is not UTF-8, which a configuration cannot hold\n", (long long)unnamed,
		       unnamed == 1 ? "" : "s");
	json_array_foreach(models, i, item)
		printf("  %-40s %s\n", json_text(item, "name"), json_text(item, "engine"));
	json_array_foreach(json_object_get(json, "missing"), i, item)
		printf("missing: %s\n", json_string_value(item));
	printf("next: cotenant check -f %s && cotenant serve -f %s\n", path, path);
}

static int tell(const struct cli_args *args, const char *path, const struct found *found)
{
	struct buf problems = BUF_INIT;
	struct conf *conf = conf_load(path, &problems);
	int code = conf ? CLI_DONE : CLI_FAILED;

	fputs(buf_cstr(&problems), stderr);
	buf_release(&problems);
	if (!conf)
		return code;
	json_t *json = written_json(path, conf, found);
	conf_free(conf);
	if (args->json)
		return json_print(json);
	print_written(path, json);
	json_decref(json);
	return code;
}

static int write_config(const struct cli_args *args, const char *path, const struct found *found)
{
	struct buf text = BUF_INIT;
	char command[PATH_MAX + 32];

	write_down(found, &text);
	int code = create(path, buf_str(&text));
	buf_release(&text);
	snprintf(command, sizeof(command), code == -EEXIST ? "cotenant check -f %s" : "cotenant init -f FILE", path);
	if (code == -EEXIST)
		return cli_fail(CLI_FAILED, command, "%s is there already, and stays as it is", path);
	if (code < 0)
		return cli_fail(CLI_FAILED, command, "%s cannot be written: %s", path, strerror(-code));
	return tell(args, path, found);
}

/* CLI_DONE, or what is wrong with a folder that was named, said. */
static int look_at_folder(const char *name)
{
	struct stat file;
	char command[PATH_MAX + 32];

	if (stat(name, &file) < 0 && (errno == ENOENT || errno == ENOTDIR))
		return cli_fail(CLI_FAILED, "cotenant init DIR", "%s is not there", name);
	if (stat(name, &file) == 0 && !S_ISDIR(file.st_mode)) {
		const char *slash = strrchr(name, '/');
		int length = slash ? slash == name ? 1 : (int)(slash - name) : 1;
		snprintf(command, sizeof(command), "cotenant init %.*s", length, slash ? name : ".");
		return cli_fail(CLI_FAILED, command, "%s is a file; init takes the folder that it is in", name);
	}
	if (access(name, R_OK | X_OK) < 0)
		return cli_fail(CLI_FAILED, "cotenant init DIR", "%s cannot be read: %s", name, strerror(errno));
	return CLI_DONE;
}

static int run_init(const struct cli_args *args)
{
	const char *file = cli_value(args, "file")->text;
	const char *looked = args->operands ? args->operand[0] : NULL;
	char whole[PATH_MAX];

	for (int i = 0; i < args->operands; i++)
		if (look_at_folder(args->operand[i]) != CLI_DONE)
			return CLI_FAILED;
	struct found *found = xcalloc(1, sizeof(*found));
	found->broken = json_array();
	for (int i = 0; i < args->operands; i++)
		if (realpath(args->operand[i], whole))
			search(whole, 0, found);
	if (args->operands == 0)
		looked = search_usual(found);
	settle(found);
	leave_broken_out(found);
	int code = CLI_DONE;
	if (found->count)
		code = write_config(args, file ? file : "cotenant.yaml", found);
	else if (json_array_size(found->broken))
		code = cli_fail(CLI_FAILED, "cotenant init DIR", "no model file in %s can be used", looked);
	else
		code = cli_fail(CLI_FAILED, "cotenant init DIR", "there are no model files (.gguf, .safetensors, whisper's "
		                "ggml-*.bin) in %s or the folders below it", looked);
	for (int i = 0; i < found->count; i++)
		free(found->path[i]);
	json_decref(found->broken);
	free(found);
	return code;
}

const struct cli_verb verb_init = {
	.name = "init",
	.operands = "[DIR...]",
	.summary = "write a first configuration from the model files that are there",
	.help = "Looks for model files in DIR and the folders below it, else in ~/models, ~/.cache/llama.cpp,\n"
	        "~/.lmstudio/models and /var/lib/models, and writes a configuration with one model for each,\n"
	        "named after its file. What cannot be read as a model is left out, and said. A configuration that is\n"
	        "there already stays as it is.\n\n"
	        "By hand the least is (doc/config.md has all keys):\n"
	        "  models:\n"
	        "    chat: {file: ~/models/NAME.gguf}\n\n"
	        "Examples:\n"
	        "  cotenant init && cotenant serve\n"
	        "  cotenant init ~/models /data/gguf -f other.yaml",
	.options = init_options,
	.most = CLI_OPERANDS_MAX,
	.reads = true,
	.run = run_init,
};
