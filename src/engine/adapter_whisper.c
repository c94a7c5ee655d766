/*
 * whisper-server. Measured with whisper.cpp 1.9.5.
 *
 * It binds its port only behind loading: until then a connection is refused, and
 * the first one that is taken can be answered. It computes one request at a time
 * and lets the others wait inside; told to end, it finishes that one first. It
 * translates where a field of the form says so.
 */
#include <errno.h>
#include <string.h>

#include "engine/adapter.h"

/* The one path it computes at is the one that OpenAI's clients use. */
#define INFERENCE "/v1/audio/transcriptions"

static const struct route_row routes[] = {
	{ .pattern = "POST " INFERENCE, .route = ROUTE_WORK },
	{ .pattern = "POST /audio/transcriptions", .route = ROUTE_WORK, .target = INFERENCE },
	{ .pattern = "POST /v1/audio/translations", .route = ROUTE_WORK, .target = INFERENCE,
	  .field = "translate=true" },
	{ .pattern = "POST /audio/translations", .route = ROUTE_WORK, .target = INFERENCE,
	  .field = "translate=true" },
	{ .pattern = "POST /inference", .route = ROUTE_WORK, .target = INFERENCE },
	{ .pattern = "GET /health", .route = ROUTE_LOOK },
	{ .pattern = "GET /", .route = ROUTE_LOOK },
	{ .pattern = "POST /load", .route = ROUTE_CHANGE },
};

static const struct load_stage stages[] = {
	{ "whisper_model_load: loading model", 30 },
	{ "whisper_model_load: n_mels", 60 },
	{ "whisper_model_load: model size", 900 },
	{ "whisper_init_state: kv self size", 930 },
	{ "whisper_init_state: compute buffer (decode)", 980 },
	{ NULL, 0 },
};

static const char *const ready_hints[] = { "whisper server listening", NULL };

static const char *const telling[] = {
	"error:", "ERROR", "failed to", "invalid model data", "couldn't bind", "GGML_ASSERT",
	"terminate called", "what():", "out of memory", "insufficient memory", "CUDA error", "ROCm error",
	NULL,
};

static const char *const hopeless[] = {
	"invalid model data", "not all tensors loaded", "failed to open", "unknown tensor", "wrong size in model file",
	"wrong shape in model file", "error: unknown argument", NULL,
};

static int address(const struct conf_model *model, enum address *out, struct err *err)
{
	(void)model;
	(void)err;
	*out = ADDRESS_LOOPBACK; /* it knows neither unix sockets nor keys */
	return 0;
}

static int command(const struct launch_request *request, struct words *argv, struct err *err)
{
	const struct conf_model *model = request->model;
	if (!model->file)
		return err_set(err, -EINVAL, "model '%s': whisper-server needs a `file`", model->name);

	words_add(argv, model->engine_path ? model->engine_path : "whisper-server");
	words_add(argv, "-m");
	words_add(argv, model->file);
	words_add(argv, "--host");
	words_add(argv, "127.0.0.1");
	words_add(argv, "--port");
	words_addf(argv, "%u", request->endpoint->port);
	words_add(argv, "--inference-path");
	words_add(argv, INFERENCE);
	/* Its own default is English; who names no language expects that it is heard. */
	launch_unless_given(model, argv, "-l --language", "-l", "auto");
	if (strcmp(model->device, "cpu") == 0)
		launch_unless_given(model, argv, "-ng --no-gpu", "-ng", NULL);
	else if (strcmp(model->device, "auto") != 0 && strcmp(model->device, "gpu") != 0)
		launch_unless_given(model, argv, "-dev --device", "-dev", model->device);
	launch_add(request, &model->args, argv);
	return 0;
}

const struct adapter adapter_whisper = {
	.kind = CONF_ENGINE_WHISPER_SERVER,
	.name = "whisper-server",
	.health_path = "/health",
	.drain = { .term_again_ms = 0, .kill_ms = 15000 },
	.log = { stages, ready_hints, telling, hopeless },
	.takes = "POST /v1/audio/transcriptions and /v1/audio/translations",
	.routes = routes,
	.route_count = sizeof(routes) / sizeof(routes[0]),
	.never_streams = true,
	.address = address,
	.command = command,
};
