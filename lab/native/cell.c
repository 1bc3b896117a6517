/* cell PIDFILE PLAN: start one simulated machine and return when it is up.
 *
 * Three processes: the caller's child reads the verdict and exits; the monitor
 * stays outside the new pid namespace and waits; init is PID 1 inside it, carries
 * out the plan (plan.h), and then reaps orphans until it is told to stop.
 * Killing either monitor or init ends every process of the machine.
 */
#define _GNU_SOURCE
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPACES (CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC)

static int verdict = -1; /* pipe to whoever waits for "ok" or the reason why not */
static sigset_t waited;  /* signals that init takes by sigwait, never by handler */
static int stopping;
static char *arguments;
static size_t arguments_size;

void die(const char *format, ...) {
  char text[1024];
  va_list list;
  va_start(list, format);
  int size = vsnprintf(text, sizeof text - 1, format, list);
  va_end(list);
  text[size++] = '\n';
  if (write(verdict >= 0 ? verdict : 2, text, (size_t)size) < 0) _exit(2);
  _exit(1);
}

/* Show `title` as the command line: it lies in the words that main() was given. */
static void rename_process(const char *title) {
  memset(arguments, 0, arguments_size);
  strncpy(arguments, title, arguments_size - 1);
}

/* ---- PID 1 ---------------------------------------------------------------- */

static void reap(void) {
  while (waitpid(-1, NULL, WNOHANG) > 0) continue;
}

/* Signals stay blocked and are taken by sigtimedwait, so that an orphan is reaped
 * also when init had no child of its own when it began to wait. */
static void be_init(void) {
  const struct timespec soon = {.tv_nsec = 50 * 1000 * 1000};
  for (;;) {
    int number = stopping ? sigtimedwait(&waited, NULL, &soon) : sigwaitinfo(&waited, NULL);
    if (number == SIGTERM && !stopping) {
      stopping = 1;
      kill(-1, SIGTERM);
      kill(-1, SIGCONT);
    }
    reap();
    if (stopping && kill(-1, 0) && errno == ESRCH) _exit(0);
  }
}

static void init(const char *plan, int ready) {
  verdict = ready;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "init");
  rename_process("/sbin/init");
  umask(022);
  sigprocmask(SIG_BLOCK, &waited, NULL);
  if (unshare(SPACES)) die("unshare: %s", strerror(errno)); /* not the monitor: it keeps its files */
  carry_out(plan);
  if (write(ready, "ok\n", 3) != 3) _exit(1);
  close(ready);
  verdict = -1;
  make_way();
  be_init();
}

/* ---- outside -------------------------------------------------------------- */

static void write_pid(const char *path, pid_t pid) {
  char temporary[4096];
  snprintf(temporary, sizeof temporary, "%s.new", path);
  FILE *file = fopen(temporary, "we");
  if (!file) die("%s: %s", temporary, strerror(errno));
  fprintf(file, "%d\n", pid);
  fclose(file);
  if (rename(temporary, path)) die("%s: %s", path, strerror(errno));
}

static void forget_pid(const char *path, pid_t pid) {
  FILE *file = fopen(path, "re"); /* a newer machine may own the file by now */
  int there = 0;
  if (file && fscanf(file, "%d", &there) == 1 && there == pid) unlink(path);
  if (file) fclose(file);
}

static void quiet(void) {
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; null >= 0 && fd < 3; fd++) dup2(null, fd);
  if (null > 2) close(null);
}

static void monitor(const char *pidfile, const char *plan, int answer) {
  int ready[2];
  char text[1024];
  verdict = answer;
  setsid();
  prctl(PR_SET_NAME, "machine-monitor");
  rename_process("[machine monitor]");
  if (pipe2(ready, O_CLOEXEC)) die("pipe: %s", strerror(errno));
  if (unshare(CLONE_NEWPID)) die("unshare: %s", strerror(errno));
  pid_t child = fork();
  if (child == 0) {
    quiet();
    close(ready[0]);
    init(plan, ready[1]);
  }
  quiet();
  close(ready[1]);
  ssize_t size = read(ready[0], text, sizeof text - 1);
  if (size <= 0) die("the machine's init died at once");
  text[size] = 0;
  if (strcmp(text, "ok\n")) die("%s", strtok(text, "\n"));
  write_pid(pidfile, child);
  if (write(answer, "ok\n", 3) != 3) _exit(1);
  close(answer);
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  forget_pid(pidfile, child);
  _exit(0);
}

int main(int count, char **argv) {
  int answer[2];
  char text[1024];
  if (count != 3) die("usage: cell PIDFILE PLAN");
  sigemptyset(&waited);
  sigaddset(&waited, SIGCHLD);
  sigaddset(&waited, SIGTERM);
  if (pipe2(answer, O_CLOEXEC)) die("pipe: %s", strerror(errno));
  if (fork() == 0) {
    close(answer[0]);
    const char *pidfile = strdup(argv[1]), *plan = strdup(argv[2]);
    arguments = argv[0];
    arguments_size = (size_t)(argv[2] + strlen(argv[2]) - argv[0]);
    monitor(pidfile, plan, answer[1]);
  }
  close(answer[1]);
  ssize_t size = read(answer[0], text, sizeof text - 1);
  text[size > 0 ? size : 0] = 0;
  if (!strcmp(text, "ok\n")) return 0;
  fprintf(stderr, "cell: %s\n", size > 0 ? strtok(text, "\n") : "the monitor died");
  return 1;
}
