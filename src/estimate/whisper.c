/*
 * whisper.cpp's own form: eleven numbers, filters, vocabulary, tensors.
 *
 * All of the memory follows from the numbers (whisper_init_state() of
 * whisper.cpp 1.9.5; checked against its log for tiny, base, small, large-v3):
 * caches of the decoder for itself and for what it hears, and four compute
 * buffers. Weights are read, not mapped, and lie in memory as in the file.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "estimate/bounded.h"
#include "estimate/forms.h"

enum {
	NUMBERS = 11,
	LAYERS_MOST = 256,
	WIDTH_MOST = 65536,
	VOCAB_MOST = 1 << 22,
	CONTEXT_MOST = 1 << 20,
	BANDS_MOST = 4096,
	PAD = 256,             /* cells of a cache come in so many */
	CELL = 2,              /* bytes of half precision */
	DECODERS_OWN = 2,      /* the best of so many, where a first try was poor */
	DECODERS_MOST = 8,     /* WHISPER_MAX_DECODERS */
	PROCESSORS_MOST = 1024,
	/* Per channel of the width, from the logs: buffers "conv", "encode" and "cross". */
	ENCODER_BYTES = 34500 + 46200 + 10200,
	/* The program with its libraries (ffmpeg's among them): 46 to 55 MiB in each of the four. */
	PROGRAM_BYTES = 50 << 20,
};

static const struct {
	int32_t layers;
	const char *name;
} sizes[] = { { 4, "whisper tiny" }, { 6, "whisper base" }, { 12, "whisper small" },
	      { 24, "whisper medium" }, { 32, "whisper large" } };

struct numbers {
	int32_t vocab, audio_context, width, heads, layers;
	int32_t text_context, text_width, text_heads, text_layers, bands, type;
};
_Static_assert(sizeof(struct numbers) == NUMBERS * 4, "as they lie in the file");

static bool is_in(int32_t number, int32_t most)
{
	return number > 0 && number <= most;
}

static int check_numbers(const struct numbers *n, struct err *err)
{
	const struct {
		const char *name;
		int32_t number, most;
	} fields[] = {
		{ "n_vocab", n->vocab, VOCAB_MOST },           { "n_audio_ctx", n->audio_context, CONTEXT_MOST },
		{ "n_audio_state", n->width, WIDTH_MOST },     { "n_audio_head", n->heads, WIDTH_MOST },
		{ "n_audio_layer", n->layers, LAYERS_MOST },   { "n_text_ctx", n->text_context, CONTEXT_MOST },
		{ "n_text_state", n->text_width, WIDTH_MOST }, { "n_text_head", n->text_heads, WIDTH_MOST },
		{ "n_text_layer", n->text_layers, LAYERS_MOST }, { "n_mels", n->bands, BANDS_MOST },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!is_in(fields[i].number, fields[i].most))
			return err_set(err, -EBADMSG, "a whisper model whose header makes no sense: %s is %" PRId32
			               ", not 1 to %" PRId32, fields[i].name, fields[i].number, fields[i].most);
	if (n->width != n->text_width)
		return err_set(err, -EBADMSG, "a whisper model whose header makes no sense: n_audio_state is %" PRId32
		               ", n_text_state %" PRId32, n->width, n->text_width);
	return 0;
}

static int32_t little(const unsigned char *at)
{
	return (int32_t)((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
}

static int read_numbers(const struct byte_source *source, struct numbers *out, struct err *err)
{
	unsigned char raw[4 + NUMBERS * 4];
	int32_t number[NUMBERS];

	if (source->size < sizeof(raw))
		return err_set(err, -ENODATA, "cut short in its header: at least %" PRIu64 " bytes are missing",
		               (uint64_t)sizeof(raw) - source->size);
	int code = source->read(source->ctx, 0, raw, sizeof(raw));
	if (code < 0)
		return err_set(err, code, "cannot be read: %s", strerror(-code));
	for (int i = 0; i < NUMBERS; i++)
		number[i] = little(raw + 4 + 4 * i);
	memcpy(out, number, sizeof(*out));
	return check_numbers(out, err);
}

static int64_t cache_bytes(const struct numbers *n, int64_t cells, int64_t layers)
{
	return bounded_product(bounded_product(2 * CELL, bounded_round(cells, PAD)),
	                       bounded_product(n->text_width, layers));
}

/* Elements of all matrices: what the file should hold, in half precision. */
static int64_t count_parameters(const struct numbers *n)
{
	int64_t square = bounded_product(n->width, n->width);
	int64_t blocks = bounded_sum(bounded_product(12, n->layers), bounded_product(16, n->text_layers));
	int64_t rows = bounded_sum(n->vocab, bounded_sum(n->audio_context, n->text_context));

	return bounded_sum(bounded_product(square, bounded_sum(blocks, 3)),
	                   bounded_product(n->width, bounded_sum(rows, 3 * (int64_t)n->bands)));
}

static void name_it(const struct numbers *n, struct estimate *out)
{
	static const struct {
		int32_t type;
		const char *name;
	} types[] = { { 0, "F32" }, { 1, "F16" }, { 2, "Q4_0" }, { 3, "Q4_1" },
		      { 7, "Q8_0" }, { 8, "Q5_0" }, { 9, "Q5_1" } };

	str_copy(out->architecture, sizeof(out->architecture), STR("whisper"));
	str_copy(out->name, sizeof(out->name), STR("whisper"));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i].layers == n->layers)
			str_copy(out->name, sizeof(out->name), str_from(sizes[i].name));
	str_copy(out->quantisation, sizeof(out->quantisation), STR("unknown"));
	/* A version of the quantisation stands in thousands beside it. */
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].type == n->type % 1000)
			str_copy(out->quantisation, sizeof(out->quantisation), str_from(types[i].name));
}

/* The smallest form packs a weight into 4.5 bits: a file with less than half of that is cut. */
static int64_t missing_of(const struct numbers *n, int64_t file_bytes)
{
	int64_t bits = n->type % 1000 == 0 ? 32 : n->type % 1000 == 1 ? 16 : 4;
	int64_t least = bounded_product(count_parameters(n), bits) / 8 / 100 * 97;

	return least > file_bytes ? least - file_bytes : 0;
}

int estimate_whisper(const struct byte_source *source, const struct estimate_params *params, struct estimate *out,
                     struct err *err)
{
	struct numbers n;

	memset(out, 0, sizeof(*out));
	int code = read_numbers(source, &n, err);
	if (code < 0)
		return code;
	name_it(&n, out);
	out->parameters = count_parameters(&n);
	out->layers = n.layers;
	out->file_bytes = (int64_t)source->size;
	out->missing_bytes = missing_of(&n, out->file_bytes);
	if (out->missing_bytes)
		str_copy(out->flags, sizeof(out->flags), STR("incomplete"));

	int64_t own = cache_bytes(&n, n.text_context, n.text_layers);
	int64_t heard = bounded_sum(cache_bytes(&n, n.audio_context, n.text_layers),
	                            cache_bytes(&n, n.audio_context, 1));
	int64_t logits = bounded_product(4 * (int64_t)n.text_context, bounded_sum(n.vocab, 2 * n.text_width));
	struct footprint *host = &out->host;
	host->weights_bytes = bounded_sum(out->file_bytes, out->missing_bytes);
	host->kv_bytes = bounded_sum(own, heard);
	host->compute_bytes = bounded_sum(bounded_product(n.width, ENCODER_BYTES), logits);
	host->overhead_bytes = PROGRAM_BYTES;
	out->base_bytes = bounded_sum(host->weights_bytes, bounded_sum(host->kv_bytes, PROGRAM_BYTES));
	/* One decoder has the cache that is there; several have each one and two to pass them around (kv_self_n_dec). */
	int64_t decoders = smaller(params->decoders > 0 ? params->decoders : DECODERS_OWN, DECODERS_MOST);
	int64_t copies = bounded_product(decoders > 1 ? decoders + 1 : 0, own);
	out->per_request_bytes = bounded_sum(host->compute_bytes, copies);
	/* Each further part of a recording is heard in a state of its own (whisper_full_parallel()). */
	int64_t further = larger(smaller(params->processors, PROCESSORS_MOST) - 1, 0);
	int64_t state = bounded_sum(host->kv_bytes, bounded_sum(host->compute_bytes, copies));
	out->per_request_bytes = bounded_sum(out->per_request_bytes, bounded_product(further, state));
	out->steady_bytes = bounded_sum(out->base_bytes, out->per_request_bytes);
	host->total_bytes = bounded_sum(out->base_bytes, host->compute_bytes);
	out->peak_bytes = out->base_bytes; /* weights go straight to where they stay */
	out->sigma_bytes = bounded_sum(out->base_bytes / 50, out->per_request_bytes / 10);
	out->upper_bytes = bounded_sum(out->steady_bytes, 2 * out->sigma_bytes);
	out->lower_bytes = bounded_sum(host->weights_bytes, host->kv_bytes);
	out->confidence = 0.9;
	out->source = ESTIMATE_FORMULA;
	return 0;
}

enum model_form form_of(const struct byte_source *source)
{
	unsigned char head[9];

	if (source->size < 4 || source->read(source->ctx, 0, head, 4) < 0)
		return FORM_GGUF;
	if (memcmp(head, "lmgg", 4) == 0)
		return FORM_WHISPER;
	if (memcmp(head, "GGUF", 4) == 0 || source->size < sizeof(head) ||
	    source->read(source->ctx, 0, head, sizeof(head)) < 0)
		return FORM_GGUF;
	return head[8] == '{' ? FORM_SAFETENSORS : FORM_GGUF;
}
