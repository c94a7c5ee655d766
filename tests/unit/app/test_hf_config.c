/* What a token takes by the config.json beside a model. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cmocka_all.h"

#include "app/hf_config.h"

static char folder[] = "/tmp/test-hf-config-XXXXXX";

static const char *in(const char *name)
{
	static char path[100];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static int64_t token_bytes_of(const char *text, size_t length)
{
	int fd = open(in("config.json"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, text, length), length);
	close(fd);
	return hf_config_token_bytes(in("model-00001-of-00002.safetensors"));
}

static void a_token_is_as_large_as_its_heads(void **state)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} rows[] = {
		{ "{\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"hidden_size\":4096}", 131072 },
		{ "{\"num_hidden_layers\":32,\"num_attention_heads\":32,\"hidden_size\":4096,\"torch_dtype\":\"float32\"}", 1048576 },
		{ "{\"num_hidden_layers\":2,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":128}", 2048 },
		/* DeepSeek-V3: 576 values in each of 61 layers. */
		{ "{\"num_hidden_layers\":61,\"num_attention_heads\":128,\"kv_lora_rank\":512,\"qk_rope_head_dim\":64}", 70272 },
		{ "{\"dtype\":\"bfloat16\",\"text_config\":{\"num_hidden_layers\":1,\"num_attention_heads\":1,\"head_dim\":64}}", 256 },
		{ "{\"num_hidden_layers\":4,\"num_attention_heads\":1,\"head_dim\":64,\"layer_types\":[\"linear_attention\","
		  "\"full_attention\",\"linear_attention\",\"sliding_attention\"]}", 512 },
		{ "{\"num_hidden_layers\":4,\"num_attention_heads\":1,\"head_dim\":64,\"layer_types\":[7]}", 1024 },
		{ "{\"num_hidden_layers\":-4,\"num_attention_heads\":1,\"head_dim\":64}", 0 },
		{ "{\"num_hidden_layers\":9223372036854775807,\"num_attention_heads\":1,\"head_dim\":64}", 0 },
		{ "{\"num_hidden_layers\":\"4\",\"num_attention_heads\":[1]}", 0 },
		{ "[]", 0 },
		{ "{", 0 },
		{ "", 0 },
	};
	(void)state;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(token_bytes_of(rows[i].text, strlen(rows[i].text)), rows[i].bytes);
}

static void what_is_no_such_file_tells_nothing(void **state)
{
	static char large[(1 << 20) + 1];
	(void)state;

	memset(large, ' ', sizeof large);
	memcpy(large, "{}", 2);
	assert_int_equal(token_bytes_of(large, sizeof large), 0);
	unlink(in("config.json"));
	assert_int_equal(hf_config_token_bytes(in("model.safetensors")), 0);
	assert_int_equal(mkfifo(in("config.json"), 0600), 0);
	assert_int_equal(hf_config_token_bytes(in("model.safetensors")), 0);
	unlink(in("config.json"));
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_is_as_large_as_its_heads),
		cmocka_unit_test(what_is_no_such_file_tells_nothing),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
