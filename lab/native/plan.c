/* What a plan can say, and doing it. See plan.h; the words are in ACTS at the bottom. */
#define _GNU_SOURCE
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS 64

static void make_parents(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    if (mkdir(path, 0755) && errno != EEXIST) die("mkdir %s: %s", path, strerror(errno));
    *slash = '/';
  }
}

static void make_dir(char *path, mode_t mode) {
  make_parents(path);
  if (mkdir(path, mode) == 0) chmod(path, mode);
  else if (errno != EEXIST) die("mkdir %s: %s", path, strerror(errno));
}

static void make_file(char *path, mode_t mode) {
  make_parents(path);
  int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, mode);
  if (fd < 0) die("create %s: %s", path, strerror(errno));
  fchmod(fd, mode);
  close(fd);
}

static void read_only(const char *path) {
  struct { unsigned long long set, clear, propagation, userns; } attributes = {.set = 1 /* RDONLY */};
  const long mount_setattr_number = 442;
  const unsigned recursive = 0x8000;
  if (syscall(mount_setattr_number, AT_FDCWD, path, recursive, &attributes, sizeof attributes))
    die("make %s read-only: %s", path, strerror(errno));
}

static void mount_over(char *source, char *target) {
  struct stat info;
  if (stat(source, &info)) die("bind %s: %s", source, strerror(errno));
  struct stat there;
  if (stat(target, &there)) S_ISDIR(info.st_mode) ? make_dir(target, 0755) : make_file(target, 0644);
  if (mount(source, target, NULL, MS_BIND | MS_REC, NULL))
    die("bind %s on %s: %s", source, target, strerror(errno));
}

static void mount_new(const char *type, char *target, const char *options) {
  make_dir(target, 0755);
  if (mount(type, target, type, 0, options)) die("mount %s on %s: %s", type, target, strerror(errno));
}

static void act_root(char **w) {
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) die("private mounts: %s", strerror(errno));
  mount_over(w[1], w[1]);
  if (chdir(w[1])) die("chdir %s: %s", w[1], strerror(errno));
}

static void act_enter(char **w) {
  (void)w; /* the old root is stacked below the new one, then taken away */
  if (syscall(SYS_pivot_root, ".", ".")) die("pivot_root: %s", strerror(errno));
  if (umount2(".", MNT_DETACH)) die("umount of the old root: %s", strerror(errno));
  if (chdir("/")) die("chdir /: %s", strerror(errno));
}

static void act_bind(char **w) { mount_over(w[1], w[2]); }
static void act_robind(char **w) { mount_over(w[1], w[2]); read_only(w[2]); }
static void act_tmpfs(char **w) { mount_new("tmpfs", w[2], w[1]); }
static void act_devpts(char **w) { mount_new("devpts", w[2], w[1]); }
static void act_proc(char **w) { mount_new("proc", w[1], NULL); }
static void act_overlay(char **w) { mount_new("overlay", w[2], w[1]); }
static void act_dir(char **w) { make_dir(w[2], (mode_t)strtol(w[1], NULL, 8)); }
static void act_file(char **w) { make_file(w[2], (mode_t)strtol(w[1], NULL, 8)); }

static void act_link(char **w) {
  make_parents(w[2]);
  if (symlink(w[1], w[2]) && errno != EEXIST) die("link %s: %s", w[2], strerror(errno));
}

static void act_hostname(char **w) {
  if (sethostname(w[1], strlen(w[1]))) die("hostname: %s", strerror(errno));
}

static void act_loopback(char **w) {
  (void)w;
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request)) die("lo: %s", strerror(errno));
  close(fd);
}

/* What is started from here on is in the control group, and sees that one as the root of all. */
static void act_cgroup(char **w) {
  char file[4096];
  make_dir(w[1], 0755);
  snprintf(file, sizeof file, "%s/cgroup.procs", w[1]);
  int fd = open(file, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, "0", 1) != 1) die("join %s: %s", w[1], strerror(errno));
  close(fd);
  if (unshare(CLONE_NEWCGROUP)) die("unshare cgroup: %s", strerror(errno));
  umount2(w[2], MNT_DETACH); /* what came along with /sys; the same file system does not go on top of itself */
  if (mount("cgroup2", w[2], "cgroup2", 0, NULL)) die("mount cgroup2 on %s: %s", w[2], strerror(errno));
}

static char **successor; /* of our own PID 1 */

static void act_become(char **w) {
  static char *words[MAX_WORDS + 1];
  memcpy(words, w + 1, MAX_WORDS * sizeof *words);
  successor = words;
}

void make_way(void) {
  if (!successor) return;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execv(successor[0], successor);
  _exit(1);
}

static void act_env(char **w) { putenv(w[1]); }
static void act_unenv(char **w) { unsetenv(w[1]); }

static void act_run(char **w) {
  pid_t child = fork();
  if (child == 0) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    execv(w[1], w + 1);
    die("run %s: %s", w[1], strerror(errno));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (status) die("%s ended with status 0x%x", w[1], status);
}

static const struct { const char *word; int words; void (*act)(char **); } ACTS[] = {
    {"root", 2, act_root},       /* DIR: becomes /; targets below are relative to it */
    {"bind", 3, act_bind},       /* SOURCE TARGET (made if missing) */
    {"robind", 3, act_robind},   /* the same, read-only */
    {"overlay", 3, act_overlay}, /* OPTIONS TARGET */
    {"tmpfs", 3, act_tmpfs},     /* OPTIONS TARGET */
    {"devpts", 3, act_devpts},   /* OPTIONS TARGET */
    {"proc", 2, act_proc},       /* TARGET */
    {"dir", 3, act_dir},         /* MODE TARGET */
    {"file", 3, act_file},       /* MODE TARGET (left as it is when there) */
    {"link", 3, act_link},       /* TEXT TARGET */
    {"hostname", 2, act_hostname},
    {"loopback", 1, act_loopback},
    {"enter", 1, act_enter}, /* pivot; from here paths are those of the machine */
    {"cgroup", 3, act_cgroup}, /* DIR TARGET: a version 2 control group, made if missing; mounted on TARGET */
    {"become", 2, act_become}, /* COMMAND ARGS...: PID 1 becomes this once the plan is carried out */
    {"env", 2, act_env},     /* NAME=VALUE for later runs */
    {"unenv", 2, act_unenv},
    {"run", 2, act_run}, /* COMMAND ARGS...: must end with status 0 */
};

static void act_on(char *line) {
  char *words[MAX_WORDS + 1] = {0};
  int count = 0;
  for (char *word = strtok(line, "\t"); word && count < MAX_WORDS; word = strtok(NULL, "\t")) words[count++] = word;
  if (!count) return;
  for (size_t i = 0; i < sizeof ACTS / sizeof *ACTS; i++) {
    if (strcmp(ACTS[i].word, words[0])) continue;
    if (count < ACTS[i].words) die("plan: %s needs %d words", words[0], ACTS[i].words);
    ACTS[i].act(words);
    return;
  }
  die("plan: unknown act %s", words[0]);
}

void carry_out(const char *path) {
  static char plan[1 << 16]; /* kept: putenv points into it */
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) die("plan %s: %s", path, strerror(errno));
  ssize_t size = read(fd, plan, sizeof plan - 1);
  if (size < 0 || size == (ssize_t)sizeof plan - 1) die("plan %s: unreadable or too long", path);
  close(fd);
  char *rest = plan;
  for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) act_on(line);
}
