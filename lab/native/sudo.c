/* A look-alike of sudo for a machine's plain login: only `sudo -n COMMAND...`, and only what the panel meets of it.
 *
 * Who may is said by the machine's /etc/sudoers.lab, a login in each line; no real machine has that file, so outside
 * the lab this lets nobody in. As the real one it takes a fresh environment with root's HOME and a path of its own, and
 * closes everything but the first three files. Setuid root on the machines. */
#define _GNU_SOURCE
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECURE_PATH "/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static int may(const char *login) {
  FILE *file = fopen("/etc/sudoers.lab", "re");
  char name[64];
  int found = 0;
  while (file && fscanf(file, "%63s", name) == 1)
    if (!strcmp(name, login)) found = 1;
  if (file) fclose(file);
  return found;
}

static void fresh_environment(const char *login, uid_t uid) {
  const char *kept = getenv("TERM");
  char number[16], term[64];
  snprintf(term, sizeof term, "%s", kept ? kept : "");
  snprintf(number, sizeof number, "%u", uid);
  clearenv();
  setenv("PATH", SECURE_PATH, 1);
  setenv("HOME", "/root", 1);
  setenv("USER", "root", 1);
  setenv("LOGNAME", "root", 1);
  setenv("SUDO_USER", login, 1);
  setenv("SUDO_UID", number, 1);
  if (*term) setenv("TERM", term, 1);
}

int main(int count, char **words) {
  int first = 1, asks = 1;
  if (first < count && !strcmp(words[first], "-n")) first++, asks = 0;
  if (first < count && !strcmp(words[first], "--")) first++;
  if (first >= count || words[first][0] == '-') {
    fputs("usage: sudo -n COMMAND...\n", stderr);
    return 1;
  }
  uid_t uid = getuid();
  struct passwd *entry = getpwuid(uid);
  const char *login = entry ? entry->pw_name : "";
  if (uid && !may(login)) {
    if (asks) fputs("sudo: a terminal is required to read the password\n", stderr);
    fputs("sudo: a password is required\n", stderr);
    return 1;
  }
  char name[64];
  snprintf(name, sizeof name, "%s", login);
  if (setgid(0) || setuid(0)) {
    fputs("sudo: /lab/bin/sudo must be owned by uid 0 and have the setuid bit set\n", stderr);
    return 1;
  }
  fresh_environment(name, uid);
  close_range(3, ~0U, 0);
  execvp(words[first], words + first);
  fprintf(stderr, "sudo: %s: %s\n", words[first], errno == ENOENT ? "command not found" : strerror(errno));
  return 1;
}
