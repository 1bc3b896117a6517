/* lxc-attach -n NAME --keep-env|--clear-env -- COMMAND ARGS...
 *
 * Run a command inside a container of this node, as the tool of that name does: own
 * argv, no shell, the helper stays outside and hands the exit code on. The command
 * survives the helper. /run/lxc/NAME.pid names the container's init; while
 * /run/lxc/NAME.frozen exists nothing gets in.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUN_DIR "/run/lxc"
#define SPACES 5

static const char *const SPACE_NAMES[SPACES] = {"pid", "net", "uts", "ipc", "mnt"}; /* mnt last: paths change */

static int complain(const char *name, const char *where, int line, const char *what) {
  fprintf(stderr, "lxc-attach: %s: ../src/lxc/attach.c: %s: %d %s\n", name, where, line, what);
  return 1;
}

static int init_pid(const char *name) {
  char path[256];
  int pid = 0;
  snprintf(path, sizeof path, RUN_DIR "/%s.pid", name);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  if (fscanf(file, "%d", &pid) != 1) pid = 0;
  fclose(file);
  return pid;
}

static void wait_for_thaw(const char *name) {
  const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
  char path[256];
  snprintf(path, sizeof path, RUN_DIR "/%s.frozen", name);
  while (access(path, F_OK) == 0) nanosleep(&pause, NULL);
}

/* Where the container has a control group, the command goes into one beside all that its systemd has made. */
static void join_group(const char *name, int pid) {
  char path[512];
  snprintf(path, sizeof path, "/sys/fs/cgroup/lxc/%s/ns/.lxc", name);
  if (mkdir(path, 0755) && errno != EEXIST) return;
  strncat(path, "/cgroup.procs", sizeof path - strlen(path) - 1);
  int group = open(path, O_WRONLY | O_CLOEXEC);
  if (group < 0 || write(group, "0", 1) != 1) return;
  close(group);
  snprintf(path, sizeof path, "/proc/%d/ns/cgroup", pid);
  int space = open(path, O_RDONLY | O_CLOEXEC);
  if (space >= 0 && setns(space, 0) == 0) close(space);
}

static int join_spaces(int pid) {
  int fds[SPACES];
  char path[64];
  for (int i = 0; i < SPACES; i++) {
    snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, SPACE_NAMES[i]);
    if ((fds[i] = open(path, O_RDONLY | O_CLOEXEC)) < 0) return -1;
  }
  for (int i = 0; i < SPACES; i++) {
    if (setns(fds[i], 0)) return -1;
    close(fds[i]);
  }
  return 0;
}

static void set_environment(int keep) {
  if (!keep) {
    clearenv();
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
  }
  setenv("container", "lxc", 1);
  setenv("TERM", "linux", 1);
}

static void run(const char *name, char **command) {
  execvp(command[0], command);
  int code = errno == ENOENT ? 127 : 126;
  fprintf(stderr, "lxc-attach: %s: ../src/lxc/attach.c: lxc_attach_run_command: 1841 %s - Failed to exec \"%s\"\n",
          name, strerror(errno), command[0]);
  _exit(code);
}

static int wait_for(pid_t child) {
  int status = 0;
  signal(SIGINT, SIG_IGN);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int count, char **argv) {
  if (count < 6 || strcmp(argv[1], "-n") || strcmp(argv[4], "--")) {
    fprintf(stderr, "usage: lxc-attach -n NAME --keep-env|--clear-env -- COMMAND...\n");
    return 1;
  }
  const char *name = argv[2];
  char directory[4096];
  if (!getcwd(directory, sizeof directory)) strcpy(directory, "/");
  wait_for_thaw(name);
  int pid = init_pid(name);
  if (pid) join_group(name, pid);
  if (!pid || join_spaces(pid)) {
    complain(name, "get_attach_context", 406, "Connection refused - Failed to get init pid");
    return complain(name, "lxc_attach", 1470, "Connection refused - Failed to get attach context");
  }
  if (chdir(directory) && chdir("/")) return complain(name, "lxc_attach", 1470, strerror(errno));
  set_environment(!strcmp(argv[3], "--keep-env"));
  pid_t child = fork(); /* only a child enters the pid namespace */
  if (child < 0) return complain(name, "lxc_attach", 1525, strerror(errno));
  if (child == 0) run(name, argv + 5);
  return wait_for(child);
}
