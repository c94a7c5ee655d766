#include "estimate/types.h"

#include "base/str.h"

#include <stddef.h>

#include "estimate/bounded.h"

/*
 * `repacked` follows ggml_repack_get_optimal_repack_type() of
 * ggml-cpu/repack.cpp for AVX2 and AVX-512. Where a processor repacks fewer
 * types this counts too much, never too little. `tiled` follows
 * qtype_has_amx_kernels() of ggml-cpu/amx/common.h, and F16, which goes there as it is.
 */
static const struct type_info types[] = {
	{ 0, "F32", 1, 4, false, false },         { 1, "F16", 1, 2, false, true },
	{ 2, "Q4_0", 32, 18, true, true },        { 3, "Q4_1", 32, 20, false, true },
	{ 6, "Q5_0", 32, 22, false, false },      { 7, "Q5_1", 32, 24, false, false },
	{ 8, "Q8_0", 32, 34, false, true },       { 9, "Q8_1", 32, 36, false, false },
	{ 10, "Q2_K", 256, 84, true, false },     { 11, "Q3_K", 256, 110, false, false },
	{ 12, "Q4_K", 256, 144, true, true },     { 13, "Q5_K", 256, 176, false, true },
	{ 14, "Q6_K", 256, 210, false, true },    { 15, "Q8_K", 256, 292, false, false },
	{ 16, "IQ2_XXS", 256, 66, false, false }, { 17, "IQ2_XS", 256, 74, false, false },
	{ 18, "IQ3_XXS", 256, 98, false, false }, { 19, "IQ1_S", 256, 50, false, false },
	{ 20, "IQ4_NL", 32, 18, true, false },    { 21, "IQ3_S", 256, 110, false, false },
	{ 22, "IQ2_S", 256, 82, false, false },   { 23, "IQ4_XS", 256, 136, false, true },
	{ 24, "I8", 1, 1, false, false },         { 25, "I16", 1, 2, false, false },
	{ 26, "I32", 1, 4, false, false },        { 27, "I64", 1, 8, false, false },
	{ 28, "F64", 1, 8, false, false },        { 29, "IQ1_M", 256, 56, false, false },
	{ 30, "BF16", 1, 2, false, false },       { 34, "TQ1_0", 256, 54, false, false },
	{ 35, "TQ2_0", 256, 66, false, false },   { 39, "MXFP4", 32, 17, true, false },
	{ 40, "NVFP4", 64, 36, false, false },    { 41, "Q1_0", 128, 18, false, false },
	{ 42, "Q2_0", 64, 18, false, false },
};

enum { TYPE_COUNT = sizeof types / sizeof *types };

const struct type_info *type_find(uint32_t id)
{
	for (uint32_t i = 0; i < TYPE_COUNT; i++)
		if (types[i].id == id)
			return &types[i];
	return NULL;
}

const struct type_info *type_named(const char *name)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (str_equal_nocase(str_from(types[i].name), str_from(name)))
			return &types[i];
	return NULL;
}

const char *type_stranger(uint32_t id)
{
	bool removed = id == 4 || id == 5 || (id >= 31 && id <= 33) || (id >= 36 && id <= 38);

	if (removed)
		return "which was removed from the format: convert the model again";
	if (id >= 97 && id < 1024)
		return "which belongs to a fork of the engine";
	return "which this version does not know: a newer format";
}

int64_t type_row_bytes(const struct type_info *type, int64_t elements)
{
	int64_t blocks = elements / type->block_elements + (elements % type->block_elements != 0);
	return bounded_product(blocks, type->block_bytes);
}

/* `enum llama_ftype` of llama.h; the gaps were removed. */
static const char *const mixes[] = {
	[0] = "F32",      [1] = "F16",      [2] = "Q4_0",    [3] = "Q4_1",     [7] = "Q8_0",
	[8] = "Q5_0",     [9] = "Q5_1",     [10] = "Q2_K",   [11] = "Q3_K_S",  [12] = "Q3_K_M",
	[13] = "Q3_K_L",  [14] = "Q4_K_S",  [15] = "Q4_K_M", [16] = "Q5_K_S",  [17] = "Q5_K_M",
	[18] = "Q6_K",    [19] = "IQ2_XXS", [20] = "IQ2_XS", [21] = "Q2_K_S",  [22] = "IQ3_XS",
	[23] = "IQ3_XXS", [24] = "IQ1_S",   [25] = "IQ4_NL", [26] = "IQ3_S",   [27] = "IQ3_M",
	[28] = "IQ2_S",   [29] = "IQ2_M",   [30] = "IQ4_XS", [31] = "IQ1_M",   [32] = "BF16",
	[36] = "TQ1_0",   [37] = "TQ2_0",   [38] = "MXFP4",
};

const char *type_mix_name(int64_t file_type)
{
	if (file_type < 0 || file_type >= (int64_t)(sizeof mixes / sizeof *mixes))
		return NULL;
	return mixes[file_type];
}
