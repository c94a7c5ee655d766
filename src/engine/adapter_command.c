/*
 * Any program that serves HTTP: told its port or socket, asked for its health.
 */
#include <errno.h>
#include <string.h>

#include "engine/adapter.h"

/* Whether the program has such a path, it alone knows. */
static const struct route_row routes[] = {
	{ .pattern = "POST *", .route = ROUTE_WORK, .unknown = true },
	{ .pattern = "GET *", .route = ROUTE_LOOK, .unknown = true },
};

static const struct load_stage stages[] = { { NULL, 0 } };
static const char *const ready_hints[] = { "istening", "unning on", "tartup complete", NULL };
static const char *const telling[] = {
	"rror", "ERROR", "xception", "Traceback", "fatal", "FATAL", "panic", "annot ", "ailed", NULL,
};
static const char *const hopeless[] = { NULL };

static bool any_has(const struct conf_strings *texts, const char *what)
{
	for (size_t i = 0; i < texts->count; i++)
		if (strstr(texts->items[i], what))
			return true;
	return false;
}

static bool is_told(const struct conf_model *model, const char *what)
{
	return any_has(&model->cmd_argv, what) || any_has(&model->args, what);
}

static int address(const struct conf_model *model, enum address *out, struct err *err)
{
	if (is_told(model, "${SOCKET}"))
		*out = ADDRESS_UNIX;
	else if (is_told(model, "${PORT}"))
		*out = ADDRESS_LOOPBACK;
	else
		return err_set(err, -EINVAL,
		               "model '%s': cmd: it must be told where to listen: write ${PORT} or ${SOCKET}",
		               model->name);
	return 0;
}

static int command(const struct launch_request *request, struct words *argv, struct err *err)
{
	const struct conf_model *model = request->model;

	if (model->cmd_argv.count == 0)
		return err_set(err, -EINVAL, "model '%s': engine command needs a `cmd`", model->name);
	launch_add(request, &model->cmd_argv, argv);
	launch_add(request, &model->args, argv);
	return 0;
}

const struct adapter adapter_command = {
	.kind = CONF_ENGINE_COMMAND,
	.name = "command",
	.drain = { .term_again_ms = 0, .kill_ms = 10000 },
	.log = { stages, ready_hints, telling, hopeless },
	.takes = "any POST",
	.routes = routes,
	.route_count = sizeof(routes) / sizeof(routes[0]),
	.address = address,
	.command = command,
};
