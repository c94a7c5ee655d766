#ifndef APP_HF_CONFIG_H
#define APP_HF_CONFIG_H

#include <stdint.h>

/*
 * hf_config - what the config.json beside a model's safetensors says of its conversations.
 *
 * Such a model is served by vLLM and its like, which hold conversations in what the flag
 * --gpu-memory-utilization leaves beside the weights: how much they take in all is that flag's, how many
 * tokens it is good for is the model's.
 */

/*
 * Bytes that a token's keys and values take: 2 x heads x their length x the type's size, over the layers that
 * attend; of MLA the latent and its rope, once. 0: there is no such file, or it does not tell. `model`: the file
 * whose folder is looked into.
 */
int64_t hf_config_token_bytes(const char *model);

#endif
