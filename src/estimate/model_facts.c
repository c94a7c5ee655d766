/*
 * Two halves: what is kept of the walk (entries and tensors), and what follows
 * from it together (resolve). Missing keys get the defaults of load_hparams()
 * in llama-model.cpp.
 */
#include "estimate/model_facts.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "estimate/bounded.h"
#include "estimate/guess.h"

struct wanted {
	const char *key; /* below "<architecture>." or, with `global`, whole */
	size_t offset;   /* of an int64_t, or with `layers` of a struct layer_values */
	int64_t most;
	bool global;
	bool layers;
	bool worded;     /* some files tell it in words, which are passed over */
};

#define SCALAR(key, field, most) { key, offsetof(struct model_facts, field), most, false, false, false }
#define GLOBAL(key, field, most) { key, offsetof(struct model_facts, field), most, true, false, false }
#define LAYERS(key, field, most) { key, offsetof(struct model_facts, field), most, false, true, false }

static const struct wanted wanted[] = {
	GLOBAL("general.file_type", file_type, 1 << 20),
	GLOBAL("split.count", split_count, 65535),
	GLOBAL("split.no", split_number, 65535),
	GLOBAL("split.tensors.count", split_tensors, GGUF_NAMES_MOST),
	SCALAR("block_count", block_count, LAYERS_MOST),
	SCALAR("context_length", context_length, INT64_C(1) << 31),
	SCALAR("embedding_length", embedding_length, 1 << 20),
	SCALAR("vocab_size", vocab_size, 1 << 26),
	SCALAR("expert_count", expert_count, 4096),
	SCALAR("expert_used_count", expert_used, 4096),
	SCALAR("expert_shared_feed_forward_length", expert_shared_ff, 1 << 22),
	SCALAR("expert_shared_count", expert_shared, 4096),
	SCALAR("leading_dense_block_count", leading_dense, LAYERS_MOST),
	SCALAR("interleave_moe_layer_step", moe_step, LAYERS_MOST),
	SCALAR("attention.key_length", key_length, 1 << 16),
	SCALAR("attention.value_length", value_length, 1 << 16),
	SCALAR("attention.key_length_swa", key_length_swa, 1 << 16),
	SCALAR("attention.value_length_swa", value_length_swa, 1 << 16),
	SCALAR("attention.key_length_mla", key_length_mla, 1 << 16),
	SCALAR("attention.value_length_mla", value_length_mla, 1 << 16),
	SCALAR("attention.kv_lora_rank", kv_lora_rank, 1 << 16),
	SCALAR("attention.sliding_window", window, INT64_C(1) << 31),
	SCALAR("attention.shared_kv_layers", shared_kv_layers, LAYERS_MOST),
	SCALAR("nextn_predict_layers", nextn_layers, LAYERS_MOST),
	SCALAR("rope.dimension_count", rope_dimensions, 1 << 16),
	SCALAR("ssm.conv_kernel", conv_kernel, 1 << 16),
	SCALAR("ssm.inner_size", inner_size, 1 << 22),
	SCALAR("ssm.state_size", state_size, 1 << 20),
	SCALAR("ssm.group_count", group_count, 1 << 16),
	SCALAR("ssm.time_step_rank", time_steps, 1 << 16),
	SCALAR("pooling_type", pooling, 16),
	SCALAR("full_attention_interval", full_interval, LAYERS_MOST),
	SCALAR("wkv.head_size", wkv_head_size, 1 << 16),
	SCALAR("token_shift_count", token_shift, 1 << 10),
	SCALAR("shortconv.l_cache", short_conv, 1 << 16),
	SCALAR("kda.head_dim", kda_head_dim, 1 << 16),
	SCALAR("attention.indexer.key_length", indexer_length, 1 << 16),
	SCALAR("hyper_connection.count", hyper_connections, 64),
	SCALAR("attention.causal", causal, 1),
	SCALAR("vision.image_size", image_size, 1 << 16),
	SCALAR("vision.patch_size", patch_size, 1 << 16),
	SCALAR("vision.embedding_length", vision_embedding, 1 << 20),
	SCALAR("vision.feed_forward_length", vision_feed_forward, 1 << 22),
	SCALAR("vision.attention.head_count", vision_heads, 1 << 16),
	LAYERS("attention.head_count", heads, 1 << 16),
	LAYERS("attention.head_count_kv", kv_heads, 1 << 16),
	LAYERS("feed_forward_length", feed_forward, 1 << 24),
	LAYERS("expert_feed_forward_length", expert_widths, 1 << 22),
	LAYERS("attention.sliding_window_pattern", window_pattern, LAYERS_MOST),
	LAYERS("attention.compress_ratios", compress_ratios, 1 << 16),
	{ "attention.indexer.types", offsetof(struct model_facts, indexer_full), 1, false, true, true },
	LAYERS("attention.recurrent_layers", recurrent_layers, 1),
};

enum { WANTED_COUNT = sizeof wanted / sizeof *wanted };

static int64_t *scalar_of(struct model_facts *facts, const struct wanted *want)
{
	return (int64_t *)(void *)((char *)facts + want->offset);
}

void facts_init(struct model_facts *facts)
{
	memset(facts, 0, sizeof *facts);
	for (uint32_t i = 0; i < WANTED_COUNT; i++)
		if (!wanted[i].layers)
			*scalar_of(facts, &wanted[i]) = -1;
	facts->token_count = -1;
}

static int take_scalar(int64_t *out, const struct wanted *want, const struct gguf_entry *entry,
                       struct err *err)
{
	if (entry->kind != GGUF_INTEGER && entry->kind != GGUF_BOOL)
		return err_set(err, -EBADMSG, "malformed: '%.*s' is not a whole number",
		               STR_ARG(entry->key));
	if (entry->integer < 0 || entry->integer > want->most)
		return err_set(err, -EBADMSG, "malformed: '%.*s' is %" PRId64 ", not 0 to %" PRId64,
		               STR_ARG(entry->key), entry->integer, want->most);
	*out = entry->integer;
	return 0;
}

static int take_layers(struct layer_values *out, const struct wanted *want,
                       const struct gguf_entry *entry, struct err *err)
{
	enum gguf_kind kind = entry->kind == GGUF_ARRAY ? entry->element_kind : entry->kind;
	uint32_t count = entry->kind == GGUF_ARRAY ? entry->elements_kept : 1;

	if (kind == GGUF_TEXT && want->worded)
		return 0;
	if (kind != GGUF_INTEGER && kind != GGUF_BOOL)
		return err_set(err, -EBADMSG, "malformed: '%.*s' holds no whole numbers",
		               STR_ARG(entry->key));
	if (entry->kind == GGUF_ARRAY && (entry->elements == 0 || entry->elements > LAYERS_MOST))
		return err_set(err, -EBADMSG, "malformed: '%.*s' has %" PRIu64 " elements",
		               STR_ARG(entry->key), entry->elements);
	for (uint32_t i = 0; i < count; i++) {
		int64_t value = entry->kind == GGUF_ARRAY ? entry->element[i] : entry->integer;
		if (value < 0 || value > want->most)
			return err_set(err, -EBADMSG, "malformed: '%.*s' holds %" PRId64
			               ", not 0 to %" PRId64, STR_ARG(entry->key), value, want->most);
		out->value[i] = (int32_t)value;
	}
	out->given = true;
	out->array = entry->kind == GGUF_ARRAY;
	out->count = count;
	return 0;
}

/* Printable bytes of a text; others become '?'. */
static void take_printable(char *out, size_t out_bytes, struct str text)
{
	size_t length = text.length < out_bytes - 1 ? text.length : out_bytes - 1;
	for (size_t i = 0; i < length; i++) {
		char c = text.data[i];
		out[i] = c >= 0x20 && c < 0x7f ? c : '?';
	}
	out[length] = '\0';
}

static bool is_global(struct str key)
{
	return str_starts(key, "general.") || str_starts(key, "tokenizer.") || str_starts(key, "split.");
}

static int visit_entry(void *ctx, const struct gguf_entry *entry, struct err *err)
{
	struct model_facts *facts = ctx;
	struct str key = entry->key;

	if (str_is(key, "general.architecture")) {
		if (entry->kind != GGUF_TEXT || entry->text.length == 0 ||
		    entry->text.length >= sizeof facts->architecture)
			return err_set(err, -EBADMSG, "malformed: general.architecture is not a name");
		take_printable(facts->architecture, sizeof facts->architecture, entry->text);
		return 0;
	}
	if (str_is(key, "general.name") && entry->kind == GGUF_TEXT)
		take_printable(facts->name, sizeof facts->name, entry->text);
	if (str_is(key, "general.type") && entry->kind == GGUF_TEXT)
		take_printable(facts->kind, sizeof facts->kind, entry->text);
	if (str_is(key, "tokenizer.ggml.tokens") && entry->kind == GGUF_ARRAY)
		facts->token_count = (int64_t)entry->elements;

	bool global = is_global(key);
	if (!global && facts->architecture[0] == '\0')
		facts->architecture_late = true;
	if (!global) {
		struct str rest;
		if (!str_starts(key, facts->architecture) || facts->architecture[0] == '\0')
			return 0;
		size_t prefix = strlen(facts->architecture);
		rest = (struct str){ key.data + prefix, key.length - prefix };
		if (!str_starts(rest, "."))
			return 0;
		key = (struct str){ rest.data + 1, rest.length - 1 };
	}
	for (uint32_t i = 0; i < WANTED_COUNT; i++) {
		const struct wanted *want = &wanted[i];
		if (want->global != global || !str_is(key, want->key))
			continue;
		if (want->layers)
			return take_layers((struct layer_values *)(void *)((char *)facts + want->offset),
			                   want, entry, err);
		return take_scalar(scalar_of(facts, want), want, entry, err);
	}
	return 0;
}

/* "blk.12.ffn_up.weight" -> 12 and "ffn_up.weight". False for tensors outside the layers. */
static bool split_layer_name(struct str name, uint64_t *layer, struct str *part)
{
	if (!str_starts(name, "blk."))
		return false;
	struct str rest = { name.data + 4, name.length - 4 };
	struct str number = str_cut(rest, '.', part);
	return part->data && str_to_u64(number, layer);
}

static bool is_expert(struct str part)
{
	return str_starts(part, "ffn_") &&
	       (str_ends(part, "_exps.weight") || str_ends(part, "_chexps.weight") ||
	        str_ends(part, "_exps.bias"));
}

static void note_shape(struct tensor_sums *sums, uint32_t layer, struct str part,
                       const struct gguf_tensor *tensor)
{
	if (tensor->dimensions < 2)
		return;
	int32_t width = (int32_t)smaller(tensor->extent[1], INT32_MAX);
	sums->has_gate |= str_starts(part, "ffn_gate.") || str_starts(part, "ffn_gate_exps") ||
	                  str_starts(part, "ffn_gate_up_exps");
	sums->has_up |= str_is(part, "ffn_up.weight");
	if (str_is(part, "attn_k.weight")) {
		sums->key_widths[layer] = width;
		if (sums->key_width == 0) {
			sums->key_width = tensor->extent[1];
			sums->key_layer = layer;
		}
	}
	if (str_is(part, "attn_v.weight"))
		sums->value_widths[layer] = width;
	bool attention = str_is(part, "attn_k.weight") || str_is(part, "attn_qkv.weight") ||
	                 str_starts(part, "attn_kv_");
	sums->attention[layer] |= attention;
	sums->any_attention |= attention;
	sums->state[layer] |= str_starts(part, "ssm_") || str_starts(part, "time_mix_") ||
	                      str_starts(part, "shortconv.");
}

/* Looked up by name (-ot): the embedding is on the host whatever it says. */
static void note_kept(struct model_facts *facts, const struct gguf_tensor *tensor, bool in_layer, uint64_t layer,
                      bool expert)
{
	struct tensor_sums *sums = &facts->tensors;

	if (!facts->override || str_is(tensor->name, "token_embd.weight") || !override_keeps(facts->override, tensor->name))
		return;
	int64_t *sum = in_layer && layer < LAYERS_MOST ? &sums->kept_bytes[layer] : &sums->kept_outside_bytes;
	*sum = bounded_sum(*sum, tensor->bytes);
	sums->largest_kept_bytes = larger(sums->largest_kept_bytes, tensor->bytes);
	sums->keeps_experts |= expert;
}

static int add_layer_tensor(struct tensor_sums *sums, const struct gguf_tensor *tensor,
                            uint64_t layer, struct str part, struct err *err)
{
	if (layer >= LAYERS_MOST)
		return err_set(err, -EBADMSG, "malformed: tensor '%.*s' is in a layer over %d",
		               STR_ARG(tensor->name), LAYERS_MOST - 1);
	if (layer >= sums->layers)
		sums->layers = (uint32_t)layer + 1;
	sums->layer_bytes[layer] = bounded_sum(sums->layer_bytes[layer], tensor->bytes);
	if (is_expert(part)) {
		sums->expert_bytes[layer] = bounded_sum(sums->expert_bytes[layer], tensor->bytes);
		sums->largest_expert_bytes = larger(sums->largest_expert_bytes, tensor->bytes);
	} else {
		sums->largest_bytes = larger(sums->largest_bytes, tensor->bytes);
	}
	note_shape(sums, (uint32_t)layer, part, tensor);
	return 0;
}

/*
 * Repacked in groups of 8 rows (ggml-cpu/repack.cpp), experts too; for AMX tiles flat matrices of a
 * multiple of 32 rows (ggml-cpu/amx), and there Q8_0 carries a sum of four bytes with each block. Only what
 * is multiplied, not what rows are picked from: an embedding counts where it is the output as well.
 */
static void note_rewritten(struct rewritten *out, const struct gguf_tensor *tensor, bool embedding, bool amx)
{
	const struct type_info *type = tensor->type;
	bool tiled = amx && type->tiled && tensor->dimensions == 2 && tensor->extent[1] % 32 == 0;
	bool repacked = type->repacked && tensor->dimensions >= 2 && tensor->extent[1] % 8 == 0;

	if (!tiled && !repacked)
		return;
	int64_t added = tiled && type->id == TYPE_Q8_0 ? tensor->bytes / type->block_bytes * 4 : 0;
	int64_t bytes = bounded_sum(tensor->bytes, added);
	if (embedding) {
		out->embedding_bytes = bytes;
		return;
	}
	out->bytes = bounded_sum(out->bytes, bytes);
	out->added_bytes = bounded_sum(out->added_bytes, added);
	out->largest_bytes = larger(out->largest_bytes, bytes);
}

static int visit_tensor(void *ctx, const struct gguf_tensor *tensor, struct err *err)
{
	struct model_facts *facts = ctx;
	struct tensor_sums *sums = &facts->tensors;
	uint64_t layer = 0;
	struct str part;
	bool embedding = str_is(tensor->name, "token_embd.weight");

	facts->tensor_count++;
	sums->all_bytes = bounded_sum(sums->all_bytes, tensor->bytes);
	sums->elements = bounded_sum(sums->elements, tensor->elements);
	if ((tensor->dimensions >= 2 || tensor->type->block_elements > 1) && tensor->type->id < 64)
		sums->type_bytes[tensor->type->id] =
			bounded_sum(sums->type_bytes[tensor->type->id], tensor->bytes);
	bool in_layer = split_layer_name(tensor->name, &layer, &part);
	bool expert = in_layer && is_expert(part);
	note_rewritten(&sums->rewritten[0], tensor, embedding, false);
	note_rewritten(&sums->rewritten[1], tensor, embedding, true);
	note_kept(facts, tensor, in_layer, layer, expert);
	sums->stacked_tiles |= !expert && tensor->dimensions == 3 && tensor->type->tiled;
	if (embedding) {
		sums->token_embd_bytes = tensor->bytes;
		if (tensor->dimensions == 2) {
			sums->embd_width = tensor->extent[0];
			sums->embd_rows = tensor->extent[1];
		}
	}
	if (str_is(tensor->name, "output.weight"))
		sums->output_bytes = tensor->bytes;
	if (in_layer)
		return add_layer_tensor(sums, tensor, layer, part, err);
	return 0;
}

/* A later part of a split model: its keys are the first one's, but for its place. */
static int visit_later_entry(void *ctx, const struct gguf_entry *entry, struct err *err)
{
	struct model_facts *facts = ctx;

	if (str_is(entry->key, "split.no") && entry->integer != facts->files)
		return err_set(err, -EBADMSG, "malformed: it is part %" PRId64 " where part %" PRId64
		               " should be", entry->integer + 1, facts->files + 1);
	return 0;
}

int facts_add(struct model_facts *facts, struct gguf_walk *walk, const struct byte_source *source,
              struct err *err)
{
	bool first = facts->files == 0;
	struct gguf_visitor visitor = { facts, first ? visit_entry : visit_later_entry, visit_tensor };
	struct gguf_summary summary;

	int rc = gguf_walk_file(walk, source, &visitor, &summary, err);
	if (rc < 0)
		return rc;
	facts->files++;
	facts->tensors.file_bytes = bounded_sum(facts->tensors.file_bytes, (int64_t)source->size);
	facts->tensors.missing_bytes = bounded_sum(facts->tensors.missing_bytes, summary.missing_bytes);
	if (!first || !facts->architecture_late || facts->architecture[0] == '\0')
		return 0;
	/* The name stood behind keys that need it: once more over the entries alone. */
	visitor.tensor = NULL;
	return gguf_walk_file(walk, source, &visitor, &summary, err);
}

/* Of a key that has to be there, and above 0. */
static int missing_key(const struct model_facts *facts, const char *key, int64_t value, struct err *err)
{
	if (value == 0)
		return err_set(err, -EBADMSG, "malformed: the key '%s.%s' is 0", facts->architecture, key);
	return err_set(err, -EBADMSG, "malformed: the key '%s.%s' is missing", facts->architecture, key);
}

/* One value a layer out of an array, a scalar, or a default. */
static int spread(struct model_facts *facts, struct layer_values *values, const char *key,
                  int32_t fallback, struct err *err)
{
	if (values->given && values->array && values->count != facts->layers)
		return err_set(err, -EBADMSG, "malformed: '%s.%s' has %u elements for %u layers",
		               facts->architecture, key, values->count, facts->layers);
	if (values->given && values->array)
		return 0;
	int32_t value = values->given ? values->value[0] : fallback;
	for (uint32_t i = 0; i < facts->layers; i++)
		values->value[i] = value;
	return 0;
}

static int resolve_heads(struct model_facts *facts, struct err *err)
{
	int rc = spread(facts, &facts->heads, "attention.head_count", 0, err);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < facts->layers; i++)
		facts->heads_most = larger(facts->heads_most, facts->heads.value[i]);
	rc = spread(facts, &facts->kv_heads, "attention.head_count_kv", 0, err);
	if (rc < 0)
		return rc;
	if (!facts->kv_heads.given)
		facts->kv_heads = facts->heads;
	for (uint32_t i = 0; i < facts->layers; i++) {
		int32_t heads = facts->heads.value[i] > 0 ? facts->heads.value[i] : (int32_t)facts->heads_most;
		if (facts->kv_heads.value[i] > heads)
			return err_set(err, -EBADMSG, "malformed: layer %u has %d key heads for %d heads", i,
			               facts->kv_heads.value[i], heads);
	}
	int64_t width = facts->heads_most > 0 ? facts->embedding_length / facts->heads_most : 0;
	if (facts->key_length < 0)
		facts->key_length = width;
	if (facts->value_length < 0)
		facts->value_length = width;
	if (facts->key_length_swa < 0)
		facts->key_length_swa = facts->key_length;
	if (facts->value_length_swa < 0)
		facts->value_length_swa = facts->value_length;
	return 0;
}

static int resolve_feed_forward(struct model_facts *facts, struct err *err)
{
	int rc = spread(facts, &facts->feed_forward, "feed_forward_length", 0, err);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < facts->layers; i++)
		facts->ff_most = larger(facts->ff_most, facts->feed_forward.value[i]);
	for (uint32_t i = 0; i < facts->expert_widths.count; i++)
		facts->expert_ff = larger(facts->expert_ff, facts->expert_widths.value[i]);
	bool experts = facts->expert_count > 0;
	if (experts && facts->expert_used > facts->expert_count)
		return err_set(err, -EBADMSG, "malformed: %" PRId64 " experts are used of %" PRId64,
		               facts->expert_used, facts->expert_count);
	if (experts && facts->expert_ff <= 0)
		facts->expert_ff = facts->ff_most;
	if (experts && facts->leading_dense <= 0 && facts->moe_step <= 1)
		facts->ff_most = 0; /* no dense layer among them */
	if (facts->expert_shared_ff <= 0 || !facts_trait(facts, FAMILY_SHARED_BY_KEY))
		facts->expert_shared_ff = bounded_product(larger(facts->expert_shared, 0),
		                                          larger(facts->expert_ff, 0));
	return 0;
}

/* Which layers look at a window only: set_swa_pattern() of llama-hparams.cpp. */
static int resolve_window(struct model_facts *facts, struct err *err)
{
	const struct family *family = facts->family;
	bool by_file = family->pattern == PATTERN_OF_FILE && !facts->window_pattern.given;
	bool none = family->pattern == 0 && !facts_trait(facts, FAMILY_COMPRESSED); /* there each layer has one */
	if (none || by_file || facts_trait(facts, FAMILY_FULL_WINDOW)) {
		facts->window_untold = facts->family_known ? 0 : facts->window;
		facts->window = 0;
		return 0;
	}
	if (facts->window < 0)
		facts->window = family->window;
	if (strcmp(family->name, "llama4") == 0 && facts->window > 0)
		facts->window = family->window; /* the key's value is not used, only its being 0 */
	if (facts->window == 0 || (strcmp(family->name, "exaone4") == 0 && facts->layers != 64))
		return 0;
	if (facts->window_pattern.array)
		return spread(facts, &facts->window_pattern, "attention.sliding_window_pattern", 0, err);
	return 0;
}

static bool is_windowed(const struct model_facts *facts, uint32_t layer)
{
	if (facts->window <= 0)
		return false;
	if (strcmp(facts->family->name, "exaone4") == 0 && facts->layers != 64)
		return false;
	if (facts->window_pattern.array)
		return facts->window_pattern.value[layer] != 0;
	int32_t pattern = facts->window_pattern.given ? facts->window_pattern.value[0]
	                                              : facts->family->pattern;
	if (pattern == 0)
		return true;
	int32_t place = (int32_t)layer % pattern;
	return facts_trait(facts, FAMILY_DENSE_FIRST) ? place != 0 : place < pattern - 1;
}

static bool is_recurrent(const struct model_facts *facts, uint32_t layer)
{
	if (!facts->family_known && facts->tensors.any_attention)
		return facts->tensors.state[layer];
	if (facts_trait(facts, FAMILY_ALL_RECURRENT) || facts_trait(facts, FAMILY_BOTH))
		return true;
	if (facts_trait(facts, FAMILY_SOME_RECURRENT)) {
		bool mlp = facts_trait(facts, FAMILY_MLP_LAYERS) && facts->feed_forward.value[layer] > 0;
		return facts->kv_heads.value[layer] == 0 && !mlp;
	}
	if (!facts_trait(facts, FAMILY_INTERVAL))
		return false;
	if (facts->recurrent_layers.array)
		return facts->recurrent_layers.value[layer] != 0;
	int64_t usual = facts->family->interval > 0 ? facts->family->interval : 4;
	int64_t interval = facts->full_interval > 0 ? facts->full_interval : usual;
	return (layer + 1) % interval != 0;
}

static int resolve_layers(struct model_facts *facts, struct err *err)
{
	int rc = resolve_window(facts, err);
	if (rc == 0 && facts->recurrent_layers.array)
		rc = spread(facts, &facts->recurrent_layers, "attention.recurrent_layers", 0, err);
	if (rc < 0)
		return rc;
	if (facts->family_known && facts->nextn_layers >= facts->layers)
		return err_set(err, -EBADMSG, "malformed: '%s.nextn_predict_layers' is %" PRId64 " of %u layers",
		               facts->architecture, facts->nextn_layers, facts->layers);
	uint32_t cached = facts->layers;
	if (facts->nextn_layers > 0 && facts->nextn_layers < facts->layers)
		cached -= (uint32_t)facts->nextn_layers;
	if (facts->shared_kv_layers > 0 && facts->shared_kv_layers < cached)
		cached -= (uint32_t)facts->shared_kv_layers;
	if (facts->family->own_cache > 0)
		cached = (uint32_t)smaller(cached, facts->family->own_cache);
	facts->cached_layers = cached;
	for (uint32_t i = 0; i < cached; i++) {
		facts->windowed[i] = is_windowed(facts, i);
		facts->recurrent[i] = is_recurrent(facts, i);
		bool told = !facts->family_known && facts->tensors.any_attention;
		bool both = told ? facts->tensors.attention[i] : facts_trait(facts, FAMILY_BOTH);
		bool attention = !facts->recurrent[i] || both;
		bool heads = facts->family_known || facts->kv_heads.given ? facts->kv_heads.value[i] > 0 : true;
		facts->attends[i] = attention && heads && !facts_trait(facts, FAMILY_NO_CACHE);
	}
	return 0;
}

static void check_shapes(struct model_facts *facts)
{
	const struct tensor_sums *sums = &facts->tensors;
	facts->vocab = larger(facts->vocab_size, facts->token_count);
	if (sums->embd_rows > 0 && sums->embd_width != facts->embedding_length)
		facts->inconsistent = true;
	if (sums->embd_rows > 0)
		facts->vocab = sums->embd_rows;
	if (sums->layers > facts->layers)
		facts->inconsistent = true;
	if (sums->key_width > 0 && sums->key_layer < facts->layers &&
	    !facts_trait(facts, FAMILY_MLA) && facts->family_known) {
		uint32_t layer = sums->key_layer;
		int64_t length = facts->windowed[layer] ? facts->key_length_swa : facts->key_length;
		if (sums->key_width != length * facts->kv_heads.value[layer])
			facts->inconsistent = true;
	}
}

bool facts_are_adapter(const struct model_facts *facts)
{
	return strcmp(facts->kind, "adapter") == 0;
}

bool facts_are_projector(const struct model_facts *facts)
{
	return strcmp(facts->kind, "mmproj") == 0 || strcmp(facts->architecture, "clip") == 0;
}

int facts_resolve(struct model_facts *facts, struct err *err)
{
	if (facts->architecture[0] == '\0')
		return err_set(err, -EBADMSG, "malformed: the key 'general.architecture' is missing");
	if (facts->tensor_count == 0)
		return err_set(err, -EBADMSG, "holds no tensors");
	if (facts_are_adapter(facts))
		return err_set(err, -ENOTSUP, "is a LoRA adapter of a %s model, no model; try: it beside its model "
		               "(`lora:` in the configuration, --lora here)", facts->architecture);
	if (facts_are_projector(facts))
		return err_set(err, -ENOTSUP, "is a projector, no model; try: it beside its model "
		               "(`mmproj:` in the configuration, --mmproj here)");
	facts->family = family_find(facts->architecture);
	facts->family_known = facts->family != NULL;
	facts->sizes_known = facts->block_count > 0 && facts->embedding_length > 0;
	if (!facts->sizes_known && facts->family_known)
		return facts->block_count > 0 ? missing_key(facts, "embedding_length", facts->embedding_length, err)
		                              : missing_key(facts, "block_count", facts->block_count, err);
	if (!facts->sizes_known)
		return 0;
	bool attention = !facts_trait(facts, FAMILY_ALL_RECURRENT);
	if (facts->family_known && attention && !facts->heads.given)
		return missing_key(facts, "attention.head_count", -1, err);
	facts->layers = (uint32_t)facts->block_count;
	if (!facts->family_known)
		guess_family(facts);
	int rc = resolve_heads(facts, err);
	if (rc == 0)
		rc = resolve_feed_forward(facts, err);
	if (rc == 0)
		rc = resolve_layers(facts, err);
	if (rc == 0)
		check_shapes(facts);
	return rc;
}
