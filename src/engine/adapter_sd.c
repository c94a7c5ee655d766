/*
 * sd-server of stable-diffusion.cpp. Measured with the sources of 0.4.7 of its
 * Python package.
 *
 * It binds its port only behind loading and has no health of its own; its list
 * of models answers as soon as it listens. It computes one picture at a time.
 *
 * Its asynchronous jobs go on when the POST that began them was answered; the
 * engine counts as busy until they are over. A job that computes cannot be given
 * up, one that waits can.
 */
#include <errno.h>
#include <string.h>

#include "engine/adapter.h"

static const struct job_rule jobs = {
	.path = "/sdcpp/v1/jobs/",
	.cancel = "/cancel",
	.runs = "\"completed\":null",
	.has_none = "\"result\":null",
};

static const struct route_row routes[] = {
	{ .pattern = "POST /v1/images/generations", .route = ROUTE_WORK },
	{ .pattern = "POST /v1/images/edits", .route = ROUTE_WORK },
	{ .pattern = "POST /sdapi/v1/txt2img", .route = ROUTE_WORK },
	{ .pattern = "POST /sdapi/v1/img2img", .route = ROUTE_WORK },
	{ .pattern = "GET /v1/models", .route = ROUTE_LOOK },
	{ .pattern = "GET /sdapi/v1/*", .route = ROUTE_LOOK },
	{ .pattern = "POST /sdcpp/v1/img_gen", .route = ROUTE_WORK, .begins = &jobs },
	{ .pattern = "POST /sdcpp/v1/vid_gen", .route = ROUTE_WORK, .begins = &jobs },
	{ .pattern = "GET /sdcpp/v1/jobs/*", .route = ROUTE_LOOK, .shows = &jobs },
	{ .pattern = "POST /sdcpp/v1/jobs/*", .route = ROUTE_LOOK, .acts = true, .shows = &jobs },
	{ .pattern = "GET /sdcpp/v1/*", .route = ROUTE_LOOK },
};

static const struct load_stage stages[] = {
	{ "loading model from", 30 },
	{ "loading diffusion model from", 30 },
	{ "Version: ", 60 },
	{ "loading tensors completed", 900 },
	{ "total params memory size", 950 },
	{ NULL, 0 },
};

static const char *const ready_hints[] = { "listening on: ", NULL };

static const char *const telling[] = {
	"[ERROR]", "GGML_ASSERT", "terminate called", "what():", "failed to", "out of memory", "bad_alloc",
	"insufficient memory", "CUDA error", "ROCm error", NULL,
};

static const char *const hopeless[] = {
	"unknown format", "init model loader from file failed", "get sd version from file failed",
	"not in model file", "tensor shape mismatch", "invalid parameter for argument", "unknown argument", NULL,
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
		return err_set(err, -EINVAL, "model '%s': sd-server needs a `file`", model->name);

	words_add(argv, model->engine_path ? model->engine_path : "sd-server");
	/*
	 * Where the parts lie in several files, `args` names the others and this one is the diffusion model.
	 * A checkpoint that is whole may have another decoder all the same.
	 */
	bool whole = str_ends(str_from(model->file), ".safetensors") || str_ends(str_from(model->file), ".ckpt");
	bool in_parts = args_have(&model->args, "--clip_l --clip_g --t5xxl --llm --qwen2vl") ||
	                (args_have(&model->args, "--vae") && !whole);
	words_add(argv, in_parts ? "--diffusion-model" : "-m");
	words_add(argv, model->file);
	words_add(argv, "--listen-ip");
	words_add(argv, "127.0.0.1");
	words_add(argv, "--listen-port");
	words_addf(argv, "%u", request->endpoint->port);
	launch_add(request, &model->args, argv);
	return 0;
}

const struct adapter adapter_sd = {
	.kind = CONF_ENGINE_SD_SERVER,
	.name = "sd-server",
	.health_path = "/v1/models",
	.drain = { .term_again_ms = 0, .kill_ms = 15000 },
	.log = { stages, ready_hints, telling, hopeless },
	.takes = "POST /v1/images/generations and /v1/images/edits",
	.routes = routes,
	.route_count = sizeof(routes) / sizeof(routes[0]),
	.makes_pictures = true,
	.never_streams = true,
	.address = address,
	.command = command,
};
