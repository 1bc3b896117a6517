/* A helper process that notes the moment at which the owner of a context died. */
#ifndef FG_WATCHER_H
#define FG_WATCHER_H

/* Starts it for the context file `path` (absolute). It is a child of PID 1 in a session of its own, without
 * the caller's descriptors, environment or command line, so it can be mistaken for no part of the engine. */
void fg_watch(const char *path);

#endif
