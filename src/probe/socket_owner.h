#ifndef PROBE_SOCKET_OWNER_H
#define PROBE_SOCKET_OWNER_H

#include <sys/socket.h>
#include <sys/types.h>

/*
 * socket_owner - which process listens at an address of this machine.
 *
 * The kernel's table of sockets has the inode, the descriptors of processes name
 * it. Those of other users cannot be read without privileges: then nobody is
 * found. Where several share the socket it is the one that was there first.
 *
 * Reads all of /proc: on a worker.
 */
pid_t socket_owner(const char *root, const struct sockaddr *address); /* 0: not known */

#endif
