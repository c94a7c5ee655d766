#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "conf/bind.h"
#include "conf/check.h"
#include "conf/document.h"
#include "conf/written.h"

enum { FILE_MAX = 16 << 20 };

static const struct place whole_file = { 0, 0 };

static bool read_all(int fd, struct buf *out)
{
	for (;;) {
		ssize_t got = read(fd, buf_reserve(out, 65536), 65536);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return false;
		if (got == 0)
			return true;
		buf_commit(out, (size_t)got);
		if (buf_length(out) > FILE_MAX) {
			errno = EFBIG;
			return false;
		}
	}
}

/* Only a plain file: a FIFO or a device could hold the daemon up for ever. */
static bool read_file(const char *path, const char *instead, struct buf *out, struct problems *problems)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat stat = { 0 };
	bool good = false;

	if (fd < 0 || fstat(fd, &stat) < 0)
		problem_error(problems, whole_file, "cannot be read: %s; try: %s", strerror(errno), instead);
	else if (!S_ISREG(stat.st_mode))
		problem_error(problems, whole_file, "%s; try: %s",
		              S_ISDIR(stat.st_mode) ? "is a directory" : "is not a plain file", instead);
	else if (stat.st_size > FILE_MAX || (!(good = read_all(fd, out)) && errno == EFBIG))
		problem_error(problems, whole_file, "is larger than 16 MiB; try: another file");
	else if (!good)
		problem_error(problems, whole_file, "cannot be read: %s; try: %s", strerror(errno), instead);
	if (fd >= 0)
		close(fd);
	return good;
}

/* The folder of the file, absolute, so that the daemon may change its own. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *named = slash ? xstrndup(path, slash == path ? 1 : (size_t)(slash - path)) : xstrdup(".");
	char *folder = realpath(named, NULL);

	if (!folder)
		return named;
	free(named);
	return folder;
}

/* systemd may name several, colon-separated: the first is ours. */
static char *state_dir(void)
{
	const char *given = getenv("STATE_DIRECTORY"), *home = getenv("HOME");
	struct str rest;

	if (given && *given) {
		struct str first = str_cut(str_from(given), ':', &rest);
		return xstrndup(first.data, first.length);
	}
	if (!home || !*home) {
		const struct passwd *user = getpwuid(getuid());
		home = user ? user->pw_dir : "/";
	}
	return xasprintf("%s/.local/state/cotenant", home);
}

static struct str without_mark(struct str text)
{
	static const char mark[] = "\xEF\xBB\xBF"; /* some editors put it before UTF-8 */

	return str_starts(text, mark) ? (struct str){ text.data + 3, text.length - 3 } : text;
}

static struct conf *read_tree(const char *path, const struct node *root, struct problems *problems)
{
	struct conf *conf = xcalloc(1, sizeof(*conf));
	char *folder = folder_of(path);
	struct binder binder = {
		.conf = conf, .root = &schema_root, .problems = problems, .folder = folder,
	};

	conf->path = xstrdup(path);
	conf->is_blank = node_is_null(root);
	conf->state_dir = state_dir();
	bind_section(&binder, &schema_root, conf, root);
	if (problems->errors == 0)
		check_all(conf, root, problems);
	free(folder);
	return conf;
}

static struct node *open_tree(const char *path, const char *instead, struct problems *problems)
{
	struct buf text = BUF_INIT;
	struct node *root = NULL;

	if (read_file(path, instead, &text, problems))
		root = node_parse(without_mark(buf_str(&text)), problems);
	buf_release(&text);
	return root;
}

bool document_load(const struct document *document, const char *path, void *out, struct buf *told)
{
	struct problems problems = { .path = path };
	struct node *root = open_tree(path, document->instead, &problems);
	struct conf *no_conf = xcalloc(1, sizeof(*no_conf)); /* no macros, no defaults */
	char *folder = folder_of(path);
	struct binder binder = {
		.conf = no_conf, .root = document->root, .problems = &problems, .folder = folder,
	};

	if (root)
		bind_section(&binder, document->root, out, root);
	if (root && problems.errors == 0)
		document->check(out, root, &problems);
	bool good = problems_refusing(&problems) == 0;
	node_free(root);
	free(folder);
	conf_free(no_conf);
	problems_finish(&problems, told);
	return good;
}

struct conf *conf_load(const char *path, struct buf *out)
{
	struct problems problems = { .path = path };
	struct node *root = open_tree(path, "-f with the path of a YAML file", &problems);
	struct conf *conf = NULL;

	if (root)
		conf = read_tree(path, root, &problems);
	node_free(root);
	if (conf && problems_refusing(&problems)) {
		conf_free(conf);
		conf = NULL;
	}
	problems_finish(&problems, out);
	return conf;
}

void conf_free(struct conf *conf)
{
	if (!conf)
		return;
	for (size_t i = 0; i < conf->model_count; i++) {
		free(conf->models[i].engine_path);
		free(conf->models[i].url_authority);
		free(conf->models[i].url_host);
		free(conf->models[i].cmd);
	}
	section_free(&schema_root, conf);
	written_free(conf);
	free(conf->path);
	free(conf->state_dir);
	free(conf);
}

char *conf_find(const char *given)
{
	const char *named = given ? given : getenv("COTENANT_CONFIG"), *home = getenv("HOME");
	char *places[3] = {
		xstrdup("./cotenant.yaml"),
		xasprintf("%s/.config/cotenant/cotenant.yaml", home && *home ? home : ""),
		xstrdup("/etc/cotenant/cotenant.yaml"),
	};
	char *found = named && *named ? xstrdup(named) : NULL;

	for (size_t i = 0; i < 3; i++) {
		if (!found && access(places[i], F_OK) == 0)
			found = xstrdup(places[i]);
		free(places[i]);
	}
	return found;
}
