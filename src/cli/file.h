#ifndef CLI_FILE_H
#define CLI_FILE_H

#include <stddef.h>

/* Writes the text to the file of this name and returns 0, or errno.
 *
 * A regular file is replaced when all of the text is written, so that a reader always finds a whole
 * one; a new file appears in the same way. Behind a symbolic link this is done where the link
 * leads, and the link stays. Anything else, such as a device or a pipe, is written into. */
int cli_file_write(const char *path, const char *text);

/* Appends the bytes to the file of this name, which is made if there is none, and returns 0, or
 * errno. They are written at once, so that other programs can append to the same file. This waits
 * for no reader of a pipe. */
int cli_file_append(const char *path, const char *bytes, size_t size);

#endif
