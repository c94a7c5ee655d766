#include "engine/redactor.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static const char mark[] = "[redacted]";

void redactor_add(struct redactor *redactor, const char *secret)
{
	size_t length = strlen(secret);

	if (length < SECRET_BYTES_MIN || length > SECRET_BYTES_MAX)
		return;
	redactor->secret = xrealloc(redactor->secret, (redactor->secrets + 1) * sizeof(*redactor->secret));
	redactor->secret[redactor->secrets++] = xstrdup(secret);
	redactor->first[(unsigned char)secret[0]] = true;
}

/*
 * How many bytes at the front are a secret, the longest one; 0 = none. Where all
 * that is there may be the beginning of one, `*unsure` is set.
 */
static size_t secret_at(const struct redactor *redactor, struct str text, bool *unsure)
{
	size_t longest = 0;

	*unsure = false;
	for (size_t i = 0; i < redactor->secrets; i++) {
		size_t length = strlen(redactor->secret[i]);
		size_t compared = length < text.length ? length : text.length;
		if (memcmp(redactor->secret[i], text.data, compared) != 0)
			continue;
		if (compared < length)
			*unsure = true;
		else if (length > longest)
			longest = length;
	}
	return longest;
}

/* Takes what is decided off the front of `text`, and returns the rest. */
static struct str pass(const struct redactor *redactor, struct str text, bool last, struct buf *out)
{
	size_t plain = 0; /* bytes at the front that go through as they are */

	while (plain < text.length) {
		bool unsure;
		struct str rest = { text.data + plain, text.length - plain };
		if (!redactor->first[(unsigned char)*rest.data]) {
			plain++;
			continue;
		}
		size_t length = secret_at(redactor, rest, &unsure);
		if (unsure && !last)
			break;
		if (length == 0) {
			plain++;
			continue;
		}
		buf_append(out, text.data, plain);
		buf_append(out, mark, sizeof(mark) - 1);
		text.data += plain + length;
		text.length -= plain + length;
		plain = 0;
	}
	buf_append(out, text.data, plain);
	return (struct str){ text.data + plain, text.length - plain };
}

static void run(struct redactor *redactor, struct str bytes, bool last, struct buf *out)
{
	if (buf_length(&redactor->held) == 0) {
		struct str rest = pass(redactor, bytes, last, out);
		buf_append_str(&redactor->held, rest);
		return;
	}
	buf_append_str(&redactor->held, bytes);
	struct str rest = pass(redactor, buf_str(&redactor->held), last, out);
	buf_consume(&redactor->held, buf_length(&redactor->held) - rest.length);
}

void redactor_feed(struct redactor *redactor, struct str bytes, struct buf *out)
{
	run(redactor, bytes, false, out);
}

void redactor_flush(struct redactor *redactor, struct buf *out)
{
	run(redactor, STR(""), true, out);
}

void redactor_clear(struct redactor *redactor)
{
	for (size_t i = 0; i < redactor->secrets; i++) {
		explicit_bzero(redactor->secret[i], strlen(redactor->secret[i]));
		free(redactor->secret[i]);
	}
	free(redactor->secret);
	redactor->secret = NULL;
	redactor->secrets = 0;
	memset(redactor->first, 0, sizeof(redactor->first));
}

void redactor_release(struct redactor *redactor)
{
	redactor_clear(redactor);
	buf_release(&redactor->held);
}

bool names_secret(const char *name)
{
	static const char *const words[] = { "key", "keys", "apikey", "token", "secret", "password", "passwd",
		                             "passphrase", "credential", "credentials", "auth",
		                             "authorization" };
	struct str rest = str_from(name);

	while (rest.length) {
		size_t length = 0;
		while (length < rest.length && isalnum((unsigned char)rest.data[length]))
			length++;
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (str_equal_nocase((struct str){ rest.data, length }, str_from(words[i])))
				return true;
		length += length < rest.length;
		rest.data += length;
		rest.length -= length;
	}
	return false;
}

void redact_word(const char *word, bool *is_value, struct buf *out)
{
	struct str value, flag = str_cut(str_from(word), '=', &value);
	char name[64];
	bool secret = word[0] == '-' && str_copy(name, sizeof(name), flag) && names_secret(name);

	if (*is_value && word[0] != '-') {
		buf_append_str(out, STR("***"));
		*is_value = false;
		return;
	}
	*is_value = secret && !value.data;
	if (secret && value.data) {
		buf_append_str(out, flag);
		buf_append_str(out, STR("=***"));
		return;
	}
	char *shown = str_hide_passwords(xstrdup(word));
	buf_append_str(out, str_from(shown));
	free(shown);
}
