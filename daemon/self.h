/* How this program is started once more, and what lies beside it. */
#ifndef HAWK_DAEMON_SELF_H
#define HAWK_DAEMON_SELF_H

/* The path of the program that people start: of the tarball's launcher (packaging/tarball/launcher.c), if that started
 * this process, else of what runs. "": unknown. */
const char *self_path(void);
/* For execve: "/proc/self/exe", which stays what runs though its file was replaced, or the launcher. */
const char *self_exec(void);
/* Takes what the launcher said out of the environment, before anything is started. */
void self_init(void);

#endif
