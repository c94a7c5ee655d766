#include "../cmocka_all.h"

#include <errno.h>
#include <string.h>

#include "engine/adapter.h"
#include "models.h"

static const struct endpoint unix_endpoint = { .path = "/run/c/engine-7.sock" };
static const struct endpoint tcp_endpoint = { .port = 4711, .key = "c0ffee" };

#define HEAP "glibc.malloc.mmap_threshold=4194304:glibc.malloc.arena_max=2"

static const char *joined(const struct words *words)
{
	static char text[8192];
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < words->count; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? " " : "", words->items[i]);
	return text;
}

static void assert_command(const char *yaml, const struct launch_request *rest, const char *wanted)
{
	struct conf *conf = conf_from(yaml);
	struct launch_request request = *rest;
	struct launch launch;
	struct err err = { 0 };

	request.model = &conf->models[0];
	const struct adapter *adapter = adapter_of(request.model);
	assert_non_null(adapter);
	if (adapter_launch(adapter, &request, &launch, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(joined(&launch.argv), wanted);
	assert_null(launch.argv.items[launch.argv.count]);
	launch_release(&launch);
	conf_free(conf);
}

static void llama_gets_its_share_of_everything(void **state)
{
	(void)state;
	assert_command("models: {chat: {engine: llama-server, file: /m/chat.gguf, slots: 2, context: 4096}}\n",
	               &(struct launch_request){ .slots = 2, .context_tokens = 4096, .endpoint = &unix_endpoint },
	               "llama-server -m /m/chat.gguf --host /run/c/engine-7.sock --alias chat -c 8192 -np 2 "
	               "-fit off --cache-ram 0 -ctxcp 3 -lm none --sse-ping-interval 1 --no-webui --slots --metrics -lv 4");
}

static void llama_s_settings_become_flags(void **state)
{
	(void)state;
	assert_command("engines: {mine: {kind: llama-server, path: /opt/llama}}\n"
	               "models: {chat: {engine: mine, file: /m/chat.gguf, slots: 3, context: 1000, kv_type: q8_0,"
	               " device: cpu, lora: [/l/a, /l/b], mmproj: /m/p, draft: /m/d}}\n",
	               &(struct launch_request){ .slots = 3, .context_tokens = 1000, .endpoint = &tcp_endpoint },
	               "/opt/llama -m /m/chat.gguf --mmproj /m/p -md /m/d --lora /l/a --lora /l/b --host 127.0.0.1 "
	               "--port 4711 --alias chat -c 3000 -np 3 -ctk q8_0 -ctv q8_0 -fa on -fit off --cache-ram 0 "
	               "-ctxcp 3 -lm none --device none --sse-ping-interval 1 --no-webui --slots --metrics -lv 4");
}

static void a_draft_is_named_where_the_build_wants_it(void **state)
{
	const char *yaml = "models: {chat: {engine: llama-server, file: /m/c.gguf, draft: /m/d}}\n";
	const char *told = "models: {chat: {engine: llama-server, file: /m/c.gguf, draft: /m/d, args: \"--spec-type none\"}}\n";
	struct launch_request request = { .slots = 1, .context_tokens = 64, .endpoint = &unix_endpoint };
	(void)state;

	assert_command(yaml, &request,
	               "llama-server -m /m/c.gguf -md /m/d --host /run/c/engine-7.sock --alias chat -c 64 -np 1 -fit off "
	               "--cache-ram 0 -ctxcp 3 -lm none --sse-ping-interval 1 --no-webui --slots --metrics -lv 4");
	request.tuning.drafts_when_told = true;
	assert_command(yaml, &request,
	               "llama-server -m /m/c.gguf -md /m/d --spec-type draft-simple --host /run/c/engine-7.sock --alias chat "
	               "-c 64 -np 1 -fit off --cache-ram 0 -ctxcp 3 -lm none --sse-ping-interval 1 --no-webui --slots "
	               "--metrics -lv 4");
	assert_command(told, &request,
	               "llama-server -m /m/c.gguf -md /m/d --host /run/c/engine-7.sock --alias chat -c 64 -np 1 -fit off "
	               "--cache-ram 0 -ctxcp 3 -lm none --sse-ping-interval 1 --no-webui --slots --metrics -lv 4 "
	               "--spec-type none");
}

static void whisper_listens_on_a_port_at_the_path_of_openai_s_clients(void **state)
{
	(void)state;
	assert_command("models: {stt: {engine: whisper-server, file: /m/w.bin, device: cpu, args: \"-t 3\"}}\n",
	               &(struct launch_request){ .slots = 1, .endpoint = &tcp_endpoint },
	               "whisper-server -m /m/w.bin --host 127.0.0.1 --port 4711 --inference-path "
	               "/v1/audio/transcriptions -l auto -ng -t 3");
	assert_command("models: {stt: {engine: whisper-server, file: /m/w.bin, device: \"1\", args: \"-l de\"}}\n",
	               &(struct launch_request){ .slots = 1, .endpoint = &tcp_endpoint },
	               "whisper-server -m /m/w.bin --host 127.0.0.1 --port 4711 --inference-path "
	               "/v1/audio/transcriptions -dev 1 -l de");
}

static void sd_server_is_told_its_parts(void **state)
{
	(void)state;
	assert_command("models: {image: {file: /m/sd.safetensors, args: \"--diffusion-fa\"}}\n",
	               &(struct launch_request){ .slots = 1, .endpoint = &tcp_endpoint },
	               "sd-server -m /m/sd.safetensors --listen-ip 127.0.0.1 --listen-port 4711 --diffusion-fa");
	assert_command("models: {image: {file: /m/sdxl.safetensors, args: \"--vae /m/ae\"}}\n",
	               &(struct launch_request){ .slots = 1, .endpoint = &tcp_endpoint },
	               "sd-server -m /m/sdxl.safetensors --listen-ip 127.0.0.1 --listen-port 4711 --vae /m/ae");
	assert_command("models: {image: {engine: sd-server, file: /m/flux.gguf, args: \"--vae /m/ae\"}}\n",
	               &(struct launch_request){ .slots = 1, .endpoint = &tcp_endpoint },
	               "sd-server --diffusion-model /m/flux.gguf --listen-ip 127.0.0.1 --listen-port 4711 --vae /m/ae");
}

static void what_the_user_gives_wins(void **state)
{
	(void)state;
	assert_command("models: {chat: {engine: llama-server, file: /m/chat.gguf, kv_type: q8_0,"
	               " args: \"--ctx-size 512 -fa off --mlock --cache-ram 100 -ctk f16 -v --slots\"}}\n",
	               &(struct launch_request){ .slots = 1, .context_tokens = 4096, .endpoint = &unix_endpoint },
	               "llama-server -m /m/chat.gguf --host /run/c/engine-7.sock --alias chat -np 1 -ctv q8_0 -fit off "
	               "-ctxcp 3 --sse-ping-interval 1 --no-webui --metrics "
	               "--ctx-size 512 -fa off --mlock --cache-ram 100 -ctk f16 -v --slots");
}

static void an_encoder_takes_a_text_in_one_piece(void **state)
{
	const char *yaml = "models: {embed: {engine: llama-server, file: /m/e.gguf}}\n";
	(void)state;

	assert_command(yaml,
	               &(struct launch_request){ .slots = 2, .context_tokens = 2048, .tuning = { .is_encoder = true },
	                                         .endpoint = &unix_endpoint },
	               "llama-server -m /m/e.gguf --host /run/c/engine-7.sock --alias embed -c 4096 -np 2 -b 2048 "
	               "-ub 2048 -fit off --cache-ram 0 -ctxcp 3 -lm none --embeddings --sse-ping-interval 1 --no-webui "
	               "--slots --metrics -lv 4");
	assert_command(yaml,
	               &(struct launch_request){ .slots = 1, .context_tokens = 512, .tuning = { .is_encoder = true },
	                                         .endpoint = &unix_endpoint },
	               "llama-server -m /m/e.gguf --host /run/c/engine-7.sock --alias embed -c 512 -np 1 -fit off "
	               "--cache-ram 0 -ctxcp 3 -lm none --embeddings --sse-ping-interval 1 --no-webui --slots --metrics -lv 4");
}

static void a_card_gets_as_many_layers_as_fit(void **state)
{
	const struct launch_request split = { .slots = 1, .context_tokens = 512, .endpoint = &unix_endpoint,
		                              .tuning = { .split = true, .gpu_layers = 23 } };
	(void)state;

	assert_command("models: {a: {engine: llama-server, file: /m/a.gguf}}\n", &split,
	               "llama-server -m /m/a.gguf --host /run/c/engine-7.sock --alias a -c 512 -np 1 -fit off "
	               "--cache-ram 0 -ctxcp 3 -lm none -ngl 23 --sse-ping-interval 1 --no-webui --slots --metrics -lv 4");
	/* Where not even one fits, there is no room for what a batch is computed with either. */
	struct launch_request none = split;
	none.tuning.gpu_layers = 0;
	assert_command("models: {a: {engine: llama-server, file: /m/a.gguf}}\n", &none,
	               "llama-server -m /m/a.gguf --host /run/c/engine-7.sock --alias a -c 512 -np 1 -fit off "
	               "--cache-ram 0 -ctxcp 3 -lm none --device none --sse-ping-interval 1 --no-webui --slots --metrics -lv 4");
	assert_command("models: {a: {engine: llama-server, file: /m/a.gguf, args: \"-ngl 7\"}}\n", &split,
	               "llama-server -m /m/a.gguf --host /run/c/engine-7.sock --alias a -c 512 -np 1 -fit off "
	               "--cache-ram 0 -ctxcp 3 -lm none --sse-ping-interval 1 --no-webui --slots --metrics -lv 4 -ngl 7");
}

static void experts_are_mapped_where_a_part_is_kept(void **state)
{
	const struct launch_request plain = { .slots = 1, .context_tokens = 512, .endpoint = &unix_endpoint,
		                              .tuning = { .plain = true } };
	(void)state;

	assert_command("models: {a: {engine: llama-server, file: /m/a.gguf, experts: {resident: 2GiB}}}\n",
	               &plain,
	               "llama-server -m /m/a.gguf --host /run/c/engine-7.sock --alias a -c 512 -np 1 -fit off "
	               "--cache-ram 0 -ctxcp 3 -lm mmap --cpu-moe --no-warmup --no-repack --sse-ping-interval 1 --no-webui "
	               "--slots --metrics -lv 4");
	assert_command("models: {a: {engine: llama-server, file: /m/a.gguf, args: \"--repack\"}}\n", &plain,
	               "llama-server -m /m/a.gguf --host /run/c/engine-7.sock --alias a -c 512 -np 1 -fit off "
	               "--cache-ram 0 -ctxcp 3 -lm none --sse-ping-interval 1 --no-webui --slots --metrics -lv 4 --repack");
}

static void a_command_is_told_where_to_listen(void **state)
{
	enum address address;
	(void)state;

	assert_command("models: {tts: {engine: command, footprint: 1GiB, file: /m/v.onnx,"
	               " cmd: \"prog '--name=${MODEL} x' --port ${PORT} ${FILE}\", args: \"-p ${PORT}\"}}\n",
	               &(struct launch_request){ .slots = 1, .endpoint = &tcp_endpoint },
	               "prog --name=tts x --port 4711 /m/v.onnx -p 4711");
	struct conf *conf = conf_from("models: {a: {engine: command, footprint: 1GiB, cmd: \"p ${PORT}\"},"
	                              " b: {engine: command, footprint: 1GiB, cmd: \"p -u ${SOCKET}\"}}\n");
	assert_int_equal(adapter_command.address(&conf->models[0], &address, NULL), 0);
	assert_int_equal(address, ADDRESS_LOOPBACK);
	assert_int_equal(adapter_command.address(&conf->models[1], &address, NULL), 0);
	assert_int_equal(address, ADDRESS_UNIX);
	conf_free(conf);

	struct conf_model model = { .name = (char *)(uintptr_t)"tts", .file = (char *)(uintptr_t)"/m/v.onnx" };
	struct endpoint endpoint = { .path = "/run/s", .port = 4711 };
	struct launch_request request = { .model = &model, .endpoint = &endpoint };
	char *text = launch_expand(&request, "--name=${MODEL} ${PORT}:${SOCKET}${FILE} ${ODD} $5 ${");
	assert_string_equal(text, "--name=tts 4711:/run/s/m/v.onnx ${ODD} $5 ${");
	free(text);
}

static void the_environment_holds_no_secret_of_ours(void **state)
{
	static const char *const ours[] = {
		"PATH=/usr/bin", "HOME=/root", "LANG=C.UTF-8", "COTENANT_KEY=secret", "AWS_SECRET=secret",
		"LLAMA_ARG_CTX_SIZE=1", "LC_ALL=C", "HF_HOME=/m", "HSA_OVERRIDE_GFX_VERSION=11",
		"OMP_WAIT_POLICY=active", "odd", "OPENAI_API_KEY=secret", NULL,
	};
	struct conf *conf = conf_from("models: {a: {engine: llama-server, file: /m/a.gguf,"
	                              " env: {LANG: de, MINE: \"at home\"}}}\n");
	struct launch_request request = {
		.model = &conf->models[0], .slots = 1, .endpoint = &tcp_endpoint, .environment = ours
	};
	struct launch launch;
	(void)state;

	assert_int_equal(adapter_launch(&adapter_llama, &request, &launch, NULL), 0);
	assert_string_equal(joined(&launch.env),
	                    "OMP_WAIT_POLICY=active GGML_NO_BACKTRACE=1 GLIBC_TUNABLES=glibc.malloc.hugetlb=1:" HEAP " "
	                    "PATH=/usr/bin HOME=/root LANG=de LC_ALL=C HF_HOME=/m HSA_OVERRIDE_GFX_VERSION=11 "
	                    "LLAMA_API_KEY=c0ffee MINE=at home");
	launch_release(&launch);
	request.endpoint = &unix_endpoint;
	request.environment = NULL;
	assert_int_equal(adapter_launch(&adapter_llama, &request, &launch, NULL), 0);
	assert_string_equal(joined(&launch.env),
	                    "OMP_WAIT_POLICY=passive GGML_NO_BACKTRACE=1 GLIBC_TUNABLES=glibc.malloc.hugetlb=1:" HEAP " "
	                    "PATH=/usr/local/bin:/usr/bin:/bin LANG=de MINE=at home");
	launch_release(&launch);
	conf_free(conf);
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(llama_gets_its_share_of_everything),
		cmocka_unit_test(llama_s_settings_become_flags),
		cmocka_unit_test(a_draft_is_named_where_the_build_wants_it),
		cmocka_unit_test(whisper_listens_on_a_port_at_the_path_of_openai_s_clients),
		cmocka_unit_test(sd_server_is_told_its_parts),
		cmocka_unit_test(what_the_user_gives_wins),
		cmocka_unit_test(an_encoder_takes_a_text_in_one_piece),
		cmocka_unit_test(a_card_gets_as_many_layers_as_fit),
		cmocka_unit_test(experts_are_mapped_where_a_part_is_kept),
		cmocka_unit_test(a_command_is_told_where_to_listen),
		cmocka_unit_test(the_environment_holds_no_secret_of_ours),
	};
	return cmocka_run_group_tests(all, NULL, NULL);
}
