#include "estimate/estimate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "estimate/bounded.h"
#include "estimate/era.h"
#include "estimate/formulas.h"
#include "estimate/parts.h"

#define MIB (INT64_C(1) << 20)

enum {
	PROCESS_BYTES = 5 << 20,   /* measured: heap, threads and libraries' data of an idle server */
	TOKEN_BYTES = 100,         /* measured: a vocabulary's texts and tables, for each token */
	SIGMA_KNOWN_PERCENT = 3,
	SIGMA_UNKNOWN_PERCENT = 15,
	SIGMA_LEAST_BYTES = 4 << 20,
	LOWER_PERCENT = 70,
	CACHE_STEP = 64 << 20,     /* of a prompt cache's limit that nobody chose */
	CHECKPOINTS_SOON = CHECKPOINTS_A_TURN,
	/*
	 * With huge pages for malloc all of its heap is there: what rounds up to 2 MiB, and the tables of the
	 * graphs, which have room for eight nodes a tensor of the model, some 3 KiB each. Measured:
	 * 4 MiB for 20 tensors, 9 for 200, 21 for 640; the peak is to hold for all of them.
	 */
	HUGE_PAGES_LEAST = 4 << 20,
	HUGE_PAGES_TENSOR = 26 << 10,
	HUGE_PAGES_SLACK = 8 << 20,
	/* A delta net's graph has room for 40 nodes a token instead. Measured: 50 KiB for each of 64 to 2,048. */
	HUGE_PAGES_NODE = 1280,
	NODES_A_TOKEN = 40,
	NODES_A_TENSOR = 32,
};

/* Measured spread of the constant a device's driver and context take (not in any file). */
#define DEVICE_CONSTANT_BYTES (450 * MIB)
#define DEVICE_SIGMA_BYTES (250 * MIB)
#define CONFIDENCE_OF_A_PART 0.2

void estimate_defaults(struct estimate_params *params)
{
	*params = (struct estimate_params){
		.batch = 2048,
		.ubatch = 512,
		.outputs = -1,
		.kv_k = KV_F16,
		.kv_v = KV_F16,
		.draft_kv_k = KV_F16,
		.draft_kv_v = KV_F16,
		.flash = FLASH_AUTO,
		.repack = REPACK_AUTO,
		.load = LOAD_MMAP,
		.cache_ram_bytes = 8192 * MIB,
		.checkpoints = 32,
		.pooling = -1,
	};
}

void estimate_as_launched(struct estimate_params *params)
{
	if (params->slots <= 0)
		params->slots = 1;
	if (!params->unified_given)
		params->unified_kv = false;
	params->unified_given = true;
	params->load = LOAD_NONE;
	params->cache_ram_bytes = 0;
	params->checkpoints = smaller(params->checkpoints, CHECKPOINTS_A_TURN);
	params->launched = true;
}

const char *estimate_source_name(enum estimate_source source)
{
	switch (source) {
	case ESTIMATE_FORMULA:
		return "formula";
	case ESTIMATE_ENGINE:
		return "engine";
	case ESTIMATE_MEMO:
		return "memo";
	case ESTIMATE_LEARNED:
		return "learned";
	case ESTIMATE_DECLARED:
		return "declared";
	}
	return "unknown";
}

static void add_flag(struct estimate *out, const char *flag)
{
	size_t length = strlen(out->flags);
	snprintf(out->flags + length, sizeof out->flags - length, "%s%s", length ? "," : "", flag);
}

static void describe(const struct model_facts *facts, struct estimate *out)
{
	const char *mix = type_mix_name(facts->file_type);
	uint32_t most = 0;

	for (uint32_t i = 0; i < 64; i++)
		if (facts->tensors.type_bytes[i] > facts->tensors.type_bytes[most])
			most = i;
	const struct type_info *type = type_find(most);
	snprintf(out->architecture, sizeof out->architecture, "%s", facts->architecture);
	snprintf(out->name, sizeof out->name, "%s", facts->name);
	snprintf(out->quantisation, sizeof out->quantisation, "%s", mix ? mix : type ? type->name : "");
	out->is_encoder = facts_trait(facts, FAMILY_ENCODER);
	out->parameters = facts->tensors.elements;
	out->trained_context = larger(facts->context_length, 0);
	out->layers = facts->layers;
	out->file_bytes = facts->tensors.file_bytes;
	out->missing_bytes = facts->tensors.missing_bytes;
	if (!facts->family_known)
		add_flag(out, "unknown-architecture");
	if (!facts->sizes_known)
		add_flag(out, "weights-only");
	if (facts->inconsistent)
		add_flag(out, "inconsistent-metadata");
	if (facts->tensors.missing_bytes > 0)
		add_flag(out, "incomplete");
	if (facts_trait(facts, FAMILY_MLA) && facts->key_length_mla <= 0)
		add_flag(out, "old-mla-file");
}

static void total(struct footprint *pool)
{
	int64_t sum = bounded_sum(pool->weights_bytes, pool->kv_bytes);
	sum = bounded_sum(sum, pool->recurrent_bytes);
	sum = bounded_sum(sum, pool->compute_bytes);
	pool->total_bytes = bounded_sum(sum, pool->overhead_bytes);
}

/* A server without its buffers; llama_context::output_reserve() has a row for each output of a batch. */
static int64_t process_bytes(const struct model_facts *facts, const struct cells *cells)
{
	int64_t row = facts_trait(facts, FAMILY_ENCODER) ? 0 : larger(facts->vocab, 0);
	int64_t rows = bounded_product(4 * cells->rows, row + larger(facts->embedding_length, 0));
	int64_t vocabulary = bounded_product(TOKEN_BYTES, larger(facts->token_count, 0));
	return bounded_sum(PROCESS_BYTES, bounded_sum(vocabulary, rows));
}

void estimate_on_device(const struct estimate *e, struct device_share *out)
{
	int64_t base = smaller(e->device.total_bytes, e->base_bytes);

	*out = (struct device_share){
		.base_bytes = base,
		.peak_bytes = smaller(base, e->peak_bytes),
		.lower_bytes = base / 100 * LOWER_PERCENT,
	};
	/* The device's constant is the uncertain part; the host's share is as sure as ever. */
	if (base > 0)
		out->sigma_bytes = larger(e->sigma_bytes - (e->base_bytes - base) / 100 * SIGMA_KNOWN_PERCENT, 0);
}

static void size_parts(const struct model_facts *facts, const struct estimate_params *params,
                       const struct cells *cells, const struct placement *placement,
                       struct estimate *out)
{
	for (uint32_t i = 0; i < facts->layers; i++) {
		bool device = i >= placement->first_device_layer && !params->kv_on_host;
		struct footprint *cache = device ? &out->device : &out->host;
		cache->kv_bytes = bounded_sum(cache->kv_bytes, kv_layer_bytes(facts, cells, params, i));
		cache->recurrent_bytes = bounded_sum(cache->recurrent_bytes,
		                                     recurrent_layer_bytes(facts, cells, i));
	}
	out->kv_bytes_per_token = kv_token_bytes(facts, cells, params);
	out->device.compute_bytes = compute_device_bytes(facts, cells, params, placement);
	out->host.compute_bytes = compute_host_bytes(facts, cells, params, placement);
	out->host.overhead_bytes = process_bytes(facts, cells);
	if (placement->has_device)
		out->device.overhead_bytes = DEVICE_CONSTANT_BYTES;
	if (placement_computes(facts, placement))
		return;
	out->host.overhead_bytes = bounded_sum(out->host.overhead_bytes, compute_work_bytes(facts, cells));
	out->compute_context_bytes = smaller(compute_context_bytes(facts, cells), out->host.compute_bytes);
	out->batch_tokens = cells->tokens;
}

static int64_t all_states(const struct estimate *e)
{
	return bounded_sum(e->device.recurrent_bytes, e->host.recurrent_bytes);
}

/*
 * base: loaded and idle. The compute buffers count whole although their pages
 * are touched only as prompts get longer: they are not asked for again later.
 */
static void size_whole(const struct model_facts *facts, const struct estimate_params *params,
                       const struct cells *cells, const struct weights *weights, bool device,
                       struct estimate *out)
{
	total(&out->device);
	total(&out->host);
	int64_t kv = bounded_sum(out->device.kv_bytes, out->host.kv_bytes);
	int64_t sum = bounded_sum(out->device.total_bytes, out->host.total_bytes);
	int64_t percent = facts->family_known && facts->sizes_known && !facts->inconsistent
	                ? SIGMA_KNOWN_PERCENT : SIGMA_UNKNOWN_PERCENT;

	if (build_has(params->build, ERA_STATE_BACKUPS))
		set_aside_of(facts, cells, params, &out->set_aside);
	int64_t checkpoint = set_aside_bytes(&out->set_aside);
	out->set_aside_most = checkpoint > 0 ? params->checkpoints : 0;
	int64_t kept = bounded_product(smaller(params->checkpoints, CHECKPOINTS_SOON), checkpoint);
	int64_t of_all = bounded_product(cells->sequences, kept);

	/* One without a limit could be counted as nothing: every conversation once more is what it gets. */
	out->cache_limited = params->cache_ram_bytes < 0 && build_has(params->build, ERA_PROMPT_CACHE);
	out->cache_limit_bytes = build_has(params->build, ERA_PROMPT_CACHE) ? params->cache_ram_bytes : 0;
	if (out->cache_limited)
		out->cache_limit_bytes = bounded_round(bounded_sum(bounded_sum(kv, all_states(out)), of_all) + 1, CACHE_STEP);
	/* Who lets an engine keep prompts on the side has given it that memory, whenever it takes it. */
	if (params->launched)
		sum = bounded_sum(sum, out->cache_limit_bytes);
	out->base_bytes = params->lazy_kv ? sum - kv : sum;
	out->per_request_bytes = bounded_sum(params->lazy_kv ? kv / cells->sequences : 0, kept);
	out->steady_bytes = bounded_sum(sum, of_all);
	/* What reading holds in addition is given back before the caches are made. */
	int64_t reading = bounded_sum(out->host.weights_bytes, out->host.overhead_bytes);
	out->peak_bytes = larger(out->base_bytes, bounded_sum(reading, weights->passing_bytes));
	out->peak_bytes = larger(out->peak_bytes, bounded_sum(out->base_bytes, of_all));
	if (params->launched)
		out->peak_bytes = bounded_sum(out->peak_bytes, HUGE_PAGES_SLACK);
	out->sigma_bytes = larger(out->base_bytes / 100 * percent, SIGMA_LEAST_BYTES);
	out->sigma_bytes += device ? DEVICE_SIGMA_BYTES : 0;
	int64_t most = larger(out->steady_bytes, out->peak_bytes);
	/* Each further turn leaves as many again, up to what the engine allows. */
	int64_t later = larger(params->checkpoints - CHECKPOINTS_SOON, 0);
	most = bounded_sum(most, bounded_product(bounded_product(cells->sequences, later), checkpoint));
	out->upper_bytes = bounded_sum(most, out->sigma_bytes / 3 * 7); /* 2.33 sigma: 99 % */
	out->lower_bytes = out->base_bytes / 100 * LOWER_PERCENT;
	out->confidence = percent == SIGMA_KNOWN_PERCENT ? (device ? 0.8 : 0.9) : 0.4;
}

/* Routers choose some experts more often than others: what is missed is less than by chance, if anything. */
static void note_experts(const struct model_facts *facts, const struct weights *weights, struct estimate *out)
{
	if (facts->expert_count <= 0 || weights->expert_bytes <= 0)
		return;
	double used = (double)larger(facts->expert_used, 1) / (double)facts->expert_count;
	double missing = 1 - (double)weights->resident_bytes / (double)weights->expert_bytes;
	out->experts.total_bytes = weights->expert_bytes;
	out->experts.resident_bytes = weights->resident_bytes;
	out->experts.mapped_bytes = weights->mapped_bytes;
	out->experts.active_bytes = (int64_t)(used * (double)weights->expert_bytes);
	out->experts.missed_bytes = (int64_t)(missing * (double)out->experts.active_bytes);
}

int64_t estimate_bound_bytes(const struct estimate *e)
{
	enum { KERNEL_BYTES = 16 << 20, PAGE_OF_TABLE = 512 };

	if (e->experts.mapped_bytes == 0)
		return 0;
	int64_t host = larger(larger(e->upper_bytes, e->peak_bytes) - e->device.total_bytes, e->experts.mapped_bytes);
	return bounded_sum(host, KERNEL_BYTES + e->file_bytes / PAGE_OF_TABLE);
}

/* What the allocator's huge pages make of the engine's tables (llama_context::graph_max_nodes). */
static int64_t huge_pages_bytes(const struct model_facts *facts, const struct cells *cells)
{
	bool delta = facts_trait(facts, FAMILY_STATE_KDA) ||
	             (facts_trait(facts, FAMILY_STATE_SSM) && facts_trait(facts, FAMILY_INTERVAL));
	int64_t usual = HUGE_PAGES_LEAST + HUGE_PAGES_TENSOR * facts->tensor_count;
	int64_t nodes = larger(bounded_product(NODES_A_TOKEN, cells->tokens), NODES_A_TENSOR * facts->tensor_count);

	return delta ? bounded_sum(usual, bounded_product(HUGE_PAGES_NODE, nodes)) : usual;
}

static int estimate_of_facts(const struct model_facts *facts, const struct estimate_params *params,
                      struct estimate *out, struct err *err)
{
	struct cells cells = { 0 };
	struct placement placement;
	struct weights weights;

	memset(out, 0, sizeof *out);
	out->source = ESTIMATE_FORMULA;
	describe(facts, out);
	if (params->kv_v > KV_BF16 && params->flash == FLASH_OFF)
		add_flag(out, "engine-refuses-quantised-v-without-flash-attention");
	bool latent = facts_trait(facts, FAMILY_MLA) && facts->key_length_mla > 0 && facts->value_length_mla > 0;
	if (latent && params->kv_k != params->kv_v)
		add_flag(out, "engine-refuses-two-kv-types-with-mla");
	cells_of(facts, params, &cells);
	placement_of(facts, params, &placement);
	weights_of(facts, params, &placement, &weights);
	bool device = placement.has_device;
	size_parts(facts, params, &cells, &placement, out);
	if (params->launched)
		out->host.overhead_bytes = bounded_sum(out->host.overhead_bytes, huge_pages_bytes(facts, &cells));
	note_experts(facts, &weights, out);
	out->device.weights_bytes = weights.device_bytes;
	out->host.weights_bytes = weights.host_bytes;
	out->plain_weights = weights.plain;
	out->host.overhead_bytes = bounded_sum(out->host.overhead_bytes, weights.kept_bytes);
	size_whole(facts, params, &cells, &weights, device, out);
	if (out->cache_limited)
		add_flag(out, "prompt-cache-limited");
	if (out->upper_bytes >= BOUNDED_MOST / 2)
		return err_set(err, -EFBIG, "its numbers would need more than any memory");
	return 0;
}

int estimate_gguf(const struct byte_source *source, const struct estimate_params *params,
                  struct estimate *out, struct err *err)
{
	return estimate_parts(source, 1, params, out, err);
}

/* llama_model_loader's own checks of a split model. */
static int check_split(const struct model_facts *facts, uint32_t count, struct err *err)
{
	if (count == 1)
		return 0;
	if (facts->split_number != 0 || facts->split_count != count)
		return err_set(err, -EBADMSG, "malformed: the first of %u parts says it is part %" PRId64
		               " of %" PRId64, count, facts->split_number + 1, facts->split_count);
	if (facts->split_tensors >= 0 && facts->split_tensors != facts->tensor_count)
		return err_set(err, -EBADMSG, "malformed: %" PRId64 " tensors in all parts, not %" PRId64,
		               facts->tensor_count, facts->split_tensors);
	return 0;
}

int estimate_parts(const struct byte_source *parts, uint32_t count,
                   const struct estimate_params *params, struct estimate *out, struct err *err)
{
	struct gguf_walk *walk = gguf_walk_new();
	struct model_facts *facts = xmalloc(sizeof *facts);
	struct override *override = override_new(params->overrides, params->override_count);
	int rc = 0;

	facts_init(facts);
	facts->override = params->override_count > 0 ? override : NULL;
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		rc = facts_add(facts, walk, &parts[i], err);
	if (rc == 0)
		rc = check_split(facts, count, err);
	if (rc == 0)
		rc = facts_resolve(facts, err);
	if (rc == 0)
		rc = estimate_of_facts(facts, params, out, err);
	/* What the others hold is not known. */
	if (rc == 0 && facts->split_count > 1 && facts->split_count != count) {
		add_flag(out, "part-of-split");
		out->confidence = CONFIDENCE_OF_A_PART;
	}
	if (rc == 0 && !override_is_whole(override)) {
		add_flag(out, "override-not-understood");
		out->confidence = CONFIDENCE_OF_A_PART;
	}
	override_free(override);
	free(facts);
	free(walk);
	return rc;
}
