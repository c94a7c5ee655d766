#include "estimate/guess.h"

static bool some_layer_has_no_heads(const struct model_facts *facts)
{
	const struct layer_values *heads = &facts->kv_heads;

	for (uint32_t i = 0; heads->array && i < heads->count; i++)
		if (heads->value[i] == 0)
			return true;
	return false;
}

static uint32_t state_kind(const struct model_facts *facts)
{
	if (facts->wkv_head_size > 0)
		return FAMILY_STATE_RWKV;
	if (facts->kda_head_dim > 0)
		return FAMILY_STATE_KDA;
	if (facts->inner_size > 0 && facts->state_size > 0)
		return FAMILY_STATE_SSM;
	return facts->short_conv > 0 ? FAMILY_STATE_CONV : 0;
}

/* Which layers have the state, where the tensors do not tell (is_recurrent() asks them first). */
static uint32_t state_layers(const struct model_facts *facts)
{
	if (facts->recurrent_layers.array || facts->full_interval > 0)
		return FAMILY_INTERVAL;
	if (some_layer_has_no_heads(facts))
		return FAMILY_SOME_RECURRENT;
	bool attends = facts->heads.given && (facts->heads.array || facts->heads.value[0] > 0);
	return attends ? FAMILY_BOTH : FAMILY_ALL_RECURRENT;
}

static uint32_t traits_of(const struct model_facts *facts)
{
	uint32_t traits = state_kind(facts);

	if (traits != 0)
		traits |= state_layers(facts);
	if (facts->causal == 0)
		traits |= FAMILY_NO_CACHE | FAMILY_ENCODER;
	if (facts->key_length_mla > 0 && facts->value_length_mla > 0)
		traits |= FAMILY_MLA;
	if (facts->tensors.has_up && !facts->tensors.has_gate)
		traits |= FAMILY_NO_GATE;
	return traits;
}

void guess_family(struct model_facts *facts)
{
	facts->guessed = (struct family){
		.name = facts->architecture,
		.traits = traits_of(facts),
		.pattern = PATTERN_OF_FILE,
	};
	facts->family = &facts->guessed;
}
