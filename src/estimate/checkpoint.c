/*
 * Image models: which parts the files hold, and what a picture costs on top. All
 * in one checkpoint, or the diffusion model, its text encoders and the decoder in
 * a file each; as safetensors or as GGUF. Of any other form only its length counts.
 *
 * stable-diffusion.cpp keeps all parts in memory in the file's types (those it
 * cannot compute with become wider) and runs one after the other, so a picture
 * costs the largest of their buffers. Measured with an SD 1.x shape: 2,035 MiB
 * of weights, 2,078 resident after loading, 112 more for 128 x 128.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "estimate/bounded.h"
#include "estimate/forms.h"
#include "estimate/gguf.h"
#include "estimate/safetensors.h"
#include "estimate/types.h"

enum {
	PROGRAM_BYTES = 45 << 20,
	VAE_PIXEL_BYTES = 6656,    /* the decoder's buffer, not tiled: 1,664 MiB at 512 x 512 */
	SMALL_VAE_PIXEL_BYTES = 1024,
	TILE_PIXELS = 256 * 256,   /* --vae-tiling: 32 x 32 latents at a time */
};

enum family { SD1, SD2, SDXL, SD3, FLUX, OTHER };

static const struct {
	const char *name;
	int64_t side;             /* of the picture that it was made for */
	/* Buffer of one step without flash attention: constant + pixels x by_pixel + pixels^2 / per_square. */
	int64_t constant, by_pixel, per_square;
	/* With it: constant + pixels x by_pixel. Of SD 1.x nobody measured it: as without, less the square. */
	int64_t flash_constant, flash_by_pixel;
} families[] = {
	[SD1] = { "sd1", 512, 7876369, 161, 128, 7876369, 513 },
	[SD2] = { "sd2", 512, 7876369, 161, 128, 3780681, 513 },
	[SDXL] = { "sdxl", 1024, 55541290, 138, 1636, 0, 500 },
	[SD3] = { "sd3", 1024, 0, 1234, 923, 0, 946 },
	[FLUX] = { "flux", 1024, 0, 1234, 923, 0, 946 },
	[OTHER] = { "safetensors", 512, 0, 0, 1, 0, 0 },
};

/* What runs after what: each is needed alone. */
enum part { PART_DIFFUSION, PART_TEXT, PART_DECODER, PART_OTHER, PART_COUNT };

struct checkpoint {
	int64_t file_bytes, missing_bytes;
	int64_t bytes;             /* as they lie in memory */
	int64_t elements;
	int64_t part_bytes[PART_COUNT];
	int64_t turned_elements;   /* of matrices, which a --type turns into another */
	int64_t turned_bytes;
	int64_t type_bytes[3];     /* of 8, 16 and 32 bits: what the file mostly is */
	bool has_unet, is_flux, is_sd3, has_two_encoders, has_open_clip, has_vae, has_small_vae;
	int64_t text_width;        /* what the cross-attention reads */
	const char *type[3];
};

static bool holds(struct str name, const char *what)
{
	return memmem(name.data, name.length, what, strlen(what)) != NULL;
}

/* Eight-bit floats and doubles are nothing it computes with. */
static int64_t bytes_in_memory(const struct safetensor *tensor)
{
	if (str_starts(str_from(tensor->type), "F8_"))
		return bounded_product(tensor->bytes, 2);
	return tensor->bits == 64 ? tensor->bytes / 2 : tensor->bytes;
}

static void take_name(struct checkpoint *parts, struct str name)
{
	parts->has_unet |= str_starts(name, "model.diffusion_model.") || str_starts(name, "input_blocks.") ||
	                   str_starts(name, "down_blocks.");
	parts->is_flux |= holds(name, "double_blocks.");
	parts->is_sd3 |= holds(name, "joint_blocks.");
	parts->has_two_encoders |= str_starts(name, "conditioner.embedders.1.");
	parts->has_open_clip |= str_starts(name, "cond_stage_model.model.");
	parts->has_vae |= str_starts(name, "first_stage_model.") || str_starts(name, "vae.");
	parts->has_small_vae |= holds(name, "taesd");
}

static enum part part_of(struct str name)
{
	if (str_starts(name, "first_stage_model.") || str_starts(name, "vae.") || str_starts(name, "decoder."))
		return PART_DECODER;
	if (str_starts(name, "cond_stage_model.") || str_starts(name, "conditioner.") || str_starts(name, "text_"))
		return PART_TEXT;
	bool diffusion = str_starts(name, "model.diffusion_model.") || holds(name, "double_blocks.") ||
	                 holds(name, "single_blocks.") || holds(name, "joint_blocks.") ||
	                 str_starts(name, "input_blocks.") || str_starts(name, "down_blocks.");
	return diffusion ? PART_DIFFUSION : PART_OTHER;
}

static void take_part(struct checkpoint *parts, struct str name, uint32_t dimensions, int64_t in_memory, int64_t elements)
{
	enum part part = part_of(name);

	parts->part_bytes[part] = bounded_sum(parts->part_bytes[part], in_memory);
	if (dimensions < 2)
		return;
	parts->turned_elements = bounded_sum(parts->turned_elements, elements);
	parts->turned_bytes = bounded_sum(parts->turned_bytes, in_memory);
}

static void take_bytes(struct checkpoint *parts, int64_t in_memory, int64_t in_file, int64_t elements,
                       size_t size, const char *type)
{
	parts->bytes = bounded_sum(parts->bytes, in_memory);
	parts->elements = bounded_sum(parts->elements, elements);
	parts->type_bytes[size] = bounded_sum(parts->type_bytes[size], in_file);
	parts->type[size] = type;
}

static void take(void *ctx, const struct safetensor *tensor)
{
	struct checkpoint *parts = ctx;
	size_t size = tensor->bits <= 8 ? 0 : tensor->bits == 16 ? 1 : 2;

	take_bytes(parts, bytes_in_memory(tensor), tensor->bytes, tensor->elements, size, tensor->type);
	take_part(parts, tensor->name, tensor->dimensions, bytes_in_memory(tensor), tensor->elements);
	take_name(parts, tensor->name);
	if (parts->text_width == 0 && tensor->dimensions == 2 && str_ends(tensor->name, "attn2.to_k.weight"))
		parts->text_width = tensor->extent[1];
}

static int take_entry(void *ctx, const struct gguf_entry *entry, struct err *err)
{
	(void)ctx;
	(void)entry;
	(void)err;
	return 0;
}

/* GGUF has the fastest dimension first. */
static int take_gguf(void *ctx, const struct gguf_tensor *tensor, struct err *err)
{
	struct checkpoint *parts = ctx;
	int64_t bits = tensor->type->block_bytes * 8 / tensor->type->block_elements;
	(void)err;

	take_bytes(parts, tensor->bytes, tensor->bytes, tensor->elements, bits < 16 ? 0 : bits == 16 ? 1 : 2,
	           tensor->type->name);
	take_part(parts, tensor->name, tensor->dimensions, tensor->bytes, tensor->elements);
	take_name(parts, tensor->name);
	if (parts->text_width == 0 && tensor->dimensions == 2 && str_ends(tensor->name, "attn2.to_k.weight"))
		parts->text_width = tensor->extent[0];
	return 0;
}

struct checkpoint *checkpoint_new(void)
{
	return xcalloc(1, sizeof(struct checkpoint));
}

static bool is_gguf(const struct byte_source *source)
{
	char magic[4];

	return source->size >= sizeof(magic) && source->read(source->ctx, 0, magic, sizeof(magic)) == 0 &&
	       memcmp(magic, "GGUF", sizeof(magic)) == 0;
}

static int add_safetensors(struct checkpoint *parts, const struct byte_source *source, struct err *err)
{
	struct safetensors_summary summary = { 0 };
	int code = safetensors_walk(source, take, parts, &summary, err);

	parts->missing_bytes = bounded_sum(parts->missing_bytes, summary.missing_bytes);
	return code;
}

static int add_gguf(struct checkpoint *parts, const struct byte_source *source, struct err *err)
{
	struct gguf_visitor visitor = { parts, take_entry, take_gguf };
	struct gguf_summary summary = { 0 };
	struct gguf_walk *walk = gguf_walk_new();
	int code = gguf_walk_file(walk, source, &visitor, &summary, err);

	free(walk);
	parts->missing_bytes = bounded_sum(parts->missing_bytes, summary.missing_bytes);
	return code;
}

int checkpoint_add(struct checkpoint *parts, const struct byte_source *source, struct err *err)
{
	int64_t size = bounded_sum((int64_t)source->size, 0);

	parts->file_bytes = bounded_sum(parts->file_bytes, size);
	if (is_gguf(source))
		return add_gguf(parts, source, err);
	if (form_of(source) == FORM_SAFETENSORS)
		return add_safetensors(parts, source, err);
	take_bytes(parts, size, size, 0, 1, "F16");
	return 0;
}

static enum family family_of(const struct checkpoint *parts)
{
	if (parts->is_flux)
		return FLUX;
	if (parts->is_sd3)
		return SD3;
	if (parts->has_two_encoders || parts->text_width == 2048)
		return SDXL;
	if (parts->has_open_clip || parts->text_width == 1024)
		return SD2;
	return parts->has_unet ? SD1 : OTHER;
}

int64_t estimate_picture(const struct picture_cost *cost, int64_t pixels)
{
	if (cost->per_square == 0)
		return 0;
	int64_t step = bounded_sum(cost->constant, bounded_product(pixels, cost->by_pixel));
	step = bounded_sum(step, bounded_product(pixels, pixels) / cost->per_square);
	int64_t decoded = cost->decode_pixels_most > 0 ? smaller(pixels, cost->decode_pixels_most) : pixels;
	return larger(step, bounded_product(decoded, cost->decode_by_pixel));
}

static void set_picture(const struct checkpoint *parts, enum family family, const struct estimate_params *params,
                        struct estimate *out)
{
	bool flash = params->image_flash;

	if (family == OTHER)
		return;
	out->picture = (struct picture_cost){
		.constant = flash ? families[family].flash_constant : families[family].constant,
		.by_pixel = flash ? families[family].flash_by_pixel : families[family].by_pixel,
		.per_square = flash ? INT64_MAX : families[family].per_square,
		.decode_by_pixel = parts->has_small_vae ? SMALL_VAE_PIXEL_BYTES : VAE_PIXEL_BYTES,
		.decode_pixels_most = params->image_tiles ? TILE_PIXELS : 0,
	};
}

/* Matrices become what --type says, vectors stay. */
static int64_t bytes_as(const struct checkpoint *parts, const char *type_name)
{
	const struct type_info *type = type_name ? type_named(type_name) : NULL;

	if (!type)
		return parts->bytes;
	int64_t turned = bounded_product(parts->turned_elements / type->block_elements + 1, type->block_bytes);
	return bounded_sum(parts->bytes - parts->turned_bytes, turned);
}

static int64_t largest_part(const struct checkpoint *parts)
{
	int64_t most = 0;

	for (int i = 0; i < PART_COUNT; i++)
		most = larger(most, parts->part_bytes[i]);
	return most;
}

void checkpoint_sum(const struct checkpoint *parts, const struct estimate_params *params, struct estimate *out)
{
	enum family family = family_of(parts);
	int64_t bytes = bytes_as(parts, params->image_type);
	size_t most = parts->type_bytes[1] >= parts->type_bytes[0] ? 1 : 0;

	memset(out, 0, sizeof(*out));
	if (parts->type_bytes[2] > parts->type_bytes[most])
		most = 2;
	str_copy(out->architecture, sizeof(out->architecture), str_from(families[family].name));
	str_copy(out->quantisation, sizeof(out->quantisation), str_from(parts->type[most] ? parts->type[most] : "none"));
	out->parameters = parts->elements;
	out->file_bytes = parts->file_bytes;
	out->missing_bytes = parts->missing_bytes;
	str_copy(out->flags, sizeof(out->flags),
	         str_from(parts->missing_bytes ? "incomplete"
	                  : family == OTHER     ? "unknown-architecture"
	                  : families[family].side == 512 ? "picture-512x512" : "picture-1024x1024"));
	set_picture(parts, family, params, out);
	out->largest_part_bytes = family == OTHER ? 0 : largest_part(parts);
	out->host = (struct footprint){ .weights_bytes = bytes,
		                        .compute_bytes = estimate_picture(&out->picture, families[family].side *
		                                                                         families[family].side),
		                        .overhead_bytes = PROGRAM_BYTES };
	out->base_bytes = bounded_sum(bytes, PROGRAM_BYTES);
	out->per_request_bytes = out->host.compute_bytes;
	out->steady_bytes = out->host.total_bytes = bounded_sum(out->base_bytes, out->per_request_bytes);
	out->peak_bytes = out->base_bytes;
	out->sigma_bytes = bounded_sum(out->base_bytes / 33, out->per_request_bytes / 8);
	out->upper_bytes = bounded_sum(out->steady_bytes, 2 * out->sigma_bytes);
	out->lower_bytes = bytes;
	out->confidence = family == OTHER ? 0.5 : 0.8;
	out->source = ESTIMATE_FORMULA;
}

int estimate_checkpoint(const struct byte_source *source, const struct estimate_params *params, struct estimate *out,
                        struct err *err)
{
	struct checkpoint *parts = checkpoint_new();
	int code = add_safetensors(parts, source, err);

	parts->file_bytes = (int64_t)source->size;
	checkpoint_sum(parts, params, out);
	free(parts);
	return code;
}
