#ifndef APP_NOTIFY_H
#define APP_NOTIFY_H

/*
 * notify - tells systemd how we are, where it asked ($NOTIFY_SOCKET).
 *
 * The protocol is one datagram of "NAME=value" lines (sd_notify(3)); without
 * the variable nothing is sent.
 */
void notify_ready(void);
void notify_stopping(void);

#endif
