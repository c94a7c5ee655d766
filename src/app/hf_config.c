#include "app/hf_config.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_BYTES_MOST = 1 << 20, LAYERS_MOST = 4096, WIDTH_MOST = 1 << 20 };

/* Of a regular file alone, and no larger than such a file is. */
static json_t *read_config(const char *model)
{
	const char *end = strrchr(model, '/');
	char path[PATH_MAX];
	struct stat st;
	json_t *json = NULL;
	int length = snprintf(path, sizeof(path), "%.*sconfig.json", end ? (int)(end - model + 1) : 0, model);

	if (length < 0 || (size_t)length >= sizeof(path))
		return NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= CONFIG_BYTES_MOST)
		json = json_loadfd(fd, JSON_REJECT_DUPLICATES, NULL);
	close(fd);
	return json;
}

/* A number of 1 to `most`; else `fallback`. */
static int64_t number(const json_t *json, const char *key, int64_t most, int64_t fallback)
{
	json_int_t value = json_integer_value(json_object_get(json, key));

	return value > 0 && value <= most ? value : fallback;
}

/* Those that keep keys of what was said; a linear layer keeps a state instead. */
static int64_t attending_layers(const json_t *json)
{
	const json_t *types = json_object_get(json, "layer_types"), *type;
	int64_t layers = number(json, "num_hidden_layers", LAYERS_MOST, 0), attending = 0;
	size_t i;

	if (!json_is_array(types) || json_array_size(types) != (size_t)layers)
		return layers;
	json_array_foreach((json_t *)types, i, type)
		attending += json_is_string(type) && strstr(json_string_value(type), "attention") &&
		             !strstr(json_string_value(type), "linear");
	return attending;
}

static int64_t type_bytes(const json_t *json, const json_t *whole)
{
	const char *keys[] = { "dtype", "torch_dtype" };

	for (size_t i = 0; i < 2; i++) {
		const char *name = json_string_value(json_object_get(json, keys[i]));
		name = name ? name : json_string_value(json_object_get(whole, keys[i]));
		if (name)
			return strcmp(name, "float32") == 0 ? 4 : 2;
	}
	return 2;
}

int64_t hf_config_token_bytes(const char *model)
{
	json_t *whole = read_config(model);
	/* Of one that sees, hears or draws as well, that of its language model. */
	const json_t *json = json_is_object(json_object_get(whole, "text_config")) ? json_object_get(whole, "text_config") : whole;
	int64_t heads = number(json, "num_attention_heads", WIDTH_MOST, 0);
	int64_t width = heads ? number(json, "hidden_size", WIDTH_MOST, 0) / heads : 0;
	int64_t latent = number(json, "kv_lora_rank", WIDTH_MOST, 0);
	int64_t elements = latent ? latent + number(json, "qk_rope_head_dim", WIDTH_MOST, 0)
	                          : 2 * number(json, "num_key_value_heads", WIDTH_MOST, heads) *
	                                    number(json, "head_dim", WIDTH_MOST, width);
	int64_t bytes = attending_layers(json) * elements * type_bytes(json, whole);

	json_decref(whole);
	return bytes;
}
