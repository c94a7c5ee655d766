#include "../cmocka_all.h"

#include <string.h>

#include "engine/routes.h"
#include "models.h"

static struct conf *conf;

static enum route llama(const char *method, const char *path)
{
	return route_of(&conf->models[0], str_from(method), str_from(path));
}

static enum route other(const char *method, const char *path)
{
	return route_of(&conf->models[1], str_from(method), str_from(path));
}

static int setup(void **state)
{
	(void)state;
	conf = conf_from("models:\n"
	                 "  chat: {engine: llama-server, file: /m/chat.gguf,"
	                 " routes: {work: [\"POST /extra\", \"PUT /more/*\"],"
	                 " look: [\"POST /peek\"], change: [\"GET /dangerous\"]}}\n"
	                 "  other: {engine: command, cmd: \"prog --port ${PORT}\", footprint: 1GiB}\n");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	conf_free(conf);
	return 0;
}

static void work_is_what_a_model_answers(void **state)
{
	static const char *const paths[] = {
		"/v1/chat/completions", "/chat/completions", "/v1/completions", "/completion", "/completions",
		"/infill", "/v1/embeddings", "/embedding", "/embeddings", "/v1/responses", "/v1/messages",
		"/v1/messages/count_tokens", "/v1/rerank", "/rerank", "/reranking", "/tokenize", "/detokenize",
		"/apply-template",
	};
	(void)state;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		assert_int_equal(llama("POST", paths[i]), ROUTE_WORK);
		assert_int_equal(llama("GET", paths[i]), ROUTE_LOOK);
	}
	assert_int_equal(llama("POST", "/v1/chat/completions?x=1"), ROUTE_WORK);
}

static void a_look_only_looks(void **state)
{
	static const char *const paths[] = { "/health", "/v1/health", "/props", "/metrics", "/slots",
		                             "/lora-adapters", "/v1/models", "/v1/models/x", "/anything" };
	(void)state;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		assert_int_equal(llama("GET", paths[i]), ROUTE_LOOK);
		assert_int_equal(llama("HEAD", paths[i]), ROUTE_LOOK);
		assert_int_equal(llama("OPTIONS", paths[i]), ROUTE_LOOK);
	}
}

static void what_alters_the_engine_or_is_unknown_is_a_change(void **state)
{
	(void)state;
	assert_int_equal(llama("POST", "/slots/0?action=erase"), ROUTE_CHANGE);
	assert_int_equal(llama("POST", "/lora-adapters"), ROUTE_CHANGE);
	assert_int_equal(llama("POST", "/props"), ROUTE_CHANGE);
	assert_int_equal(llama("POST", "/models/load"), ROUTE_CHANGE);
	assert_int_equal(llama("POST", "/models/unload"), ROUTE_CHANGE);
	assert_int_equal(llama("POST", "/what/is/this"), ROUTE_CHANGE);
	assert_int_equal(llama("DELETE", "/v1/models/x"), ROUTE_CHANGE);
	assert_int_equal(llama("POST", "/%73lots/0"), ROUTE_CHANGE);
	assert_int_equal(llama("POST", "/v1/chat/completions/"), ROUTE_CHANGE);
	assert_int_equal(llama("post", "/v1/chat/completions"), ROUTE_CHANGE);
	assert_int_equal(llama("PUT", "/v1/chat/completions"), ROUTE_CHANGE);
}

static void a_model_s_own_routes_come_first(void **state)
{
	(void)state;
	assert_int_equal(llama("POST", "/extra"), ROUTE_WORK);
	assert_int_equal(llama("PUT", "/more/x"), ROUTE_WORK);
	assert_int_equal(llama("PUT", "/more/"), ROUTE_CHANGE);
	assert_int_equal(llama("POST", "/peek"), ROUTE_LOOK);
	assert_int_equal(llama("GET", "/dangerous"), ROUTE_CHANGE);
}

static void a_command_works_by_post_and_looks_by_get(void **state)
{
	(void)state;
	assert_int_equal(other("POST", "/tts"), ROUTE_WORK);
	assert_int_equal(other("GET", "/voices"), ROUTE_LOOK);
	assert_int_equal(other("DELETE", "/voices"), ROUTE_CHANGE);
}

static void speech_has_one_path_and_more_names_for_it(void **state)
{
	struct conf *speech = conf_from("models: {stt: {engine: whisper-server, file: /m/w.bin}}\n");
	const struct conf_model *model = &speech->models[0];
	(void)state;

	assert_int_equal(route_of(model, STR("POST"), STR("/v1/audio/transcriptions")), ROUTE_WORK);
	assert_int_equal(route_of(model, STR("POST"), STR("/inference?model=stt")), ROUTE_WORK);
	assert_int_equal(route_of(model, STR("POST"), STR("/load")), ROUTE_CHANGE);
	assert_int_equal(route_of(model, STR("GET"), STR("/health")), ROUTE_LOOK);
	assert_true(str_is(route_target(model, STR("POST"), STR("/inference")), "/v1/audio/transcriptions"));
	assert_true(str_is(route_target(model, STR("GET"), STR("/health")), "/health"));
	assert_true(str_is(route_target(model, STR("POST"), STR("/v1/audio/translations")), "/v1/audio/transcriptions"));
	conf_free(speech);
}

static void a_job_outlives_its_request(void **state)
{
	struct conf *images = conf_from("models: {image: {file: /m/sd.safetensors}}\n");
	const struct conf_model *model = &images->models[0];
	(void)state;

	assert_int_equal(route_of(model, STR("POST"), STR("/v1/images/generations")), ROUTE_WORK);
	assert_int_equal(route_of(model, STR("POST"), STR("/v1/images/edits")), ROUTE_WORK);
	assert_int_equal(route_of(model, STR("POST"), STR("/sdapi/v1/txt2img")), ROUTE_WORK);
	assert_int_equal(route_of(model, STR("POST"), STR("/sdcpp/v1/img_gen")), ROUTE_WORK);
	assert_non_null(route_find(model, STR("POST"), STR("/sdcpp/v1/img_gen")).begins);
	assert_null(route_find(model, STR("POST"), STR("/sdapi/v1/txt2img")).begins);
	assert_true(route_find(model, STR("POST"), STR("/sdcpp/v1/jobs/x/cancel")).acts);
	assert_int_equal(route_of(model, STR("POST"), STR("/sdcpp/v1/jobs/x/cancel")), ROUTE_LOOK);
	assert_int_equal(route_of(model, STR("POST"), STR("/sdapi/v1/options")), ROUTE_CHANGE);
	assert_int_equal(route_of(model, STR("GET"), STR("/sdcpp/v1/capabilities")), ROUTE_LOOK);
	conf_free(images);
}

static void counting_tokens_stands_back(void **state)
{
	const struct conf_model *model = &conf->models[0];
	(void)state;

	assert_true(route_is_background(model, STR("POST"), STR("/tokenize")));
	assert_true(route_is_background(model, STR("POST"), STR("/v1/messages/count_tokens")));
	assert_true(route_is_background(model, STR("POST"), STR("/apply-template?a")));
	assert_false(route_is_background(model, STR("POST"), STR("/v1/messages")));
	assert_false(route_is_background(model, STR("GET"), STR("/tokenize")));
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(work_is_what_a_model_answers),
		cmocka_unit_test(a_look_only_looks),
		cmocka_unit_test(what_alters_the_engine_or_is_unknown_is_a_change),
		cmocka_unit_test(a_model_s_own_routes_come_first),
		cmocka_unit_test(a_command_works_by_post_and_looks_by_get),
		cmocka_unit_test(speech_has_one_path_and_more_names_for_it),
		cmocka_unit_test(a_job_outlives_its_request),
		cmocka_unit_test(counting_tokens_stands_back),
	};
	return cmocka_run_group_tests(all, setup, teardown);
}
