/* From an order to a process: where it listens, the group it is born in, its words. */
#include "engine/instance.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "io/keeper.h"

/* Free now. Somebody may take it before the engine binds it; then the engine says so. */
static int free_port(uint16_t *out)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int code = 0;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, bytes) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &bytes) < 0)
		code = -errno;
	close(fd);
	*out = ntohs(address.sin_port);
	return code;
}

static int make_key(char out[65])
{
	unsigned char bytes[32];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static int choose_endpoint(struct instance *instance, uint64_t sequence, struct err *err)
{
	const struct supervisor *supervisor = instance->supervisor;
	struct endpoint *endpoint = &instance->endpoint;
	enum address address;

	/* It says itself where it listens. */
	if (instance->model->url) {
		endpoint->port = instance->model->url_port;
		return 0;
	}
	int code = instance->adapter->address(instance->model, &address, err);
	if (code < 0)
		return code;
	if (address == ADDRESS_UNIX) {
		int length = snprintf(endpoint->path, sizeof(endpoint->path), "%s/engine-%llu.sock",
		                      supervisor->socket_dir, (unsigned long long)sequence);
		if (length > 0 && (size_t)length < sizeof(endpoint->path)) {
			unlink(endpoint->path);
			return 0;
		}
		endpoint->path[0] = '\0';
		if (instance->adapter == &adapter_command)
			return err_set(err, -ENAMETOOLONG, "model '%s': the path of its socket in %.200s is too long",
			               instance->model->name, supervisor->socket_dir);
		address = ADDRESS_LOOPBACK_KEY;
	}
	code = free_port(&endpoint->port);
	if (code == 0 && address == ADDRESS_LOOPBACK_KEY)
		code = make_key(endpoint->key);
	if (code < 0)
		return err_set(err, code, "model '%s': no free port on 127.0.0.1: %s", instance->model->name,
		               strerror(-code));
	return 0;
}

/* Without such a socket nobody could ask the library: then it is left out. */
static void choose_lazy_socket(struct instance *instance, uint64_t sequence)
{
	int length = snprintf(instance->lazy_socket, sizeof(instance->lazy_socket), "%s/engine-%llu-lazy.sock",
	                      instance->supervisor->socket_dir, (unsigned long long)sequence);

	if (length < 0 || (size_t)length >= sizeof(instance->lazy_socket))
		instance->lazy_socket[0] = '\0';
	else
		unlink(instance->lazy_socket);
}

/* Without it the engine runs as well; it only keeps more. */
static void make_group(struct instance *instance, int64_t bound_bytes)
{
	const struct bounds *bounds = &instance->supervisor->bounds;
	struct err err = { 0 };

	if (bound_bytes <= 0 || bounds->refused)
		return;
	if (bound_make(bounds, instance->spawn_id, bound_bytes, instance->group, &err) < 0)
		log_warn("%s: what it maps is not bounded: %s", instance->model->name, err.text);
	else
		instance->bound_bytes = bound_bytes;
}

static int start_process(struct instance *instance, struct err *err)
{
	const struct supervisor *supervisor = instance->supervisor;
	struct launch_request request = {
		.model = instance->model,
		.slots = instance->slots,
		.context_tokens = instance->context_tokens,
		.tuning = instance->tuning,
		.endpoint = &instance->endpoint,
		.environment = (const char *const *)environ,
		.lazy_library = instance->lazy_socket[0] ? instance->lazy_library : NULL,
		.lazy_socket = instance->lazy_socket,
		.save_folder = instance->save_folder,
	};
	struct launch launch;
	int log_fd;
	int code = adapter_launch(instance->adapter, &request, &launch, err);

	if (code < 0)
		return code;
	if (supervisor->options.owner && supervisor->options.owner[0])
		words_add(&launch.env, supervisor->options.owner);
	const char *program = strrchr(launch.argv.items[0], '/');
	str_copy(instance->name, sizeof(instance->name),
	         str_from(program && program[1] ? program + 1 : launch.argv.items[0]));
	code = instance_open_log(instance, &log_fd);
	if (code < 0) {
		launch_release(&launch);
		return err_set(err, code, "model '%s': no pipe for its log: %s", instance->model->name,
		               strerror(-code));
	}
	struct keeper_command command = {
		.spawn_id = instance->spawn_id,
		.argv = (const char *const *)launch.argv.items,
		.env = (const char *const *)launch.env.items,
		.directory = supervisor->directory,
		.cgroup = instance->group[0] ? instance->group : NULL,
		.log_fd = log_fd,
	};
	code = keeper_spawn(supervisor->options.keeper, &command, err);
	close(log_fd);
	launch_release(&launch);
	return code;
}

int instance_start(struct instance *instance, const struct spawn_order *order, struct err *err)
{
	instance->lazy_library = order->lazy_library;
	instance->save_folder = order->save_folder;
	if (order->lazy_library)
		choose_lazy_socket(instance, order->sequence);
	int code = choose_endpoint(instance, order->sequence, err);
	instance_learn_secrets(instance);
	if (code < 0)
		return code;
	make_group(instance, order->bound_bytes);
	return start_process(instance, err);
}
