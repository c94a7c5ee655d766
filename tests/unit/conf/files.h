#ifndef TESTS_CONF_FILES_H
#define TESTS_CONF_FILES_H

#include <stddef.h>

#include "base/buf.h"
#include "conf/conf.h"

/*
 * files - a configuration from a text in a test. Each test runs in a folder of
 * its own, and its file is c.yaml there.
 */
int files_setup(void **state);
int files_teardown(void **state);

void files_write(const void *bytes, size_t count); /* as c.yaml */
/* Load c.yaml; what was said goes to `said` ("" where nothing was). */
struct conf *files_load(struct buf *said);
struct conf *files_load_text(const char *text, struct buf *said);

#endif
