/*
 * config-docs [FILE]: print doc/config.md; or, given the file, fail where it is
 * not what the schema says now.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "conf/conf.h"

int main(int argc, char **argv)
{
	struct buf wanted = BUF_INIT, found = BUF_INIT;
	size_t got;
	int status = 0;

	conf_print_docs(&wanted);
	if (argc < 2) {
		fwrite(wanted.data, 1, buf_length(&wanted), stdout);
	} else {
		FILE *file = fopen(argv[1], "re");
		while (file && (got = fread(buf_reserve(&found, 4096), 1, 4096, file)) > 0)
			buf_commit(&found, got);
		if (file)
			fclose(file);
		status = !str_equal(buf_str(&wanted), buf_str(&found));
		if (status)
			fprintf(stderr, "%s is out of date; run: build/tests/unit/conf/config-docs > doc/config.md\n",
			        argv[1]);
	}
	buf_release(&wanted);
	buf_release(&found);
	return status;
}
