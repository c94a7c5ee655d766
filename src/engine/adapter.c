#include "engine/adapter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "lazy/lazy.h"

const struct adapter *adapter_of(const struct conf_model *model)
{
	switch (model->engine) {
	case CONF_ENGINE_LLAMA_SERVER:
		return &adapter_llama;
	case CONF_ENGINE_WHISPER_SERVER:
		return &adapter_whisper;
	case CONF_ENGINE_SD_SERVER:
		return &adapter_sd;
	case CONF_ENGINE_COMMAND:
		return &adapter_command;
	case CONF_ENGINE_UNSET:
		return model->file && str_ends(str_from(model->file), ".gguf") ? &adapter_llama : NULL;
	case CONF_ENGINE_COMFYUI:
	case CONF_ENGINE_VLLM:
	case CONF_ENGINE_OLLAMA:
	case CONF_ENGINE_COUNT:
		break;
	}
	return NULL;
}

/*
 * An engine inherits our environment, as it would from a shell: drivers, caches
 * and libraries are steered that way. Not what is ours alone (our folders, the
 * service manager's variables) and nothing that is named like a secret; who
 * wants an engine to have one says so in the model's `env`.
 */
static bool may_inherit(struct str name)
{
	static const char *const ours[] = {
		"NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "JOURNAL_STREAM",
		"INVOCATION_ID", "WATCHDOG_USEC", "WATCHDOG_PID", "MAINPID", "STATE_DIRECTORY",
		"RUNTIME_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY", "CONFIGURATION_DIRECTORY",
		"CREDENTIALS_DIRECTORY",
	};
	static const char *const secrets[] = { "KEY", "KEYS", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS" };

	/* LLAMA_ARG_* would be flags that no estimate knows of; `args` is the place for them. */
	if (str_starts(name, "COTENANT_") || str_starts(name, "LLAMA_ARG_"))
		return false;
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (str_is(name, ours[i]))
			return false;
	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
		if (str_ends(name, secrets[i]))
			return false;
	return true;
}

static void inherit(struct words *env, const char *const *environment)
{
	for (; environment && *environment; environment++) {
		struct str value;
		struct str name = str_cut(str_from(*environment), '=', &value);
		if (!value.data || !may_inherit(name))
			continue;
		char *text = xstrndup(name.data, name.length);
		words_set(env, text, value.data);
		free(text);
	}
}

/* Ours first; what the user preloads stays. */
static void preload(const struct launch_request *request, struct words *env)
{
	struct buf list = BUF_INIT;

	buf_append_str(&list, str_from(request->lazy_library));
	for (const char *const *at = request->environment; at && *at; at++)
		if (strncmp(*at, "LD_PRELOAD=", 11) == 0 && (*at)[11])
			buf_printf(&list, ":%s", *at + 11);
	words_set(env, "LD_PRELOAD", buf_cstr(&list));
	words_set(env, LAZY_SOCKET_VARIABLE, request->lazy_socket);
	buf_release(&list);
}

/* Its weights are the file's own pages: with KV that follows use nothing large is left to touch. */
static bool maps_its_file(const struct conf_model *model)
{
	const struct conf_strings *args = &model->args;

	for (size_t i = 0; i + 1 < args->count; i++)
		if (strcmp(args->items[i], "-lm") == 0 || strcmp(args->items[i], "--load-mode") == 0)
			return strstr(args->items[i + 1], "mmap") != NULL;
	return model->experts_resident_bytes > 0;
}

#define SMALL_HEAP "glibc.malloc.mmap_threshold=4194304:glibc.malloc.arena_max=2"

static void make_environment(const struct launch_request *request, struct words *env)
{
	/* Threads that wait by spinning take the cores from the other engines: 100 times slower, measured. */
	words_set(env, "OMP_WAIT_POLICY", "passive");
	/* Else a crash starts a debugger, which takes seconds and memory. */
	words_set(env, "GGML_NO_BACKTRACE", "1");
	/*
	 * Huge pages for large buffers: touching gigabytes of weights and KV takes a tenth of the time. What is freed
	 * in large blocks goes back at once, and threads share two heaps: 48 MiB less for a 7B at rest, measured.
	 */
	bool touches = !request->lazy_library || !maps_its_file(request->model);
	words_set(env, "GLIBC_TUNABLES",
	          touches ? "glibc.malloc.hugetlb=1:" SMALL_HEAP : SMALL_HEAP);
	words_set(env, "PATH", "/usr/local/bin:/usr/bin:/bin");
	inherit(env, request->environment);
	if (request->lazy_library)
		preload(request, env);
	if (request->endpoint->key[0])
		words_set(env, "LLAMA_API_KEY", request->endpoint->key);
	for (size_t i = 0; i < request->model->env.count; i++)
		words_set(env, request->model->env.items[i].name, request->model->env.items[i].value);
}

int adapter_launch(const struct adapter *adapter, const struct launch_request *request,
                   struct launch *out, struct err *err)
{
	*out = (struct launch){ WORDS_INIT, WORDS_INIT };
	int code = adapter->command(request, &out->argv, err);
	if (code < 0) {
		launch_release(out);
		return code;
	}
	make_environment(request, &out->env);
	return 0;
}

void launch_release(struct launch *launch)
{
	words_release(&launch->argv);
	words_release(&launch->env);
}

/* The value of a name between ${ and }; false where it is none of ours. */
static bool append_value(const struct launch_request *request, struct str name, struct buf *out)
{
	if (str_is(name, "PORT"))
		buf_printf(out, "%u", request->endpoint->port);
	else if (str_is(name, "SOCKET"))
		buf_append_str(out, str_from(request->endpoint->path));
	else if (str_is(name, "MODEL"))
		buf_append_str(out, str_from(request->model->name));
	else if (str_is(name, "FILE"))
		buf_append_str(out, str_from(request->model->file ? request->model->file : ""));
	else
		return false;
	return true;
}

char *launch_expand(const struct launch_request *request, const char *text)
{
	struct buf out = BUF_INIT;

	while (*text) {
		const char *end = strncmp(text, "${", 2) == 0 ? strchr(text, '}') : NULL;
		struct str name = { text + 2, end ? (size_t)(end - text - 2) : 0 };
		if (end && append_value(request, name, &out))
			text = end + 1;
		else
			buf_append_char(&out, *text++);
	}
	char *result = xstrdup(buf_cstr(&out));
	buf_release(&out);
	return result;
}

void launch_add(const struct launch_request *request, const struct conf_strings *texts,
                struct words *argv)
{
	for (size_t i = 0; i < texts->count; i++) {
		char *text = launch_expand(request, texts->items[i]);
		words_add(argv, text);
		free(text);
	}
}

bool args_have(const struct conf_strings *args, const char *flags)
{
	struct str rest = str_from(flags);

	while (rest.data) {
		struct str flag = str_cut(rest, ' ', &rest);
		for (size_t i = 0; i < args->count; i++)
			if (str_is(flag, args->items[i]))
				return true;
	}
	return false;
}

void launch_unless_given(const struct conf_model *model, struct words *argv, const char *names,
                         const char *flag, const char *value)
{
	if (args_have(&model->args, names))
		return;
	words_add(argv, flag);
	if (value)
		words_add(argv, value);
}
