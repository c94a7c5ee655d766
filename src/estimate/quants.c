#include "estimate/quants.h"

#include <strings.h>

/* Bits: file size over 8.03e9 parameters, of which the vocabulary keeps more than the mix's name says. */
static const struct quant quants[] = {
	{ "F16", 16.01, 0.0 },   { "Q8_0", 8.52, 0.04 },  { "Q6_K", 6.57, 0.35 },   { "Q5_K_M", 5.70, 0.91 },
	{ "Q5_K_S", 5.57, 1.7 }, { "Q4_K_M", 4.90, 2.8 }, { "Q4_K_S", 4.67, 4.3 },  { "IQ4_XS", 4.43, 3.7 },
	{ "Q3_K_M", 4.00, 11 },  { "Q3_K_S", 3.65, 26 },  { "Q2_K", 3.17, 56 },
};

enum { QUANTS = sizeof(quants) / sizeof(quants[0]), BEST_BEGUN_WITH = 1 };

/* Other names for as many bits. */
static const struct {
	const char *name, *as;
} alike[] = {
	{ "BF16", "F16" },    { "F32", "F16" },     { "Q5_1", "Q5_K_M" },  { "Q5_0", "Q5_K_S" },
	{ "Q4_1", "Q4_K_M" }, { "Q4_0", "Q4_K_S" }, { "IQ4_NL", "Q4_K_S" }, { "Q3_K_L", "Q3_K_M" },
	{ "Q5_K", "Q5_K_M" }, { "Q4_K", "Q4_K_M" }, { "Q3_K", "Q3_K_M" },
};

int quant_index(const char *name)
{
	for (size_t i = 0; i < sizeof(alike) / sizeof(alike[0]); i++)
		if (strcasecmp(name, alike[i].name) == 0)
			name = alike[i].as;
	for (int i = 0; i < (int)QUANTS; i++)
		if (strcasecmp(name, quants[i].name) == 0)
			return i;
	return -1;
}

const struct quant *quant_at(int index)
{
	return index >= 0 && index < (int)QUANTS ? &quants[index] : NULL;
}

static int64_t bytes_with(const struct quant_model *model, int to)
{
	int now = quant_index(model->quantisation);

	if (to == now || now < 0)
		return model->weights_bytes;
	return (int64_t)((double)model->weights_bytes * quants[to].bits_per_weight / quants[now].bits_per_weight);
}

/* The next step down that loses no more than one with fewer bits does; -1: there is none. */
static int next_of(const struct quant_model *model)
{
	int next = model->chosen + 1;

	if (model->chosen < 0 || next >= (int)QUANTS)
		return -1;
	/* IQ4_XS is smaller than Q4_K_S and better. */
	if (next + 1 < (int)QUANTS && quants[next + 1].perplexity_percent <= quants[next].perplexity_percent)
		next++;
	return next;
}

static void choose(struct quant_model *model, int to)
{
	model->chosen = to;
	model->chosen_bytes = bytes_with(model, to);
}

bool quants_choose(struct quant_model *models, size_t count, int64_t room_bytes, int64_t *out_bytes)
{
	int64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		int now = quant_index(models[i].quantisation);
		models[i].chosen = -1;
		models[i].chosen_bytes = models[i].weights_bytes;
		if (now >= 0)
			choose(&models[i], now < BEST_BEGUN_WITH ? now : BEST_BEGUN_WITH);
		sum += models[i].rest_bytes + models[i].chosen_bytes;
	}
	while (sum > room_bytes) {
		struct quant_model *best = NULL;
		double least = 0;
		for (size_t i = 0; i < count; i++) {
			int next = next_of(&models[i]);
			if (next < 0)
				continue;
			double lost = quants[next].perplexity_percent -
			              quants[models[i].chosen].perplexity_percent;
			double saved = (double)(models[i].chosen_bytes - bytes_with(&models[i], next));
			if (saved <= 0 || (best && lost / saved >= least))
				continue;
			best = &models[i];
			least = lost / saved;
		}
		if (!best)
			break;
		sum -= best->chosen_bytes;
		choose(best, next_of(best));
		sum += best->chosen_bytes;
	}
	*out_bytes = sum;
	return sum <= room_bytes;
}
