#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/units.h"
#include "conf/check.h"
#include "conf/split.h"

static const struct choice *find_kind(const char *name)
{
	for (const struct choice *kind = schema_engine_kinds; kind->name; kind++)
		if (strcmp(kind->name, name) == 0)
			return kind;
	return NULL;
}

static const struct conf_named_engine *find_engine(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->engine_count; i++)
		if (strcmp(conf->engines[i].name, name) == 0)
			return &conf->engines[i];
	return NULL;
}

static const char *nearest_engine(const struct conf *conf, const char *name)
{
	const char *nearest = NULL;

	for (const struct choice *kind = schema_engine_kinds; kind->name; kind++)
		nearest = str_nearer(str_from(name), nearest, kind->name);
	for (size_t i = 0; i < conf->engine_count; i++)
		nearest = str_nearer(str_from(name), nearest, conf->engines[i].name);
	return nearest ? nearest : "llama-server or command";
}

/* The first bytes of a file tell, where its name does not. False: not there, or no file. */
static bool begins_with(const char *path, const char magic[4])
{
	char bytes[4];
	struct stat file;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return false;
	bool found = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
	             pread(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) &&
	             memcmp(bytes, magic, sizeof(bytes)) == 0;
	close(fd);
	return found;
}

static bool is_named(const char *path, const char *end)
{
	size_t length = strlen(path), wanted = strlen(end);

	return length > wanted && str_equal_nocase(str_from(path + length - wanted), str_from(end));
}

static bool is_folder(const char *path)
{
	struct stat file;

	return stat(path, &file) == 0 && S_ISDIR(file.st_mode);
}

const char *conf_engine_of_file(const char *path)
{
	if (is_named(path, ".gguf"))
		return "llama-server";
	if (is_named(path, ".safetensors"))
		return "sd-server";
	if (begins_with(path, "lmgg")) /* 0x67676d6c, as it lies in the file */
		return "whisper-server";
	return begins_with(path, "GGUF") ? "llama-server" : NULL;
}

/* False where it was not given and cannot be told. */
static bool tell_engine(struct conf_model *model, const struct node *node,
                        struct problems *problems)
{
	const char *engine = NULL;

	if (model->engine_name)
		return true;
	if (model->cmd_argv.count || model->url)
		engine = "command";
	else if (model->file)
		engine = conf_engine_of_file(model->file);
	if (engine) {
		model->engine_name = xstrdup(engine);
		return true;
	}
	if (model->file && is_folder(model->file))
		problem_error(problems, check_place(node, "file"),
		              "models.%s: '%s' is a folder; try: one of the files in it", model->name, model->file);
	else if (model->file)
		problem_error(problems, check_place(node, "file"),
		              "models.%s: the file does not tell which engine runs it; try: engine: "
		              "llama-server",
		              model->name);
	else
		problem_error(problems, check_place(node, ""),
		              "models.%s: neither file, cmd nor url; try: file: ~/models/NAME.gguf",
		              model->name);
	return false;
}

static bool settle_engine(const struct conf *conf, struct conf_model *model,
                          const struct node *node, struct problems *problems)
{
	struct place at = check_place(node, "engine");
	char said[EXCERPT];

	if (!tell_engine(model, node, problems))
		return false;
	const struct conf_named_engine *engine = find_engine(conf, model->engine_name);
	if (engine) {
		model->engine = engine->kind;
		model->engine_path = xstrdup(engine->path);
		return !find_kind(conf_engine_name(engine->kind))->unbuilt; /* that was told where it is named */
	}
	const struct choice *kind = find_kind(model->engine_name);
	if (!kind) {
		problem_error(problems, at, "models.%s.engine: no engine '%s'; try: %s", model->name,
		              excerpt(said, str_from(model->engine_name)),
		              nearest_engine(conf, model->engine_name));
		return false;
	}
	if (kind->unbuilt) {
		problem_unbuilt(problems, at,
		                "models.%s.engine: %s is not built yet in this version; try: %s",
		                model->name, kind->name, kind->unbuilt);
		return false;
	}
	model->engine = (enum conf_engine)kind->value;
	return true;
}

static bool any_has(const struct conf_strings *texts, const char *what)
{
	for (size_t i = 0; i < texts->count; i++)
		if (strstr(texts->items[i], what))
			return true;
	return false;
}

static bool is_told_where(const struct conf_model *model)
{
	return any_has(&model->cmd_argv, "${PORT}") || any_has(&model->cmd_argv, "${SOCKET}") ||
	       any_has(&model->args, "${PORT}") || any_has(&model->args, "${SOCKET}");
}

static void check_args(const struct conf_model *model, const struct node *node, struct problems *problems)
{
	const char *flag = conf_reserved_flag(model);

	if (flag)
		problem_error(problems, check_place(node, "args"),
		              "models.%s.args: '%s' is chosen for each start; try: leave it out", model->name, flag);
}

/* An argument that has every expert in plain memory; NULL: none has. */
static const char *keeps_experts(const struct conf_strings *args)
{
	for (size_t i = 0; i < args->count; i++) {
		const char *arg = args->items[i];
		bool mode = strcmp(arg, "-lm") == 0 || strcmp(arg, "--load-mode") == 0;
		if (strcmp(arg, "--repack") == 0 || strcmp(arg, "--mlock") == 0 || strcmp(arg, "--no-mmap") == 0)
			return arg;
		if (mode && i + 1 < args->count && strcmp(args->items[i + 1], "mmap") != 0)
			return arg;
	}
	return NULL;
}

static void check_experts(const struct conf_model *model, const struct node *node, struct problems *problems)
{
	const char *flag = model->experts_resident_bytes > 0 ? keeps_experts(&model->args) : NULL;

	if (flag)
		problem_warn(problems, check_place(node, "args"),
		             "models.%s.args: with '%s' all experts stay in memory, so experts: {resident} changes nothing; "
		             "try: leave it out", model->name, flag);
}

/* What the engine runs: a command or a file. */
static void check_source(const struct conf_model *model, const struct node *node,
                         struct problems *problems)
{
	bool command = model->engine == CONF_ENGINE_COMMAND;

	if (conf_is_outside(model))
		return;
	if (command && model->cmd_argv.count == 0)
		problem_error(problems, check_place(node, "engine"),
		              "models.%s: engine: command without cmd; try: cmd: \"my-server --port "
		              "${PORT}\"",
		              model->name);
	if (command && model->cmd_argv.count && !model->url && !is_told_where(model))
		problem_error(problems, check_place(node, "cmd"),
		              "models.%s.cmd: the program is not told where to listen; try: ${PORT} or "
		              "${SOCKET} in it, as in \"my-server --port ${PORT}\"",
		              model->name);
	if (!command && model->cmd_argv.count)
		problem_error(problems, check_place(node, "cmd"),
		              "models.%s.cmd: %s is started by its engine, not by a command; try: args, "
		              "or engine: command",
		              model->name, conf_engine_name(model->engine));
	if (!command && !model->file)
		problem_error(problems, check_place(node, "engine"),
		              "models.%s: %s without file; try: file: ~/models/NAME.gguf", model->name,
		              conf_engine_name(model->engine));
}

/* Would who connects there connect to one of our own listeners? */
static bool is_own_address(const struct conf *conf, struct str host, uint16_t port)
{
	bool is_local = str_is(host, "localhost") || str_is(host, "::1") || str_starts(host, "127.") ||
	                str_is(host, "0.0.0.0") || str_is(host, "::");

	for (size_t i = 0; i < conf->listens; i++) {
		const struct conf_listen *listen = &conf->listen[i];
		if (!listen->host || listen->port != port)
			continue;
		bool everywhere = strcmp(listen->host, "0.0.0.0") == 0 || strcmp(listen->host, "::") == 0;
		if (str_is(host, listen->host) || (is_local && (everywhere || (listen->loopback && str_is(host, "localhost")))))
			return true;
	}
	return false;
}

/* What is started here listens here. */
static void settle_url(const struct conf *conf, struct conf_model *model, const struct node *node,
                       struct problems *problems)
{
	struct str authority, name, port;
	uint64_t number = 80;

	if (!model->url)
		return;
	if (str_starts(str_from(model->url), "https://")) {
		problem_unbuilt(problems, check_place(node, "url"),
		                "models.%s.url: https to a server is not built yet in this version; try: http://HOST:PORT",
		                model->name);
		return;
	}
	authority = str_from(model->url + strlen("http://"));
	if (str_ends(authority, "/"))
		authority.length--;
	str_cut_port(authority, &name, &port);
	str_to_u64(port, &number);
	model->url_authority = xstrndup(authority.data, authority.length);
	model->url_host = xstrndup(name.data, name.length);
	model->url_port = (uint16_t)number;
	if (is_own_address(conf, name, model->url_port))
		problem_error(problems, check_place(node, "url"),
		              "models.%s.url: port %u is where this daemon itself listens, so requests would come "
		              "back to it; try: the port of the server that has the model",
		              model->name, model->url_port);
	bool here = str_is(name, "localhost") || str_is(name, "127.0.0.1");
	if (model->cmd_argv.count && !here)
		problem_error(problems, check_place(node, "url"),
		              "models.%s.url: cmd starts it on this machine, so it listens on 127.0.0.1; "
		              "try: http://127.0.0.1:%u",
		              model->name, model->url_port);
}

bool conf_is_outside(const struct conf_model *model)
{
	return model->url && !model->cmd_argv.count;
}

/* Engines that compute one request at a time: more would wait where nobody sees them. */
static void check_slots(const struct conf_model *model, const struct node *node,
                        struct problems *problems)
{
	bool one = model->engine == CONF_ENGINE_WHISPER_SERVER || model->engine == CONF_ENGINE_SD_SERVER;

	if (one && model->slots > 1)
		problem_error(problems, check_place(node, "slots"),
		              "models.%s.slots: %s computes one request at a time; try: slots: 1",
		              model->name, conf_engine_name(model->engine));
}

enum { CONTEXT_STEP = 256, ELASTIC_MIN = 4096 };

/* What it asks for beside it never comes. */
static void check_elastic(const struct conf_model *model, const struct node *node, struct problems *problems)
{
	int64_t most = model->context_max;

	if (model->engine != CONF_ENGINE_LLAMA_SERVER || !model->context_fixed || model->kv != CONF_KV_ELASTIC)
		return;
	problem_warn(problems, check_place(node, "context"),
	             "models.%s.context: a plain number stays as it is, so kv: elastic changes nothing; try: "
	             "context: {min: %lld, max: %lld}",
	             model->name, (long long)(most > ELASTIC_MIN ? ELASTIC_MIN : most / 2), (long long)most);
}

static void check_context(const struct conf_model *model, const struct node *node,
                          struct problems *problems)
{
	int64_t taken = (model->context_max + CONTEXT_STEP - 1) / CONTEXT_STEP * CONTEXT_STEP;

	if (model->engine == CONF_ENGINE_LLAMA_SERVER && model->context_fixed && taken != model->context_max)
		problem_warn(problems, check_place(node, "context"),
		             "models.%s.context: llama-server takes multiples of %d, so it will be %lld; try: "
		             "context: %lld",
		             model->name, CONTEXT_STEP, (long long)taken, (long long)taken);
	check_elastic(model, node, problems);
	if (model->context_max == CONF_AUTO || model->context_min <= model->context_max)
		return;
	problem_error(problems, check_place(node, "context"),
	              "models.%s.context: min %lld is more than max %lld; try: {min: %lld, max: %lld}",
	              model->name, (long long)model->context_min, (long long)model->context_max,
	              (long long)model->context_max, (long long)model->context_min);
}

/* For who looks later at what the entry names. */
static void settle_places(struct conf_model *model, const struct node *node)
{
	struct place file = check_place(node, "file");
	struct place program = check_place(node, model->cmd_argv.count ? "cmd" : "engine");

	model->file_at = (struct conf_place){ file.line, file.column };
	model->program_at = (struct conf_place){ program.line, program.column };
}

void check_model(struct conf *conf, struct conf_model *model, const struct node *node,
                 struct problems *problems)
{
	char size[UNITS_TEXT];

	if (model->cmd_argv.count) {
		struct buf line = BUF_INIT;
		split_join(&model->cmd_argv, &line);
		model->cmd = xstrndup(buf_cstr(&line), buf_length(&line));
		buf_release(&line);
	}
	settle_url(conf, model, node, problems);
	if (settle_engine(conf, model, node, problems)) {
		check_source(model, node, problems);
		check_args(model, node, problems);
	}
	settle_places(model, node);
	check_slots(model, node, problems);
	check_experts(model, node, problems);
	check_context(model, node, problems);
	if (conf->memory_limit_bytes != CONF_AUTO && !model->pin &&
	    model->footprint_bytes > conf->memory_limit_bytes)
		problem_warn(problems, check_place(node, "footprint"),
		             "models.%s.footprint: more than memory.limit, so it never loads; try: "
		             "limit: %s",
		             model->name, units_size(size, model->footprint_bytes));
}
