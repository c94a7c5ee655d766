#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "files.h"

/* Every key of the file, in one place. */
static const char everything[] =
	"x-note: anything goes here\n"
	"macros: {llama: llama-server, token: '${env.SECRET}'}\n"
	"listen: ['127.0.0.1:8778', '[::1]:8779', 'unix:/run/x.sock', 'localhost:0']\n"
	"memory:\n"
	"  limit: 24GiB\n"
	"  margin: 2.5%\n"
	"  reserve: 512MiB\n"
	"  compact: {when: auto, quiet: '03:00-05:00'}\n"
	"policy: lru\n"
	"limits: {models: 10, requests: 100, leases: 5}\n"
	"bodies: {each: 1MiB, memory: 2MiB, spill: 0}\n"
	"defaults: {unload_after: 90s, priority: background, stall_timeout: never, drain_timeout: 1m,\n"
	"           queue: 7, reply: 99, early_headers_after: 1500ms}\n"
	"adopt_window: 0s\n"
	"socket: {group: users, admin_group: wheel}\n"
	"hosts: [ai.lan, 10.0.0.5]\n"
	"cors: ['https://app.lan', 'http://localhost:3000']\n"
	"local_admin: true\n"
	"engines: {stable: {kind: llama-server, path: /opt/llama/bin/llama-server}}\n"
	"aliases: {fast: {models: [chat, other]}, coder: {model: chat, filters: {set: {}}}}\n"
	"sets: {}\n"
	"side_traffic: []\n"
	"peers: null\n"
	"inhibit_sleep: never\n"
	"models:\n"
	"  chat:\n"
	"    engine: stable\n"
	"    file: ~/models/chat.gguf\n"
	"    mmproj: mm/proj.gguf\n"
	"    draft: /m/draft.gguf\n"
	"    lora: [a.gguf, /b.gguf]\n"
	"    context: {min: 4096, max: 32768}\n"
	"    slots: 2\n"
	"    kv_type: q8_0\n"
	"    kv: fixed\n"
	"    kv_keep: 0\n"
	"    args: \"--flash-attn on --name 'a b' --${llama}\"\n"
	"    device: gpu\n"
	"    priority: interactive\n"
	"    weight: 2.25\n"
	"    pin: true\n"
	"    preload: true\n"
	"    autoload: false\n"
	"    unload_after: 30m\n"
	"    stall_timeout: 10s\n"
	"    start_timeout: 1h\n"
	"    drain_timeout: 20s\n"
	"    queue: 3\n"
	"    reply: 512\n"
	"    early_headers_after: 5s\n"
	"    aliases: [gpt-4o-mini, 'gpt-4*']\n"
	"    env: {HSA_OVERRIDE_GFX_VERSION: 11.5.1, TOKEN: '${token}'}\n"
	"    filters: {strip: [], set: {}}\n"
	"    experts: {}\n"
	"    on_disconnect: cancel\n"
	"    normalise: []\n"
	"    routes: {work: ['POST /tts'], look: ['GET /voices'], change: ['POST /voices']}\n"
	"    local: true\n"
	"    container: null\n"
	"    forward_auth: false\n"
	"    url: null\n"
	"    health: /ready\n"
	"    footprint: 12GiB\n"
	"  other:\n"
	"    engine: command\n"
	"    cmd: 'my-server --port ${PORT} --model ${MODEL} \"${FILE}\"'\n"
	"    context: 2048\n"
	"  'hf.co/x:y-z': {file: m.GGUF}\n"
	"api_keys:\n"
	"  - {key: '${env.SECRET}', name: laptop, role: admin, models: [chat, fast, gpt-4-x],\n"
	"     priority_max: normal, weight_max: 1.5, lease_max: 50%, requests_per_min: 0, parallel: 0,\n"
	"     tokens_per_day: 0}\n"
	"tls: null\n"
	"cluster: null\n";

static struct conf *load(const char *text)
{
	struct buf said = BUF_INIT;
	struct conf *conf = files_load_text(text, &said);

	assert_string_equal(buf_cstr(&said), "");
	assert_non_null(conf);
	buf_release(&said);
	return conf;
}

static void assert_strings(const struct conf_strings *strings, const char *joined)
{
	struct buf text = BUF_INIT;

	for (size_t i = 0; i < strings->count; i++)
		buf_printf(&text, "%s%s", i ? "|" : "", strings->items[i]);
	assert_string_equal(buf_cstr(&text), joined);
	buf_release(&text);
}

static void every_key_reaches_its_field(void **state)
{
	struct conf *conf = load(everything);
	(void)state;

	assert_int_equal(conf->listens, 4);
	assert_string_equal(conf->listen[0].host, "127.0.0.1");
	assert_int_equal(conf->listen[0].port, 8778);
	assert_true(conf->listen[0].loopback);
	assert_string_equal(conf->listen[1].host, "::1");
	assert_true(conf->listen[1].loopback);
	assert_null(conf->listen[2].host);
	assert_string_equal(conf->listen[2].path, "/run/x.sock");
	assert_string_equal(conf->listen[3].host, "127.0.0.1");
	assert_int_equal(conf->listen[3].port, 0);
	assert_int_equal(conf->memory_limit_bytes, INT64_C(24) << 30);
	assert_int_equal(conf->memory_margin_permille, 25);
	assert_int_equal(conf->memory_reserve_bytes, 512 << 20);
	assert_int_equal(conf->policy, 4);
	assert_int_equal(conf->limit_models, 10);
	assert_int_equal(conf->limit_requests, 100);
	assert_int_equal(conf->limit_leases, 5);
	assert_int_equal(conf->body_each_bytes, 1 << 20);
	assert_int_equal(conf->body_memory_bytes, 2 << 20);
	assert_int_equal(conf->body_spill_bytes, 0);
	assert_string_equal(conf->socket_group, "users");
	assert_string_equal(conf->socket_admin_group, "wheel");
	assert_strings(&conf->hosts, "ai.lan|10.0.0.5");
	assert_strings(&conf->cors, "https://app.lan|http://localhost:3000");
	assert_true(conf->local_admin);
	assert_int_equal(conf->engine_count, 1);
	assert_int_equal(conf->model_count, 3);
	assert_int_equal(conf->alias_count, 2);
	assert_strings(&conf->aliases[0].models, "chat|other");
	assert_strings(&conf->aliases[1].models, "chat");
	assert_int_equal(conf->key_count, 1);
	assert_string_equal(conf->keys[0].key, "s3cr3t-value");
	assert_string_equal(conf->keys[0].name, "laptop");
	assert_int_equal(conf->keys[0].role, CONF_ROLE_ADMIN);
	assert_strings(&conf->keys[0].models, "chat|fast|gpt-4-x");
	assert_int_equal(conf->keys[0].priority_max, 1);
	assert_int_equal(conf->keys[0].weight_max_milli, 1500);
	conf_free(conf);
}

static void every_key_of_a_model_reaches_its_field(void **state)
{
	struct conf *conf = load(everything);
	const struct conf_model *m = &conf->models[0];
	char *here = getcwd(NULL, 0), *beside = xasprintf("%s/mm/proj.gguf", here);
	char *loras = xasprintf("%s/a.gguf|/b.gguf", here);
	(void)state;

	assert_string_equal(m->name, "chat");
	assert_int_equal(m->at.line, 26);
	assert_true(m->file_at.line > 26 && m->file_at.column > m->at.column);
	assert_int_equal(m->engine, CONF_ENGINE_LLAMA_SERVER);
	assert_string_equal(m->engine_path, "/opt/llama/bin/llama-server");
	assert_string_equal(m->file, "/u/someone/models/chat.gguf");
	assert_string_equal(m->mmproj, beside);
	assert_string_equal(m->draft, "/m/draft.gguf");
	assert_strings(&m->lora, loras);
	assert_int_equal(m->context_min, 4096);
	assert_int_equal(m->context_max, 32768);
	assert_false(m->context_fixed);
	assert_int_equal(m->slots, 2);
	assert_true(m->slots_given);
	assert_string_equal(m->kv_type, "q8_0");
	assert_int_equal(m->kv, CONF_KV_FIXED);
	assert_strings(&m->args, "--flash-attn|on|--name|a b|--llama-server");
	assert_string_equal(m->device, "gpu");
	assert_int_equal(m->priority, 0);
	assert_int_equal(m->weight_milli, 2250);
	assert_true(m->pin && m->preload && !m->autoload && m->local);
	assert_int_equal(m->unload_after_us, INT64_C(1800000000));
	assert_int_equal(m->stall_timeout_us, 10000000);
	assert_int_equal(m->start_timeout_us, INT64_C(3600000000));
	assert_int_equal(m->drain_timeout_us, 20000000);
	assert_int_equal(m->queue, 3);
	assert_int_equal(m->reply_tokens, 512);
	assert_int_equal(m->early_headers_after_us, 5000000);
	assert_strings(&m->aliases, "gpt-4o-mini|gpt-4*");
	assert_int_equal(m->env.count, 2);
	assert_string_equal(m->env.items[0].value, "11.5.1");
	assert_string_equal(m->env.items[1].value, "s3cr3t-value");
	assert_strings(&m->routes_work, "POST /tts");
	assert_strings(&m->routes_look, "GET /voices");
	assert_strings(&m->routes_change, "POST /voices");
	assert_string_equal(m->health, "/ready");
	assert_int_equal(m->footprint_bytes, INT64_C(12) << 30);
	free(here);
	free(beside);
	free(loras);
	conf_free(conf);
}

static void what_is_left_out_comes_from_defaults(void **state)
{
	struct conf *conf = load(everything);
	const struct conf_model *m = &conf->models[1], *gguf = &conf->models[2];
	(void)state;

	assert_int_equal(m->engine, CONF_ENGINE_COMMAND);
	assert_null(m->file);
	assert_strings(&m->cmd_argv, "my-server|--port|${PORT}|--model|${MODEL}|${FILE}");
	assert_string_equal(m->cmd, "my-server --port ${PORT} --model ${MODEL} ${FILE}");
	assert_true(m->context_fixed);
	assert_int_equal(m->context_max, 2048);
	assert_int_equal(m->slots, 1);
	assert_false(m->slots_given);
	assert_int_equal(m->unload_after_us, 90000000);
	assert_int_equal(m->priority, 2);
	assert_int_equal(m->stall_timeout_us, CONF_NEVER);
	assert_int_equal(m->drain_timeout_us, 60000000);
	assert_int_equal(m->queue, 7);
	assert_int_equal(m->reply_tokens, 99);
	assert_int_equal(m->early_headers_after_us, 1500000);
	assert_string_equal(m->kv_type, "f16");
	assert_string_equal(m->health, "/health");
	assert_true(m->autoload);
	assert_int_equal(gguf->engine, CONF_ENGINE_LLAMA_SERVER);
	assert_string_equal(gguf->engine_name, "llama-server");
	assert_null(gguf->engine_path);
	assert_int_equal(gguf->context_max, CONF_AUTO);
	conf_free(conf);
}

static void an_empty_file_has_the_documented_defaults(void **state)
{
	struct buf said = BUF_INIT;
	struct conf *conf = files_load_text("", &said);
	(void)state;

	assert_non_null(conf);
	assert_non_null(strstr(buf_cstr(&said), "c.yaml:1:1: warning: models: there are none"));
	assert_int_equal(conf->listens, 1);
	assert_int_equal(conf->listen[0].port, 8778);
	assert_int_equal(conf->memory_limit_bytes, CONF_AUTO);
	assert_int_equal(conf->memory_margin_permille, CONF_AUTO);
	assert_int_equal(conf->memory_reserve_bytes, CONF_AUTO);
	assert_int_equal(conf->policy, 0);
	assert_int_equal(conf->limit_requests, 16384);
	assert_int_equal(conf->body_spill_bytes, INT64_C(4) << 30);
	assert_false(conf->local_admin);
	assert_null(conf->socket_group);
	buf_release(&said);
	conf_free(conf);
}

static void an_elastic_cache_beside_a_plain_context_is_told(void **state)
{
	struct buf said = BUF_INIT;
	struct conf *conf = files_load_text("models:\n"
	                                    "  a: {file: /m/x.gguf, kv: elastic, context: 16384}\n"
	                                    "  b: {file: /m/x.gguf, kv: elastic, context: {min: 4096, max: 16384}}\n"
	                                    "  c: {file: /m/x.gguf, context: 16384}\n", &said);
	(void)state;

	assert_non_null(conf);
	assert_non_null(strstr(buf_cstr(&said), "warning: models.a.context: a plain number stays as it is"));
	assert_non_null(strstr(buf_cstr(&said), "try: context: {min: 4096, max: 16384}"));
	assert_null(strstr(buf_cstr(&said), "models.b"));
	assert_null(strstr(buf_cstr(&said), "models.c"));
	buf_release(&said);
	conf_free(conf);
}

static void flags_that_keep_all_experts_are_told(void **state)
{
	struct buf said = BUF_INIT;
	struct conf *conf = files_load_text("models:\n"
	                                    "  a: {file: /m/x.gguf, experts: {resident: 1GiB}, args: \"--repack\"}\n"
	                                    "  b: {file: /m/x.gguf, experts: {resident: 1GiB}, args: \"-fa on -lm none\"}\n"
	                                    "  c: {file: /m/x.gguf, experts: {resident: 1GiB}, args: \"-lm mmap -t 2\"}\n"
	                                    "  d: {file: /m/x.gguf, args: \"--repack\"}\n", &said);
	(void)state;

	assert_non_null(conf);
	assert_non_null(strstr(buf_cstr(&said), "warning: models.a.args: with '--repack' all experts stay in memory"));
	assert_non_null(strstr(buf_cstr(&said), "models.b.args: with '-lm'"));
	assert_null(strstr(buf_cstr(&said), "models.c"));
	assert_null(strstr(buf_cstr(&said), "models.d"));
	buf_release(&said);
	conf_free(conf);
}

static void a_configuration_as_acceptance_writes_it_loads(void **state)
{
	struct conf *conf = load("listen: 127.0.0.1:18778\n"
	                         "memory: {limit: 300MiB, margin: 0%, reserve: 0}\n"
	                         "local_admin: true\n"
	                         "defaults: {unload_after: never, queue: 20000}\n"
	                         "models:\n"
	                         "  \"m 1\":\n"
	                         "    engine: command\n"
	                         "    cmd: \"/bin/fake --load 2 --host 127.0.0.1 --port ${PORT}\"\n"
	                         "    health: /health\n"
	                         "    footprint: 100MiB\n"
	                         "    slots: 5000\n"
	                         "    priority: batch\n"
	                         "  \"n\": {engine: llama-server, file: \"/m/x.gguf\", priority: normal, "
	                         "context: {min: 1024, max: 4096}, args: [\"-t\", \"2\"]}\n");
	(void)state;

	assert_int_equal(conf->memory_margin_permille, 0);
	assert_int_equal(conf->memory_reserve_bytes, 0);
	assert_int_equal(conf->models[0].queue, 20000);
	assert_int_equal(conf->models[0].unload_after_us, CONF_NEVER);
	assert_int_equal(conf->models[0].slots, 5000);
	assert_strings(&conf->models[1].args, "-t|2");
	conf_free(conf);
}

static void what_is_printed_loads_again_to_the_same(void **state)
{
	void (*const prints[])(const struct conf *, struct buf *) = { conf_print, conf_print_json };
	(void)state;

	for (size_t i = 0; i < 2; i++) {
		struct conf *conf = load(everything), *again;
		struct buf text = BUF_INIT, report = BUF_INIT, twice = BUF_INIT;
		prints[i](conf, &text);
		again = load(buf_cstr(&text));
		assert_int_equal(conf_compare(conf, again, &report), CONF_CHANGE_NONE);
		assert_string_equal(buf_cstr(&report), "");
		for (size_t j = 0; j < conf->model_count; j++)
			assert_true(conf_model_equal(&conf->models[j], &again->models[j]));
		prints[i](again, &twice);
		assert_string_equal(buf_cstr(&text), buf_cstr(&twice));
		buf_release(&text);
		buf_release(&twice);
		buf_release(&report);
		conf_free(conf);
		conf_free(again);
	}
}

static void awkward_texts_survive_printing(void **state)
{
	struct conf *conf = load("models:\n"
	                         "  \"caf\\u00e9 \\\"x\\\" \\\\ 'y' # \\U0001F600\":\n"
	                         "    cmd: ['a b', '', 'null', '~', '- x', 'a: b', \"t\\tn\\n\", "
	                         "'$${PORT}', '$${x}', '*', '0x1F', '1e5', '{']\n"
	                         "    env: {A: '', B: 'null', C: '$${PORT}', D: \"\\x85 \\xa0 \\u2028 \\ufeff\"}\n"
	                         "    aliases: ['*', 'true', '1']\n");
	struct conf *again;
	struct buf text = BUF_INIT;
	(void)state;

	conf_print(conf, &text);
	again = load(buf_cstr(&text));
	assert_int_equal(conf_compare(conf, again, NULL), CONF_CHANGE_NONE);
	assert_string_equal(again->models[0].cmd_argv.items[8], "${x}");
	assert_string_equal(again->models[0].env.items[2].value, "${PORT}");
	buf_release(&text);
	conf_free(conf);
	conf_free(again);
}

static void no_secret_is_printed(void **state)
{
	struct conf *conf = load("api_keys: [{key: plain-secret, name: a},\n"
	                         "           {key: 'mixed-${env.SECRET}', name: b},\n"
	                         "           {key: '${env.SECRET}', name: c}]\n"
	                         "macros: {t: 'pre-${env.SECRET}'}\n"
	                         "models: {x: {cmd: 'run ${t} ${PORT}', env: {T: '${env.SECRET}'}}}\n");
	struct buf text = BUF_INIT;
	(void)state;

	conf_print(conf, &text);
	conf_print_json(conf, &text);
	assert_null(strstr(buf_cstr(&text), "plain-secret"));
	assert_null(strstr(buf_cstr(&text), "mixed-"));
	assert_null(strstr(buf_cstr(&text), "s3cr3t"));
	assert_non_null(strstr(buf_cstr(&text), "{key: \"***\", name: a"));
	assert_non_null(strstr(buf_cstr(&text), "{key: \"${env.SECRET}\", name: c"));
	assert_non_null(strstr(buf_cstr(&text), "\"pre-${env.SECRET}\""));
	assert_string_equal(conf->keys[1].key, "mixed-s3cr3t-value");
	buf_release(&text);
	conf_free(conf);
}

static void a_file_without_a_telling_name_tells_its_engine(void **state)
{
	static const struct {
		const char *begin, *engine;
	} files[] = { { "lmgg rest", "whisper-server" }, { "GGUF rest", "llama-server" } };
	(void)state;

	for (size_t i = 0; i < 2; i++) {
		char path[] = "/tmp/conf-model-XXXXXX";
		int fd = mkstemp(path);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, files[i].begin, 9), 9);
		close(fd);
		char *yaml = xasprintf("models: {x: {file: %s}}\n", path);
		struct conf *conf = load(yaml);
		assert_string_equal(conf->models[0].engine_name, files[i].engine);
		conf_free(conf);
		free(yaml);
		unlink(path);
	}
}

static void what_depends_on_the_machine_is_said(void **state)
{
	struct conf *conf = load("models: {x: {file: x.gguf}}\n");
	struct buf text = BUF_INIT;
	(void)state;

	conf_print(conf, &text);
	assert_non_null(strstr(buf_cstr(&text), "    kv: lazy  # where the engine computes on the CPU"));
	buf_release(&text);
	conf_free(conf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_reaches_its_field),
		cmocka_unit_test(every_key_of_a_model_reaches_its_field),
		cmocka_unit_test(what_is_left_out_comes_from_defaults),
		cmocka_unit_test(an_empty_file_has_the_documented_defaults),
		cmocka_unit_test(a_configuration_as_acceptance_writes_it_loads),
		cmocka_unit_test(what_is_printed_loads_again_to_the_same),
		cmocka_unit_test(awkward_texts_survive_printing),
		cmocka_unit_test(an_elastic_cache_beside_a_plain_context_is_told),
		cmocka_unit_test(flags_that_keep_all_experts_are_told),
		cmocka_unit_test(no_secret_is_printed),
		cmocka_unit_test(a_file_without_a_telling_name_tells_its_engine),
		cmocka_unit_test(what_depends_on_the_machine_is_said),
	};

	return cmocka_run_group_tests_name("conf", tests, files_setup, files_teardown);
}
