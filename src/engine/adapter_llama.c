/*
 * llama-server. Measured with 0.7.0 (build 11669).
 */
#include <errno.h>
#include <string.h>

#include "engine/adapter.h"
#include "estimate/estimate.h"

/* Of what no template is put around. */
#define TEXTS_COUNTED .counts = "/tokenize", .counts_texts = true

static const struct route_row routes[] = {
	{ .pattern = "POST /v1/chat/completions", .route = ROUTE_WORK, .makes = MAKES_TEXT,
	  .counts = "/v1/chat/completions/input_tokens" },
	{ .pattern = "POST /chat/completions", .route = ROUTE_WORK, .makes = MAKES_TEXT,
	  .counts = "/v1/chat/completions/input_tokens" },
	{ .pattern = "POST /api/chat", .route = ROUTE_WORK, .makes = MAKES_TEXT,
	  .counts = "/v1/chat/completions/input_tokens" },
	{ .pattern = "POST /v1/completions", .route = ROUTE_WORK, .makes = MAKES_TEXT, TEXTS_COUNTED },
	{ .pattern = "POST /completions", .route = ROUTE_WORK, .makes = MAKES_TEXT, TEXTS_COUNTED },
	{ .pattern = "POST /completion", .route = ROUTE_WORK, .makes = MAKES_TEXT, TEXTS_COUNTED },
	/* It reads names of special tokens in "prompt" alone; taken for words there too, they are more. */
	{ .pattern = "POST /infill", .route = ROUTE_WORK, .makes = MAKES_TEXT, TEXTS_COUNTED, .plain_texts = true },
	{ .pattern = "POST /v1/responses", .route = ROUTE_WORK, .makes = MAKES_TEXT,
	  .counts = "/v1/responses/input_tokens" },
	{ .pattern = "POST /responses", .route = ROUTE_WORK, .makes = MAKES_TEXT,
	  .counts = "/v1/responses/input_tokens" },
	{ .pattern = "POST /v1/messages", .route = ROUTE_WORK, .makes = MAKES_TEXT,
	  .counts = "/v1/messages/count_tokens" },
	{ .pattern = "POST /v1/embeddings", .route = ROUTE_WORK, .makes = MAKES_VECTORS },
	{ .pattern = "POST /embeddings", .route = ROUTE_WORK, .makes = MAKES_VECTORS },
	{ .pattern = "POST /embedding", .route = ROUTE_WORK, .makes = MAKES_VECTORS },
	{ .pattern = "POST /v1/rerank", .route = ROUTE_WORK, .makes = MAKES_VECTORS },
	{ .pattern = "POST /v1/reranking", .route = ROUTE_WORK, .makes = MAKES_VECTORS },
	{ .pattern = "POST /rerank", .route = ROUTE_WORK, .makes = MAKES_VECTORS },
	{ .pattern = "POST /reranking", .route = ROUTE_WORK, .makes = MAKES_VECTORS },
	{ .pattern = "POST /v1/audio/transcriptions", .route = ROUTE_WORK, .makes = MAKES_SPEECH_TEXT },
	{ .pattern = "POST /audio/transcriptions", .route = ROUTE_WORK, .makes = MAKES_SPEECH_TEXT },
	{ .pattern = "POST /v1/messages/count_tokens", .route = ROUTE_WORK, .background = true },
	{ .pattern = "POST /tokenize", .route = ROUTE_WORK, .background = true },
	{ .pattern = "POST /detokenize", .route = ROUTE_WORK, .background = true },
	{ .pattern = "POST /apply-template", .route = ROUTE_WORK, .background = true },
	{ .pattern = "GET /health", .route = ROUTE_LOOK },
	{ .pattern = "GET /v1/health", .route = ROUTE_LOOK },
	{ .pattern = "GET /props", .route = ROUTE_LOOK, .tells_context = true },
	{ .pattern = "GET /metrics", .route = ROUTE_LOOK },
	{ .pattern = "GET /slots", .route = ROUTE_LOOK },
	{ .pattern = "GET /lora-adapters", .route = ROUTE_LOOK },
	{ .pattern = "GET /models", .route = ROUTE_LOOK },
	{ .pattern = "GET /v1/models", .route = ROUTE_LOOK },
	{ .pattern = "GET /v1/models/*", .route = ROUTE_LOOK },
	{ .pattern = "GET /api/tags", .route = ROUTE_LOOK },
	{ .pattern = "POST /slots/*", .route = ROUTE_CHANGE },
	{ .pattern = "POST /lora-adapters", .route = ROUTE_CHANGE },
	{ .pattern = "POST /props", .route = ROUTE_CHANGE },
	{ .pattern = "POST /models/load", .route = ROUTE_CHANGE },
	{ .pattern = "POST /models/unload", .route = ROUTE_CHANGE },
};

static const struct load_stage stages[] = {
	{ "loaded meta data with", 30 },
	{ "loading model tensors", 60 },
	{ "constructing llama_context", 900 },
	{ "warming up the model", 950 },
	{ NULL, 0 },
};

static const char *const ready_hints[] = { "llama_server: model loaded", "listening on", NULL };

static const char *const telling[] = {
	" E ", "error", "GGML_ASSERT", "terminate called", "what():", "failed to", "insufficient memory",
	"out of memory", "OutOfDeviceMemory", "CUDA error", "ROCm error", "couldn't bind", NULL,
};

static const char *const hopeless[] = {
	"failed to open GGUF file",
	"failed to read magic",
	"invalid magic characters",
	"failed to read key-value pairs",
	"failed to read tensor info",
	"is not within the file bounds",
	"unknown model architecture",
	"this GGUF file is version",
	"is version",
	"missing tensor",
	"tensor not found",
	"error loading model hyperparameters",
	"error loading model vocabulary",
	"error loading model architecture",
	"error: invalid argument",
	"error while handling argument",
	"unknown value for --",
	"invalid device",
	"quantized V cache requires flash_attn",
	NULL,
};

static int address(const struct conf_model *model, enum address *out, struct err *err)
{
	(void)model;
	(void)err;
	*out = ADDRESS_UNIX;
	return 0;
}

static void add_number(const struct conf_model *model, struct words *argv, const char *names,
                       const char *flag, uint64_t value)
{
	if (args_have(&model->args, names))
		return;
	words_add(argv, flag);
	words_addf(argv, "%llu", (unsigned long long)value);
}

static void add_files(const struct conf_model *model, bool drafts_when_told, struct words *argv)
{
	words_add(argv, "-m");
	words_add(argv, model->file);
	if (model->mmproj)
		launch_unless_given(model, argv, "-mm --mmproj", "--mmproj", model->mmproj);
	if (model->draft)
		launch_unless_given(model, argv, "-md --model-draft --spec-draft-model", "-md", model->draft);
	if (model->draft && drafts_when_told)
		launch_unless_given(model, argv, "--spec-type", "--spec-type", LLAMA_DRAFTS);
	for (size_t i = 0; i < model->lora.count; i++) {
		words_add(argv, "--lora");
		words_add(argv, model->lora.items[i]);
	}
}

/*
 * Experts that are the file's own pages, which the kernel may take away: mapped, on the CPU, and not all touched by
 * a warm-up. That they are not rewritten, the tuning says.
 */
static void add_mapped_experts(const struct conf_model *model, struct words *argv)
{
	launch_unless_given(model, argv, "-lm --load-mode", "-lm", "mmap");
	launch_unless_given(model, argv, "-cmoe --cpu-moe -ncmoe --n-cpu-moe -ot --override-tensor", "--cpu-moe", NULL);
	launch_unless_given(model, argv, "--warmup --no-warmup", "--no-warmup", NULL);
}

static void add_memory(const struct launch_request *request, struct words *argv)
{
	const struct conf_model *model = request->model;

	/* An explicit -np means separate streams: each conversation has its own share of -c. */
	if (request->context_tokens)
		add_number(model, argv, "-c --ctx-size", "-c",
		           (uint64_t)request->context_tokens * request->slots);
	add_number(model, argv, "-np --parallel", "-np", request->slots);
	/* An encoder refuses a text that is longer than one physical batch. */
	if (request->tuning.is_encoder && request->context_tokens > LLAMA_UBATCH) {
		add_number(model, argv, "-b --batch-size", "-b", request->context_tokens);
		add_number(model, argv, "-ub --ubatch-size", "-ub", request->context_tokens);
	}
	if (request->tuning.ubatch)
		add_number(model, argv, "-ub --ubatch-size", "-ub", request->tuning.ubatch);
	if (strcmp(model->kv_type, "f16") != 0) {
		launch_unless_given(model, argv, "-ctk --cache-type-k", "-ctk", model->kv_type);
		launch_unless_given(model, argv, "-ctv --cache-type-v", "-ctv", model->kv_type);
		/* A quantised V cache is refused without it. */
		if (!strstr(model->kv_type, "f16") && strcmp(model->kv_type, "f32") != 0)
			launch_unless_given(model, argv, "-fa --flash-attn", "-fa", "on");
	}
	/* It compares with what it sees of the machine and knows nothing of the others: the ledger decides. */
	launch_unless_given(model, argv, "-fit --fit", "-fit", "off");
	/* Else finished prompts are kept in up to 8 GiB that nobody claimed. */
	launch_unless_given(model, argv, "-cram --cache-ram", "--cache-ram", "0");
	/* Of recurrent and window layers: up to 32 copies of 50 to 100 MiB for each slot, three more with each turn. */
	add_number(model, argv, "-ctxcp --ctx-checkpoints --swa-checkpoints", "-ctxcp", CHECKPOINTS_A_TURN);
	/*
	 * Mapped and repacked, the weights are there twice; unpacked, prompts take 3.5
	 * times as long. Read, they are there once, in the form that computes fast.
	 */
	if (model->experts_resident_bytes > 0)
		add_mapped_experts(model, argv);
	else
		launch_unless_given(model, argv, "-lm --load-mode --mmap --no-mmap --mlock -dio --direct-io", "-lm", "none");
	if (request->tuning.plain)
		launch_unless_given(model, argv, "--repack -nr --no-repack", "--no-repack", NULL);
	if (strcmp(model->device, "cpu") == 0)
		launch_unless_given(model, argv, "-dev --device -ngl --gpu-layers --n-gpu-layers", "--device", "none");
	else if (strcmp(model->device, "gpu") == 0)
		launch_unless_given(model, argv, "-ngl --gpu-layers --n-gpu-layers", "-ngl", "999");
	else if (request->tuning.split && request->tuning.gpu_layers == 0) /* not even its batches are to be computed there */
		launch_unless_given(model, argv, "-dev --device", "--device", "none");
	else if (request->tuning.split)
		add_number(model, argv, "-ngl --gpu-layers --n-gpu-layers", "-ngl", request->tuning.gpu_layers);
	else if (strcmp(model->device, "auto") != 0)
		launch_unless_given(model, argv, "-dev --device", "--device", model->device);
}

static int command(const struct launch_request *request, struct words *argv, struct err *err)
{
	const struct conf_model *model = request->model;
	if (!model->file)
		return err_set(err, -EINVAL, "model '%s': llama-server needs a `file`", model->name);

	words_add(argv, model->engine_path ? model->engine_path : "llama-server");
	add_files(model, request->tuning.drafts_when_told, argv);
	words_add(argv, "--host");
	if (request->endpoint->path[0]) {
		words_add(argv, request->endpoint->path);
	} else {
		words_add(argv, "127.0.0.1");
		words_add(argv, "--port");
		words_addf(argv, "%u", request->endpoint->port);
	}
	launch_unless_given(model, argv, "-a --alias", "--alias", model->name);
	add_memory(request, argv);
	if (request->tuning.is_encoder)
		launch_unless_given(model, argv, "--embedding --embeddings --rerank --reranking", "--embeddings", NULL);
	/* Its pings are ours to send; and it would hear of a TERM only at the next one. */
	launch_unless_given(model, argv, "--sse-ping-interval", "--sse-ping-interval", "1");
	launch_unless_given(model, argv, "--ui --webui --no-ui --no-webui", "--no-webui", NULL);
	launch_unless_given(model, argv, "--slots --no-slots", "--slots", NULL);
	launch_unless_given(model, argv, "--metrics", "--metrics", NULL);
	if (request->save_folder)
		launch_unless_given(model, argv, "--slot-save-path", "--slot-save-path", request->save_folder);
	/* Level 4 tells the sizes of its buffers and how far loading is. It prints no prompts. */
	launch_unless_given(model, argv, "-lv --verbosity --log-verbosity -v --verbose --log-verbose --log-disable",
	             "-lv", "4");
	launch_add(request, &model->args, argv);
	/* The last of a flag counts. */
	if (request->tuning.cache_ram_mib) {
		words_add(argv, "--cache-ram");
		words_addf(argv, "%u", request->tuning.cache_ram_mib);
	}
	return 0;
}

const struct adapter adapter_llama = {
	.kind = CONF_ENGINE_LLAMA_SERVER,
	.name = "llama-server",
	.health_path = "/health",
	.slots_path = "/slots",
	.drain = { .term_again_ms = 10000, .kill_ms = 5000 },
	.log = { stages, ready_hints, telling, hopeless },
	.takes = "POST /v1/chat/completions, /v1/completions, /v1/responses and /v1/messages",
	.routes = routes,
	.route_count = sizeof(routes) / sizeof(routes[0]),
	.address = address,
	.command = command,
};
