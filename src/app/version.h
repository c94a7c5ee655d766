#ifndef APP_VERSION_H
#define APP_VERSION_H

/*
 * version - which cotenant this is: the build says so on the compiler's command line.
 *
 * Who compiles a file by itself (an editor, an analyser) has no build to say it.
 */
#ifndef COTENANT_VERSION
#define COTENANT_VERSION "of no build"
#endif

#endif
