/* A page of doc/ that is made of a table: print it, or, given the file, fail where it says something else. */
#include <stdio.h>

#include "base/buf.h"

static inline int docs_main(int argc, char **argv, void (*print)(struct buf *out))
{
	struct buf wanted = BUF_INIT, found = BUF_INIT;
	size_t got;
	int status = 0;

	print(&wanted);
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
			fprintf(stderr, "%s is out of date; run: %s > it\n", argv[1], argv[0]);
	}
	buf_release(&wanted);
	buf_release(&found);
	return status;
}
