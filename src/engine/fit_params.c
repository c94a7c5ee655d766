#include "engine/fit_params.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/program.h"

/* ---- its command line ---- */

static const char program_name[] = "llama-fit-params";

enum kind { ALONE, WITH_VALUE, LEFT_OUT, DECIDES };

/*
 * All names of each; what is not here does not decide memory. LEFT_OUT, with its value: it is reckoned beside
 * the model, or its value could be taken for a flag. DECIDES: memory, and it is not known there.
 */
static const struct {
	const char *names;
	enum kind kind;
} flags[] = {
	{ "-m --model", WITH_VALUE },
	{ "-c --ctx-size", WITH_VALUE },
	{ "-np --parallel", WITH_VALUE },
	{ "-b --batch-size", WITH_VALUE },
	{ "-ub --ubatch-size", WITH_VALUE },
	{ "-ctk --cache-type-k", WITH_VALUE },
	{ "-ctv --cache-type-v", WITH_VALUE },
	{ "-fa --flash-attn", WITH_VALUE },
	{ "-dev --device", WITH_VALUE },
	{ "-ngl --gpu-layers --n-gpu-layers", WITH_VALUE },
	{ "-sm --split-mode", WITH_VALUE },
	{ "-ts --tensor-split", WITH_VALUE },
	{ "-mg --main-gpu", WITH_VALUE },
	{ "-ot --override-tensor", WITH_VALUE },
	{ "-ncmoe --n-cpu-moe", WITH_VALUE },
	{ "--override-kv", WITH_VALUE },
	{ "--rpc", WITH_VALUE },
	{ "-cmoe --cpu-moe", ALONE },
	{ "--swa-full", ALONE },
	{ "-kvo --kv-offload -nkvo --no-kv-offload", ALONE },
	{ "--repack -nr --no-repack", ALONE },
	{ "--no-host", ALONE },
	{ "--op-offload --no-op-offload", ALONE },
	{ "-kvu --kv-unified", DECIDES },
	{ "--spec-type", DECIDES },
	{ "-mm --mmproj -md --model-draft --spec-draft-model --lora -a --alias --host --slot-save-path", LEFT_OUT },
};

static bool names_have(const char *names, const char *word)
{
	struct str rest = str_from(names);

	while (rest.data)
		if (str_is(str_cut(rest, ' ', &rest), word))
			return true;
	return false;
}

static const size_t flag_count = sizeof(flags) / sizeof(*flags);

/* Its place in the table; the count where it is not there. */
static size_t find_flag(const char *word)
{
	size_t i = 0;

	while (i < flag_count && !names_have(flags[i].names, word))
		i++;
	return i;
}

/* In the folder of the program as it is named, else of what that leads to. */
static bool find_beside(const char *server, char out[PATH_MAX])
{
	char named[PATH_MAX], real[PATH_MAX];

	if (!program_find(server, named, sizeof(named)))
		return false;
	const char *of[] = { named, realpath(named, real) };
	for (size_t i = 0; i < 2; i++) {
		const char *slash = of[i] ? strrchr(of[i], '/') : NULL;
		if (!slash)
			continue;
		int length = snprintf(out, PATH_MAX, "%.*s%s", (int)(slash + 1 - of[i]), of[i], program_name);
		if (length > 0 && length < PATH_MAX && access(out, X_OK) == 0)
			return true;
	}
	return false;
}

int fit_params_launch(const struct launch *serving, struct launch *out, struct err *err)
{
	const struct words *from = &serving->argv;
	char program[PATH_MAX];

	*out = (struct launch){ WORDS_INIT, WORDS_INIT };
	if (!find_beside(from->items[0], program))
		return err_set(err, -ENOENT, "no %s beside %s", program_name, from->items[0]);
	words_add(&out->argv, program);
	for (size_t i = 1; i < from->count; i++) {
		size_t flag = find_flag(from->items[i]);
		if (flag == flag_count)
			continue;
		if (flags[flag].kind == DECIDES) {
			launch_release(out);
			return err_set(err, -ENOTSUP, "%s does not know %s", program_name, from->items[i]);
		}
		bool valued = flags[flag].kind != ALONE && i + 1 < from->count;
		for (size_t word = i; word <= i + valued && flags[flag].kind != LEFT_OUT; word++)
			words_add(&out->argv, from->items[word]);
		i += valued;
	}
	words_add(&out->argv, "--fit-print");
	words_add(&out->argv, "on");
	words_add(&out->argv, "-lv");
	words_add(&out->argv, "4");
	for (size_t i = 0; i < serving->env.count; i++)
		words_add(&out->env, serving->env.items[i]);
	return 0;
}

/* ---- its answer ---- */

/* "NAME model context compute", whole MiB. A name has no blanks. */
static bool parse_sum(const char *text, struct own_word *out)
{
	size_t name = strcspn(text, " ");
	const char *at = text + name;
	int64_t mib[3];

	if (name == 0 || text[name] != ' ')
		return false;
	for (int i = 0; i < 3; i++) {
		char *end;
		mib[i] = own_word_mib(at, &end);
		if (mib[i] < 0)
			return false;
		at = end;
	}
	if (at[strspn(at, " \r")] != '\0')
		return false;
	own_word_add(out, strncmp(text, "Host ", 5) == 0, mib);
	return true;
}

bool fit_params_line(void *ctx, struct str line)
{
	struct fit_params *told = ctx;
	char text[128];

	if (!told->table_ended)
		told->table_ended = own_word_line(&told->table, line);
	if (line.length < sizeof(text)) {
		str_copy(text, sizeof(text), line);
		parse_sum(text, &told->sums);
	}
	return false;
}

static int64_t host_bytes(const struct own_word *word)
{
	return word->host_weights_bytes + word->host_context_bytes + word->host_compute_bytes;
}

bool fit_params_word(const struct fit_params *told, struct own_word *out)
{
	const struct own_word *sums = &told->sums, *table = &told->table;

	if (sums->rows == 0)
		return false;
	*out = table->rows ? *table : *sums;
	out->from = table->rows ? WORD_OF_FIT_TABLE : WORD_OF_FIT_SUMS;
	/* One launch, told twice: only what is rewritten is beside the sums. */
	return !table->rows || (table->host_context_bytes == sums->host_context_bytes &&
	                        table->host_compute_bytes == sums->host_compute_bytes &&
	                        host_bytes(table) >= host_bytes(sums) &&
	                        table->device_context_bytes == sums->device_context_bytes);
}
