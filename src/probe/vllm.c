#include "probe/vllm.h"

#include <stdio.h>
#include <string.h>

#include "probe/lines.h"

enum { WORDS_BYTES = 8192, DEFAULT_PERMILLE = 900 };

/* "0.85" -> 850 */
static int permille_of(struct str text)
{
	struct str rest;
	int64_t whole, part;
	int scale = 100;

	if (!lines_number(text, &whole, &rest) || whole > 1)
		return -1;
	int permille = (int)whole * 1000;
	if (!str_starts(rest, "."))
		return permille;
	for (size_t i = 1; i < rest.length && scale > 0; i++, scale /= 10) {
		part = rest.data[i] - '0';
		if (part < 0 || part > 9)
			return -1;
		permille += (int)part * scale;
	}
	return permille;
}

/* The program, or the module that Python was told to run. */
static bool names_vllm(struct str word)
{
	return str_is(word, "vllm") || str_ends(word, "/vllm") || str_starts(word, "vllm.entrypoints.");
}

/* The value of an option, "--option value" or "--option=value"; data NULL where the word is another. */
static struct str value_of(struct str word, struct str next, const char *option)
{
	size_t length = strlen(option);

	if (str_is(word, option))
		return next;
	if (str_starts(word, option) && word.data[length] == '=')
		return (struct str){ word.data + length + 1, word.length - length - 1 };
	return (struct str){ NULL, 0 };
}

bool vllm_read(const char *root, pid_t pid, struct vllm *out)
{
	char name[48], text[WORDS_BYTES];
	struct str rest, word;
	bool is_vllm = false;

	snprintf(name, sizeof name, "/proc/%d/cmdline", (int)pid);
	int length = lines_read_all(root, name, text, sizeof text);
	if (length <= 0)
		return false;
	*out = (struct vllm){ .permille = DEFAULT_PERMILLE };
	rest = (struct str){ text, (size_t)length };
	while (rest.data && rest.length) {
		struct str behind;
		word = str_cut(rest, '\0', &rest);
		struct str next = rest.data ? str_cut(rest, '\0', &behind) : (struct str){ "", 0 };
		is_vllm = is_vllm || names_vllm(word);
		struct str share = value_of(word, next, "--gpu-memory-utilization");
		int permille = share.data ? permille_of(share) : -1;
		if (permille >= 0) {
			out->permille = permille;
			out->given = true;
		}
		out->cache_given = out->cache_given || value_of(word, next, "--kv-cache-memory-bytes").data;
	}
	return is_vllm;
}
