/* The input is cotenant.yaml: it is refused with a place, or what is printed of it loads to the same. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "conf/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct conf *load(const void *data, size_t size, struct buf *said)
{
	int fd = memfd_create("cotenant.yaml", MFD_CLOEXEC);
	char path[64];

	assert(fd >= 0);
	for (size_t done = 0; done < size;) {
		ssize_t wrote = write(fd, (const char *)data + done, size - done);
		assert(wrote > 0);
		done += (size_t)wrote;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct conf *conf = conf_load(path, said);
	close(fd);
	return conf;
}

static void check_printed(const struct conf *conf, void (*print)(const struct conf *, struct buf *))
{
	struct buf text = BUF_INIT, said = BUF_INIT;

	for (size_t i = 0; i < conf->key_count; i++)
		if (strncmp(conf->keys[i].key, "env-", 4) != 0)
			return; /* hidden: it is not meant to load */
	print(conf, &text);
	assert(!memmem(buf_str(&text).data, buf_length(&text), "s3cr3t", 6));
	struct conf *again = load(buf_str(&text).data, buf_length(&text), &said);
	if (!again)
		fprintf(stderr, "%s\n%s", buf_cstr(&text), buf_cstr(&said));
	assert(again);
	assert(conf_compare(conf, again, NULL) == CONF_CHANGE_NONE);
	conf_free(again);
	buf_release(&text);
	buf_release(&said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf said = BUF_INIT;

	if (memmem(data, size, "s3cr3t", 6))
		return 0;
	setenv("E", "env-s3cr3t", 1);
	setenv("HOME", "/h", 1);
	struct conf *conf = load(data, size, &said);
	if (conf) {
		check_printed(conf, conf_print);
		check_printed(conf, conf_print_json);
		conf_resolve(conf, STR("gpt-4o"), &said);
	} else {
		assert(strstr(buf_cstr(&said), ": error: "));
	}
	conf_free(conf);
	buf_release(&said);
	return 0;
}
