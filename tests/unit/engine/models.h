#ifndef TEST_ENGINE_MODELS_H
#define TEST_ENGINE_MODELS_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "conf/conf.h"

/* A configuration from text, as the daemon would read it. Fails the test where it is refused. */
static inline struct conf *conf_from(const char *yaml)
{
	char path[] = "/tmp/engine-test-XXXXXX";
	struct buf problems = BUF_INIT;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, yaml, strlen(yaml)), (ssize_t)strlen(yaml));
	close(fd);
	struct conf *conf = conf_load(path, &problems);
	if (!conf)
		fail_msg("%s", buf_cstr(&problems));
	buf_release(&problems);
	unlink(path);
	return conf;
}

#endif
