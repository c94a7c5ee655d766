#include "io/keeper_proto.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room for one descriptor; the union aligns it. */
union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

int keeper_send(int socket, const void *message, size_t bytes, int fd, int flags)
{
	union control control;
	struct iovec part = { .iov_base = (void *)(uintptr_t)message, .iov_len = bytes };
	struct msghdr head = { .msg_iov = &part, .msg_iovlen = 1 };

	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		head.msg_control = control.bytes;
		head.msg_controllen = sizeof(control.bytes);
		struct cmsghdr *rights = CMSG_FIRSTHDR(&head);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
	}
	for (;;) {
		if (sendmsg(socket, &head, flags | MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

ssize_t keeper_receive(int socket, void *message, size_t bytes, int *out_fd, int flags)
{
	union control control;
	struct iovec part = { .iov_base = message, .iov_len = bytes };
	struct msghdr head = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};

	*out_fd = -1;
	for (;;) {
		ssize_t length = recvmsg(socket, &head, flags | MSG_CMSG_CLOEXEC);
		if (length < 0 && errno == EINTR)
			continue;
		if (length < 0)
			return -errno;
		struct cmsghdr *rights = CMSG_FIRSTHDR(&head);
		if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS)
			memcpy(out_fd, CMSG_DATA(rights), sizeof(*out_fd));
		return length;
	}
}
